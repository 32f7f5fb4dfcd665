#include "tools/lib/trace/replay/replay_devices.hpp"

#include <array>
#include <string>
#include <type_traits>

#include "core/rnbd/client_devices.hpp"
#include "tools/lib/trace/reader/recorded_name.hpp"
#include "tools/lib/trace/replay/replay_adapter.hpp"

namespace rtrs::trace {
namespace {

// Common part of both device machines. Derived has an overload of on() for each input event.
template <class Derived, class Machine, class Actions>
class DevicesReplay : public ReplayMachine {
 public:
  std::uint64_t fingerprint() const override { return machine_.fingerprint(); }
  const char* broken_invariant() const override { return broken_rule(machine_); }
  const char* load(std::string_view bytes, std::uint64_t layout) override {
    return load_state(machine_, bytes, layout);
  }
  StateText text() const override { return state_text(machine_); }

 protected:
  template <class... Arguments>
  explicit DevicesReplay(Arguments&&... arguments) : machine_(std::forward<Arguments>(arguments)...) {}
  template <class Input>
  bool step(const Input& input, Effects& effects) {
    actions_.clear();
    if constexpr (std::is_void_v<decltype(machine_.on(input, actions_))>) {
      machine_.on(input, actions_);
      add(effects);
    } else {
      const auto outcome = machine_.on(input, actions_);
      add(effects);
      effects.add_event(recorded(outcome));
    }
    return true;
  }

  Machine machine_;

 private:
  void add(Effects& effects) const {
    for (const auto& action : actions_)
      std::visit([&effects](const auto& one) { effects.add_event(recorded(one)); }, action);
  }
  Actions actions_;
};

#define RTRS_REPLAY_INPUT(number, event_class, type) \
  case number:                                       \
    return on(get_struct<type>(input, map), effects);

class ClientDevicesReplay final
    : public DevicesReplay<ClientDevicesReplay, rnbd::ClientDevices, rnbd::ClientActions> {
 public:
  bool feed(const Record& input, const FieldMap& map, Effects& effects) override {
    switch (input.event->id) {
      RTRS_TRACE_CLIENT_DEVICES(RTRS_REPLAY_INPUT)
      default:
        return false;
    }
  }

 private:
  // Begins and actions are no inputs.
  template <class Other>
  static bool on(const Other&, Effects&) {
    return false;
  }
  bool on(const LinkUp& event, Effects& effects) { return step(rnbd::LinkUp{event.extended}, effects); }
  bool on(const LinkDown&, Effects& effects) { return step(rnbd::LinkDown{}, effects); }
  bool on(const MapRequested& event, Effects& effects) {
    const std::string name = recorded_name(event.name);
    return step(rnbd::MapRequested{name, event.mode}, effects);
  }
  bool on(const UnmapRequested& event, Effects& effects) {
    return step(rnbd::UnmapRequested{event.device}, effects);
  }
  bool on(const RemapRequested& event, Effects& effects) {
    return step(rnbd::RemapRequested{event.device}, effects);
  }
  bool on(const ResizeRequested& event, Effects& effects) {
    return step(rnbd::ResizeRequested{event.device, event.nsectors}, effects);
  }
  bool on(const MessageDone& event, Effects& effects) {
    return step(rnbd::MessageDone{event.token, event.delivered, event.peer_errno, event.response.span()},
                effects);
  }
  bool on(const IoBegun& event, Effects& effects) {
    // If the machine would hold or refuse the IO, it has no action here, and the recorded IoStarted shows the
    // difference.
    if (machine_.gate(event.device) != rnbd::Gate::go) return true;
    rnbd::IoTicket before;
    before.nature = event.nature;
    before.arrival = event.arrival;
    effects.add_event(recorded(machine_.begin_io(event.device, before)));
    return true;
  }
  bool on(const IoDone& event, Effects& effects) {
    if (machine_.io_in_flight(event.device) == 0) return true;  // the IO did not begin, see above
    rnbd::IoTicket ticket;
    ticket.nature = event.nature;
    ticket.arrival = event.arrival;
    ticket.doomed = event.doomed;
    ticket.losses = event.losses;
    ticket.cache = event.cache;
    return step(rnbd::IoDone{event.device, event.delivered, event.peer_errno, ticket}, effects);
  }
  bool on(const RetryDue&, Effects& effects) { return step(rnbd::RetryDue{}, effects); }
  bool on(const ReopenDue&, Effects& effects) { return step(rnbd::ReopenDue{}, effects); }
};

class ServerDevicesReplay final
    : public DevicesReplay<ServerDevicesReplay, rnbd::ServerDevices, rnbd::ServerActions> {
 public:
  explicit ServerDevicesReplay(const rnbd::ServerOptions& options) : DevicesReplay(options) {}
  bool feed(const Record& input, const FieldMap& map, Effects& effects) override {
    switch (input.event->id) {
      RTRS_TRACE_SERVER_DEVICES(RTRS_REPLAY_INPUT)
      default:
        return false;
    }
  }

 private:
  // Begins and actions are no inputs.
  template <class Other>
  static bool on(const Other&, Effects&) {
    return false;
  }
  bool on(const DeviceRequest& event, Effects& effects) { return request(event, effects); }
  bool on(const LongDeviceRequest& event, Effects& effects) { return request(event, effects); }
  template <class Event>
  bool request(const Event& event, Effects& effects) {
    return step(rnbd::DeviceRequest{event.request, event.direction, event.data_len, event.header.span()},
                effects);
  }
  // If the machine does not wait for the result, it has no action, and the recorded actions show the
  // difference.
  template <class Input>
  bool result(const Input& input, Effects& effects) {
    return !machine_.awaits(input) || step(input, effects);
  }
  bool on(const ExportOpened& event, Effects& effects) {
    return result(
        rnbd::ExportOpened{event.operation, event.error, event.handle, event.geometry, event.instance},
        effects);
  }
  bool on(const ExportMeasured& event, Effects& effects) {
    return result(rnbd::ExportMeasured{event.operation, event.nsectors}, effects);
  }
  bool on(const StorageDone& event, Effects& effects) {
    return result(rnbd::StorageDone{event.operation, event.error, event.sync_failed}, effects);
  }
  bool on(const SyncFailed& event, Effects& effects) {
    return step(rnbd::SyncFailed{event.handle, event.error}, effects);
  }
  bool on(const DeviceForceClosed& event, Effects& effects) {
    return step(rnbd::DeviceForceClosed{event.device_id}, effects);
  }
  bool on(const SessionClosed&, Effects& effects) { return step(rnbd::SessionClosed{}, effects); }
};

#undef RTRS_REPLAY_INPUT

}  // namespace

std::unique_ptr<ReplayMachine> make_client_devices() {
  return std::make_unique<ClientDevicesReplay>();
}

std::unique_ptr<ReplayMachine> make_server_devices(const rnbd::ServerOptions& options) {
  return std::make_unique<ServerDevicesReplay>(options);
}

}  // namespace rtrs::trace
