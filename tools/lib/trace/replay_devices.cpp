#include "tools/lib/trace/replay_devices.hpp"

#include <array>
#include <string>
#include <type_traits>

#include "core/rnbd/client_devices.hpp"
#include "tools/lib/trace/replay_adapter.hpp"

namespace rtrs::trace {
namespace {

// The bytes of which name_text() made this text.
std::string name_of(const NameText& recorded) {
  const std::string_view text = recorded.view();
  const auto digit = [](char c) -> unsigned {
    return static_cast<unsigned>(c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0);
  };
  std::string name;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size() && text[at + 1] == 'x') {
      name += static_cast<char>(digit(text[at + 2]) << 4 | digit(text[at + 3]));
      at += 3;
    } else {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      name += text[at];
    }
  }
  return name;
}

// One overload an input: from its record to the machine and what that did.
class ClientDevicesReplay final : public ReplayMachine {
 public:
  bool feed(const Record& input, const FieldMap& map, Effects& effects) override {
    actions_.clear();
    switch (input.event->id) {
#define RTRS_REPLAY_INPUT(number, event_class, type) \
  case number:                                       \
    return on(get_struct<type>(input, map), effects);
      RTRS_TRACE_CLIENT_DEVICES(RTRS_REPLAY_INPUT)
#undef RTRS_REPLAY_INPUT
      default:
        return false;
    }
  }
  std::uint64_t fingerprint() const override {
    return machine_.fingerprint();
  }
  const char* broken_invariant() const override {
    return broken_rule(machine_);
  }
  const char* load(std::string_view bytes, std::uint64_t layout) override {
    return load_state(machine_, bytes, layout);
  }
  StateText text() const override {
    return state_text(machine_);
  }

 private:
  template <class Input>
  bool step(const Input& input, Effects& effects) {
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
  void add(Effects& effects) const {
    for (const rnbd::ClientAction& action : actions_)
      std::visit([&effects](const auto& one) { effects.add_event(recorded(one)); }, action);
  }

  // Begins and actions are no inputs.
  template <class Other>
  static bool on(const Other&, Effects&) {
    return false;
  }
  bool on(const LinkUp& event, Effects& effects) {
    return step(rnbd::LinkUp{event.extended}, effects);
  }
  bool on(const LinkDown&, Effects& effects) {
    return step(rnbd::LinkDown{}, effects);
  }
  bool on(const MapRequested& event, Effects& effects) {
    const std::string name = name_of(event.name);
    return step(rnbd::MapRequested{name, event.mode}, effects);
  }
  bool on(const UnmapRequested& event, Effects& effects) {
    return step(rnbd::UnmapRequested{event.device}, effects);
  }
  bool on(const RemapRequested& event, Effects& effects) {
    return step(rnbd::RemapRequested{event.device}, effects);
  }
  bool on(const MessageDone& event, Effects& effects) {
    return step(rnbd::MessageDone{event.token, event.delivered, event.peer_errno, event.response.span()},
                effects);
  }
  bool on(const IoBegun& event, Effects& effects) {
    // A machine that would hold or refuse the IO does nothing here, and the recorded IoStarted tells of it.
    if (machine_.gate(event.device) != rnbd::Gate::go) return true;
    rnbd::IoTicket before;
    before.nature = event.nature;
    before.arrival = event.arrival;
    effects.add_event(recorded(machine_.begin_io(event.device, before)));
    return true;
  }
  bool on(const IoDone& event, Effects& effects) {
    if (machine_.io_in_flight(event.device) == 0) return true;  // it did not begin, as above
    rnbd::IoTicket ticket;
    ticket.nature = event.nature;
    ticket.arrival = event.arrival;
    ticket.doomed = event.doomed;
    ticket.losses = event.losses;
    ticket.cache = event.cache;
    return step(rnbd::IoDone{event.device, event.delivered, event.peer_errno, ticket}, effects);
  }
  bool on(const RetryDue&, Effects& effects) {
    return step(rnbd::RetryDue{}, effects);
  }
  bool on(const ReopenDue&, Effects& effects) {
    return step(rnbd::ReopenDue{}, effects);
  }

  rnbd::ClientDevices machine_;
  rnbd::ClientActions actions_;
};

}  // namespace

std::unique_ptr<ReplayMachine> make_client_devices() {
  return std::make_unique<ClientDevicesReplay>();
}

}  // namespace rtrs::trace
