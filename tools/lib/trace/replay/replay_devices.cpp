#include "tools/lib/trace/replay/replay_devices.hpp"

#include <array>
#include <string>
#include <type_traits>

#include "core/rnbd/client_devices.hpp"
#include "tools/lib/trace/reader/recorded_name.hpp"
#include "tools/lib/trace/replay/replay_adapter.hpp"

namespace rtrs::trace {
namespace {

// Base class of both device machines. Derived has an overload of on() for each input event.
template <class Derived, class Machine, class Actions>
class DevicesReplay : public ReplayMachine {
 public:
  std::uint64_t fingerprint() const override { return machine_.fingerprint(); }
  const char* broken_invariant() const override { return broken_rule(machine_); }
  const char* load(std::string_view bytes, std::uint64_t layout) override {
    return load_state(machine_, bytes, layout);
  }
  StateText text() const override { return state_text(machine_); }
  std::string save(std::uint64_t& layout) const override { return save_state(machine_, layout); }

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
  // Ignores begin events and actions, which are not inputs.
  template <class Event>
  bool on(const Event& event, Effects& effects) {
    if constexpr (KindOf<Event>::category != EventClass::input)
      return false;
    else
      return step(event, effects);
  }
  bool on(const MapRequested& event, Effects& effects) {
    const std::string name = recorded_name(event.name);
    return step(rnbd::MapRequested{name, event.mode}, effects);
  }
  bool on(const IoBegun& event, Effects& effects) {
    // If the state machine would hold or refuse the IO, it takes no action, so that the recorded IoStarted is
    // reported as a divergence.
    if (machine_.gate(event.device) != rnbd::Gate::go) return true;
    effects.add_event(machine_.begin_io(event));
    return true;
  }
  bool on(const IoDone& event, Effects& effects) {
    if (machine_.io_in_flight(event.device) == 0) return true;  // the IO was held or refused at IoBegun
    return step(event, effects);
  }
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
  template <class Event>
  bool on(const Event& event, Effects& effects) {
    if constexpr (KindOf<Event>::category != EventClass::input) return false;
    // If the state machine awaits no result, it ignores the input, and the comparison with the recorded
    // actions reports the divergence.
    else if constexpr (requires { machine_.awaits(event); })
      return !machine_.awaits(event) || step(event, effects);
    else
      return step(event, effects);
  }
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
