// Follows recorded device state machines to find the earlier input that each input depends on. A shorter run
// needs this, because its handles, tokens, operations and ids differ from the recorded ones.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

class ClientDevicesFollower {
 public:
  // Returns the meta data of input number `index`.
  InputMeta meta(const ClientDevicesInput&, std::uint32_t index);
  // `at`: number of the action. `index`: number of the input that caused the action.
  void on_action(const ClientDevicesAction&, std::size_t at, std::uint32_t index);

 private:
  // The values that begin_io() assigns to an IO. The IoDone of the IO repeats them. An IO need not have an
  // IoDone.
  using Ticket = std::pair<rnbd::DeviceHandle, rnbd::IoTicket>;
  std::map<rnbd::DeviceHandle, std::uint32_t> maps_;   // index of the input that mapped the device
  std::map<std::uint64_t, std::size_t> sent_;          // number of the SendMessage action, by token
  std::map<Ticket, std::deque<std::uint32_t>> begun_;  // indexes of the inputs that began IOs, oldest first
  rnbd::DeviceHandle beginning_ = 0;                   // device of the last IoBegun
};

class ServerDevicesFollower {
 public:
  InputMeta meta(const ServerDevicesInput&, std::uint32_t index);
  // `metas`: meta data of all inputs so far. For a response to an OPEN, sets InputMeta::gives of the input.
  void on_action(const ServerDevicesAction&, std::vector<InputMeta>& metas, std::uint32_t index);

 private:
  std::map<std::uint64_t, std::uint32_t> requests_;    // index of the input, by request
  std::map<std::uint16_t, std::uint32_t> operations_;  // index of the request's input, by operation
};

// Returns the index of the input whose request an action belongs to. Uses the request number in the action;
// without one, returns `fallback`.
template <class Action>
std::uint32_t owner_of(const Action& action, const std::map<std::uint64_t, std::uint32_t>& requests,
                       std::uint32_t fallback) {
  if constexpr (requires { action.request; }) {
    const auto found = requests.find(action.request);
    return found == requests.end() ? InputMeta::kNone : found->second;
  } else {
    return fallback;
  }
}

}  // namespace rtrs::tools
