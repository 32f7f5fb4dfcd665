#include "tools/lib/trace/minimize/devices_player.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/record/codec.hpp"
#include "tools/lib/trace/minimize/device_follower.hpp"
#include "tools/lib/trace/reader/recorded_name.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"

namespace rtrs::tools {

// --- client ---

std::optional<ClientDevicesInput> ClientDevicesPlayer::prepare(const Input& input, std::uint32_t number,
                                                               const InputMeta& meta) {
  Input fed = input;
  number_ = number;
  const bool possible = visit_event([&](auto& one) { return can(one, meta); }, fed);
  return possible ? std::optional<Input>(std::move(fed)) : std::nullopt;
}

bool ClientDevicesPlayer::rename(rnbd::DeviceHandle& device, const InputMeta& meta) const {
  if (meta.request == InputMeta::kNone) return true;  // the recorded input had no valid device either
  const auto now = handles_.find(meta.request);
  if (now != handles_.end()) device = now->second;
  return now != handles_.end();
}

// Finds the pending message with the same kind and header.
bool ClientDevicesPlayer::can(trace::MessageDone& input, const InputMeta& meta) const {
  if (meta.about == InputMeta::kNothing) return false;
  const auto& recorded = *event_if<trace::SendMessage>(trace_->actions[meta.about]);
  const auto same = std::find_if(sent_.begin(), sent_.end(), [&recorded](const auto& one) {
    return one.second.kind == recorded.kind && one.second.header.view() == recorded.header.view();
  });
  if (same == sent_.end()) return false;
  input.token = same->first;
  return true;
}

bool ClientDevicesPlayer::can(trace::IoBegun& input, const InputMeta& meta) const {
  if (!rename(input.device, meta) || machine_.gate(input.device) != rnbd::Gate::go) return false;
  input.arrival = machine_.arrive(input.device);
  return true;
}

bool ClientDevicesPlayer::can(trace::IoDone& input, const InputMeta& meta) {
  const auto begun = begun_.find(meta.request);
  if (begun == begun_.end()) return false;
  input.device = begun->second.device;
  input.ticket = begun->second.ticket;
  begun_.erase(begun);
  return true;
}

template <class RnbdInput>
void ClientDevicesPlayer::feed(const RnbdInput& input, Actions& actions) {
  rnbd::ClientActions made;
  const auto take = [&actions, &made] {
    for (const rnbd::ClientAction& action : made)
      std::visit([&actions](const auto& one) { actions.emplace_back(trace::recorded(one)); }, action);
  };
  if constexpr (std::is_void_v<decltype(machine_.on(input, made))>) {
    machine_.on(input, made);
    take();
  } else {
    const auto outcome = machine_.on(input, made);
    take();
    actions.emplace_back(trace::recorded(outcome));
  }
}

void ClientDevicesPlayer::step(const Input& input, Actions& actions) {
  visit_event(
      [&](const auto& one) {
        using Event = std::remove_cvref_t<decltype(one)>;
        if constexpr (std::is_same_v<Event, trace::IoBegun>) {
          const trace::IoStarted started = machine_.begin_io(one);
          begun_[number_] = {one.device, started.ticket};
          actions.emplace_back(started);
        } else if constexpr (std::is_same_v<Event, trace::MapRequested>) {
          const std::string name = trace::recorded_name(one.name);
          feed(rnbd::MapRequested{name, one.mode}, actions);
        } else {
          if constexpr (std::is_same_v<Event, trace::MessageDone>) sent_.erase(one.token);
          feed(one, actions);
        }
      },
      input);
  for (const ClientDevicesAction& action : actions) {
    if (const auto* sent = event_if<trace::SendMessage>(action)) {
      sent_[sent->token] = *sent;
      last_token_ = sent->token;
    }
    const auto* mapped = event_if<trace::MapAnswered>(action);
    if (mapped != nullptr && mapped->error == 0) handles_[number_] = mapped->device;
  }
}

namespace {

// Translates an identifier from the run of `from` to the run of `here`. The key of both maps is the input
// that created the identifier. An identifier can be reused, so its latest creator counts. Returns false if
// the creating input was left out. An identifier that no input created stays unchanged, because only the
// recorded step uses it.
template <class Name, class Names>
bool rename_like(Name& name, const Names& from, const Names& here) {
  const auto before =
      std::find_if(from.rbegin(), from.rend(), [name](const auto& other) { return other.second == name; });
  if (before == from.rend()) return true;
  const auto now = here.find(before->first);
  if (now != here.end()) name = now->second;
  return now != here.end();
}

}  // namespace

std::optional<ClientDevicesAction> ClientDevicesPlayer::renamed(const ClientDevicesAction& action,
                                                                const ClientDevicesPlayer& from) const {
  ClientDevicesAction result = action;
  const bool known = visit_event(
      [&](auto& one) {
        if constexpr (requires { one.device; }) {
          return rename_like(one.device, from.handles_, handles_);
        } else if constexpr (requires { one.token; }) {
          one.token = one.token - from.last_token_ + last_token_;
        }
        return true;
      },
      result);
  return known ? std::optional(std::move(result)) : std::nullopt;
}

// --- server ---

ServerDevicesPlayer::ServerDevicesPlayer(const ServerDevicesInputs& trace)
    : trace_(&trace), machine_(trace.config) {
  for (const InputMeta& meta : trace.metas)
    if (meta.gives != 0) given_.insert(meta.gives);
}

std::optional<ServerDevicesInput> ServerDevicesPlayer::prepare(const Input& input, std::uint32_t,
                                                               const InputMeta& meta) {
  Input fed = input;
  owner_ = meta.request;
  const bool possible = visit_event([&](auto& one) { return can(one, meta); }, fed);
  return possible ? std::optional<Input>(std::move(fed)) : std::nullopt;
}

// An id that no OPEN returned is invalid in every run, so it stays unchanged.
bool ServerDevicesPlayer::rename(std::uint32_t& device_id) const {
  if (!given_.contains(device_id)) return true;
  const auto now = called_.find(device_id);
  if (now != called_.end()) device_id = now->second;
  return now != called_.end();
}

bool ServerDevicesPlayer::rename_operation(std::uint16_t& operation, const InputMeta& meta) const {
  const auto now = operations_.find(meta.request);
  if (now != operations_.end()) operation = now->second;
  return now != operations_.end();
}

template <class Request>
bool ServerDevicesPlayer::can_request(Request& input) const {
  if (closed_) return false;
  const auto named = trace::rnbd_device_of(input.header.span());
  if (!named) return true;
  std::uint32_t device_id = *named;
  if (!rename(device_id)) return false;
  constexpr std::size_t kIdAt = 4;  // offset of the device id in CLOSE and IO messages
  for (std::size_t byte = 0; byte < sizeof device_id; ++byte)
    input.header.units[kIdAt + byte] = static_cast<std::byte>(device_id >> 8 * byte);
  return true;
}

void ServerDevicesPlayer::step(const Input& input, Actions& actions) {
  rnbd::ServerActions made;
  visit_event(
      [&](const auto& one) {
        if constexpr (requires { one.header; }) requests_[one.request] = owner_;
        if constexpr (std::is_same_v<decltype(one), const trace::SessionClosed&>) closed_ = true;
        machine_.on(one, made);
      },
      input);
  for (const rnbd::ServerAction& action : made)
    std::visit([&actions](const auto& one) { actions.emplace_back(trace::recorded(one)); }, action);
  observe(actions);
}

std::optional<ServerDevicesAction> ServerDevicesPlayer::renamed(const ServerDevicesAction& action,
                                                                const ServerDevicesPlayer& from) const {
  ServerDevicesAction result = action;
  const bool known = visit_event(
      [&](auto& one) {
        // The caller chooses the numbers of requests and export handles, so they are equal in both runs.
        if constexpr (requires { one.operation; })
          return rename_like(one.operation, from.operations_, operations_);
        else
          return true;
      },
      result);
  return known ? std::optional(std::move(result)) : std::nullopt;
}

void ServerDevicesPlayer::observe(const Actions& actions) {
  for (const ServerDevicesAction& action : actions) {
    visit_event(
        [this](const auto& one) {
          const std::uint32_t owner = owner_of(one, requests_, owner_);
          if (owner == InputMeta::kNone) return;
          if constexpr (requires { one.operation; }) operations_[owner] = one.operation;
          if constexpr (requires { one.response; }) {
            const std::uint32_t recorded = trace_->metas[owner].gives;
            const auto now = trace::rnbd_device_of(one.response.span());
            if (recorded != 0 && now) called_[recorded] = *now;
          }
        },
        action);
  }
}

}  // namespace rtrs::tools
