// Judges what drivers send. Compares each noted message with the action that it follows: a driver that
// encodes an action wrongly would otherwise send messages that its machine did not decide.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

class SentSpec {
 public:
  explicit SentSpec(Findings& findings) : findings_(findings) {}
  // Takes every event of the trace, in order.
  void on(unsigned machine, const Event&);
  // Call after the last record. `whole`: see Checker::finish.
  void finish(bool whole);

 private:
  // A request of a client, or one that arrived at a server.
  struct Request {
    bool reads = false;
    std::uint32_t data_len = 0;
    std::uint32_t usr_len = 0;
    std::uint32_t buffer = 0;  // bytes that a READ offers
  };
  struct Machine {
    bool client = false;
    bool noted = false;                 // the trace has notes of this machine
    std::vector<Event> decided;         // actions of this step whose messages were not noted yet
    std::deque<std::uint16_t> refused;  // errnos of Reject
    std::map<std::uint16_t, Request> permits;
    // Requests at a server, by chunk and connection: a chunk has at most one of each connection.
    std::map<std::pair<std::uint16_t, Key>, Request> arrived;
  };

  void input(Machine&, const Event&);
  void action(Machine&, const Event&);
  void sent(Machine&, const Event& note);
  bool matches(const Machine&, const Event& decided, const Event& note) const;
  bool matches_request(const Machine&, const Event& decided, const Event& note) const;
  bool matches_cm(const Event& decided, const Event& note) const;
  // A response has up to three messages. Removes those parts from `decided` that were noted.
  bool matches_response(const Machine&, Event& decided, const Event& note, bool& last) const;
  void rejected(Machine&, const Event& note);
  // `next`: the next input; null at the end of the trace.
  void nothing_left(unsigned machine, Machine&, const Event* next);

  Findings& findings_;
  std::map<unsigned, Machine> machines_;
  unsigned machine_ = 0;
  Event received_;  // last note of a received request, without its bytes
  std::uint32_t offered_ = 0;
};

}  // namespace rtrs::spec
