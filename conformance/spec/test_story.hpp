// Handwritten correct sequences of events (stories). Tests change them to break rules.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "conformance/spec/checker.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

inline constexpr Time kSecond = 1'000'000'000;

class Story {
 public:
  using Change = std::function<void(Event&)>;

  Event& add(Kind kind, const Change& change = {}) {
    Event event;
    event.kind = kind;
    // Actions have the time of their input.
    if (class_of(kind) != EventClass::action) now_ += 1000;
    event.now = now_;
    if (change) change(event);
    events_.push_back(event);
    return events_.back();
  }
  void wait(Time time) { now_ += time; }
  Time now() const { return now_; }

  // Index of the nth event of a kind, from 0; a negative n counts from the end.
  std::size_t where(Kind kind, int nth = 0) const {
    std::vector<std::size_t> found;
    for (std::size_t at = 0; at < events_.size(); ++at)
      if (events_[at].kind == kind) found.push_back(at);
    const int index = nth < 0 ? static_cast<int>(found.size()) + nth : nth;
    if (index < 0 || index >= static_cast<int>(found.size()))
      throw std::out_of_range("no such event in the story");
    return found[static_cast<std::size_t>(index)];
  }
  Event& at(Kind kind, int nth = 0) { return events_[where(kind, nth)]; }
  void drop(Kind kind, int nth = 0) {
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(where(kind, nth)));
  }
  void repeat(Kind kind, int nth = 0) {
    const std::size_t at = where(kind, nth);
    const Event copy = events_[at];
    events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(at) + 1, copy);
  }
  // Removes all events after this one.
  void end_after(Kind kind, int nth = 0) { events_.resize(where(kind, nth) + 1); }
  void insert_after(Kind kind, int nth, Kind what, const Change& change) {
    const std::size_t at = where(kind, nth);
    Event event;
    event.kind = what;
    event.now = events_[at].now;
    change(event);
    events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(at) + 1, event);
  }
  void swap(Kind a, Kind b, int nth_a = 0, int nth_b = 0) { std::swap(at(a, nth_a), at(b, nth_b)); }
  std::vector<Event>& events() { return events_; }

  Findings check(unsigned machine = 0) const {
    Checker checker(true, 5 * kSecond);
    for (std::size_t at = 0; at < events_.size(); ++at) {
      Event event = events_[at];
      event.seq = at;
      checker.on(machine, event);
    }
    checker.finish();
    return checker.findings();
  }

 private:
  std::vector<Event> events_;
  Time now_ = 0;
};

// A rule, and the change of a story that breaks it.
struct Spoiled {
  Rule rule;
  const char* how;
  std::function<void(Story&)> spoil;
};

inline Story::Change on(std::uint16_t path, std::uint16_t con, std::uint32_t epoch,
                        const Story::Change& more = {}) {
  return [=](Event& event) {
    event.key = Key{path, con, epoch};
    if (more) more(event);
  };
}
inline Story::Change path_is(std::uint16_t path, PathState state, Reason reason = Reason::other) {
  return [=](Event& event) { event.path = path, event.state = state, event.reason = reason; };
}

// test_client_story.cpp: a client with two paths, one of which is lost with a request in flight and
// reconnects; heartbeats; close.
Story client_story();
// A client whose server renews the chunk's key with each response and invalidates keys of the client.
Story keyed_client_story();
// test_challenge_story.cpp: a client whose server asks for a proof of the key, accepts one and rejects
// another.
Story challenged_client_story();
// A server session with two paths. A fence closes one of them, which has a request in flight.
Story server_story();
Story keyed_server_story();
Story registry_story();
// Wire notes of a session, recorded by the client.
Story wire_story();
Story keyed_wire_story();
// Wire notes recorded by the server: a request arrives over another path before the abandoned one is
// answered.
Story failover_wire_story();
Story restarted_wire_story();
Story rnbd_story();
// test_joined_story.cpp: responses that carry the data of READs.
Story joined_server_story();
Story joined_wire_story();

// test_wide_story.cpp: a path with more connections than one step processes.
Story wide_client_story();
Story wide_server_story();

// test_told_story.cpp: notes of received messages, each followed by the input that the driver made from the
// message.
Story told_story();
Story told_client_story();

// test_sent_story.cpp: a connect request of a client.
Story sent_story();

// Cases of each side; together they break every rule.
const std::vector<Spoiled>& client_cases();
const std::vector<Spoiled>& keyed_client_cases();
const std::vector<Spoiled>& challenged_client_cases();
const std::vector<Spoiled>& server_cases();
const std::vector<Spoiled>& keyed_server_cases();
const std::vector<Spoiled>& registry_cases();
const std::vector<Spoiled>& wire_cases();
const std::vector<Spoiled>& keyed_wire_cases();
const std::vector<Spoiled>& failover_wire_cases();
const std::vector<Spoiled>& restarted_wire_cases();
const std::vector<Spoiled>& rnbd_cases();
const std::vector<Spoiled>& joined_server_cases();
const std::vector<Spoiled>& joined_wire_cases();
const std::vector<Spoiled>& wide_client_cases();
const std::vector<Spoiled>& wide_server_cases();
const std::vector<Spoiled>& told_cases();
const std::vector<Spoiled>& told_client_cases();
const std::vector<Spoiled>& sent_cases();
const std::vector<Spoiled>& identity_wire_cases();

}  // namespace rtrs::spec
