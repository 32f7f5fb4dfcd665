// Follows machines of devices through the record, to find out what their inputs belong to when handles,
// tokens, operations and ids of a shorter run are others.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>

#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

class ClientDevicesFollower {
 public:
  // What input number `index` belongs to.
  InputMeta meta(const ClientDevicesInput&, std::uint32_t index);
  // `at`: number of the action, of input `index`.
  void on_action(const ClientDevicesAction&, std::size_t at, std::uint32_t index);

 private:
  // What an IO was told when it began, which its end tells again. A file may have any number that never end.
  using Ticket = std::tuple<rnbd::DeviceHandle, std::uint32_t, std::uint64_t, bool, std::uint64_t,
                            std::uint64_t, std::uint64_t, bool, bool, bool>;
  template <class Event>
  static Ticket ticket_of(rnbd::DeviceHandle, const Event&);
  std::map<rnbd::DeviceHandle, std::uint32_t> maps_;   // the input that mapped it
  std::map<std::uint64_t, std::size_t> sent_;          // action by token
  std::map<Ticket, std::deque<std::uint32_t>> begun_;  // the inputs that began such IOs, oldest first
  rnbd::DeviceHandle beginning_ = 0;                   // device of the last IO that began
};

class ServerDevicesFollower {
 public:
  InputMeta meta(const ServerDevicesInput&, std::uint32_t index);
  // `metas` of all inputs so far: a device that an OPEN gave is noted there.
  void on_action(const ServerDevicesAction&, std::vector<InputMeta>& metas, std::uint32_t index);

 private:
  std::map<std::uint64_t, std::uint32_t> requests_;    // the input that made it
  std::map<std::uint16_t, std::uint32_t> operations_;  // the request that it is for
};

// The input whose request an action is about: by the request that it names, else that of input `index`.
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
