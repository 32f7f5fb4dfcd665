// Handwritten correct sequences of events of two machines of one process: a session and its block devices.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "conformance/spec/checker.hpp"

namespace rtrs::spec {

class HandedStory {
 public:
  using Any = std::variant<Event, DeviceEvent>;

  template <class Change>
  void add(unsigned machine, Kind kind, Change change) {
    Event event;
    event.kind = kind;
    change(event);
    events_.emplace_back(machine, event);
  }
  template <class Change>
  void add(unsigned machine, DeviceKind kind, Change change) {
    DeviceEvent event;
    event.kind = kind;
    change(event);
    events_.emplace_back(machine, event);
  }
  Event& at(Kind kind, int nth = 0) { return find<Event>(kind, nth); }
  DeviceEvent& at(DeviceKind kind, int nth = 0) { return find<DeviceEvent>(kind, nth); }
  template <class EventKind>
  void repeat(EventKind kind) {
    for (std::size_t place = 0; place < events_.size(); ++place)
      if (is(events_[place].second, kind)) {
        events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(place), events_[place]);
        return;
      }
  }

  Findings check() const {
    Checker checker(true);
    std::uint64_t seq = 0;
    for (const auto& [machine, any] : events_)
      std::visit(
          [&, number = machine](auto event) {
            event.now = event.seq = seq++;
            checker.on(number, event);
          },
          any);
    checker.finish();
    return checker.findings();
  }

 private:
  static bool is(const Any& any, Kind kind) {
    return std::holds_alternative<Event>(any) && std::get<Event>(any).kind == kind;
  }
  static bool is(const Any& any, DeviceKind kind) {
    return std::holds_alternative<DeviceEvent>(any) && std::get<DeviceEvent>(any).kind == kind;
  }
  template <class What, class EventKind>
  What& find(EventKind kind, int nth) {
    for (auto& [machine, any] : events_)
      if (is(any, kind) && nth-- == 0) return std::get<What>(any);
    throw std::out_of_range("no such event in the story");
  }

  std::vector<std::pair<unsigned, Any>> events_;
};

struct HandedSpoiled {
  Rule rule;
  const char* how;
  std::function<void(HandedStory&)> spoil;
};

// A server's session hands a WRITE to its devices, which answer it.
HandedStory handed_server_story();
const std::vector<HandedSpoiled>& handed_server_cases();
// A client's devices open a device and read, over their session.
HandedStory handed_client_story();
const std::vector<HandedSpoiled>& handed_client_cases();

}  // namespace rtrs::spec
