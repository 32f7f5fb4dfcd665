#include "tools/lib/minimize/device_follower.hpp"

#include <algorithm>
#include <type_traits>

#include "tools/lib/trace/rnbd_words.hpp"

namespace rtrs::tools {

namespace {

bool same(const rnbd::IoArrival& a, const rnbd::IoArrival& b) {
  return a.flush_told == b.flush_told && a.fua_told == b.fua_told && a.changes == b.changes;
}
bool same(const rnbd::IoNature& a, const rnbd::IoNature& b) {
  return a.changes == b.changes && a.durable == b.durable && a.flushes == b.flushes;
}
// That an IO ends with the ticket that it began with.
bool is_ticket_of(const trace::IoDone& done, const trace::IoStarted& started) {
  return done.losses == started.losses && done.cache == started.cache && done.doomed == started.doomed &&
         same(done.arrival, started.arrival) && same(done.nature, started.nature);
}

}  // namespace

InputMeta ClientDevicesFollower::meta(const ClientDevicesInput& input, std::uint32_t index) {
  InputMeta meta;
  visit_event(
      [&](const auto& one) {
        using Input = std::remove_cvref_t<decltype(one)>;
        if constexpr (std::is_same_v<Input, trace::IoDone>) {
          const auto begun = std::find_if(begun_.begin(), begun_.end(), [&one](const Begun& other) {
            return other.device == one.device && is_ticket_of(one, other.started);
          });
          if (begun == begun_.end()) return;
          meta.request = begun->input;
          begun_.erase(begun);
        } else if constexpr (std::is_same_v<Input, trace::MessageDone>) {
          if (const auto sent = sent_.find(one.token); sent != sent_.end()) meta.about = sent->second;
        } else if constexpr (requires { one.device; }) {
          if (const auto map = maps_.find(one.device); map != maps_.end()) meta.request = map->second;
          if constexpr (std::is_same_v<Input, trace::IoBegun>) begun_.push_back({index, one.device, {}});
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
    if (!begun_.empty() && begun_.back().input == index) begun_.back().started = *started;
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
