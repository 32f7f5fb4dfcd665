#include "tools/lib/trace/minimize/device_follower.hpp"

#include <type_traits>

#include "tools/lib/trace/reader/rnbd_words.hpp"

namespace rtrs::tools {

InputMeta ClientDevicesFollower::meta(const ClientDevicesInput& input, std::uint32_t) {
  InputMeta meta;
  visit_event(
      [&](const auto& one) {
        using Input = std::remove_cvref_t<decltype(one)>;
        if constexpr (std::is_same_v<Input, trace::IoDone>) {
          const auto begun = begun_.find({one.device, one.ticket});
          if (begun == begun_.end()) return;
          meta.request = begun->second.front();
          begun->second.pop_front();
          if (begun->second.empty()) begun_.erase(begun);
        } else if constexpr (std::is_same_v<Input, trace::MessageDone>) {
          if (const auto sent = sent_.find(one.token); sent != sent_.end()) meta.about = sent->second;
        } else if constexpr (requires { one.device; }) {
          if (const auto map = maps_.find(one.device); map != maps_.end()) meta.request = map->second;
          if constexpr (std::is_same_v<Input, trace::IoBegun>) beginning_ = one.device;
        }
      },
      input);
  return meta;
}

void ClientDevicesFollower::on_action(const ClientDevicesAction& action, std::size_t at,
                                      std::uint32_t index) {
  if (const auto* sent = event_if<trace::SendMessage>(action)) {
    sent_[sent->token] = at;
  } else if (const auto* mapped = event_if<trace::MapAnswered>(action)) {
    if (mapped->error == 0) maps_[mapped->device] = index;
  } else if (const auto* started = event_if<trace::IoStarted>(action)) {
    begun_[{beginning_, started->ticket}].push_back(index);
  }
}

InputMeta ServerDevicesFollower::meta(const ServerDevicesInput& input, std::uint32_t index) {
  InputMeta meta;
  visit_event(
      [&](const auto& one) {
        if constexpr (requires { one.operation; }) {
          const auto found = operations_.find(one.operation);
          if (found != operations_.end()) meta.request = found->second;
        } else if constexpr (requires { one.header; }) {
          requests_[one.request] = meta.request = index;
        }
      },
      input);
  return meta;
}

void ServerDevicesFollower::on_action(const ServerDevicesAction& action, std::vector<InputMeta>& metas,
                                      std::uint32_t index) {
  visit_event(
      [&](const auto& one) {
        const std::uint32_t owner = owner_of(one, requests_, metas[index].request);
        if (owner == InputMeta::kNone) return;
        if constexpr (requires { one.operation; }) operations_[one.operation] = owner;
        if constexpr (requires { one.response; })
          metas[owner].gives = trace::rnbd_device_of(one.response.span()).value_or(0);
      },
      action);
}

}  // namespace rtrs::tools
