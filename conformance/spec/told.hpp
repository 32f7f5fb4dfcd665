// Checks that the inputs of a state machine agree with the recorded messages from which the driver made them.
// Otherwise a driver that decodes a message wrongly would give its machine a consistent but wrong history.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

class ToldSpec {
 public:
  explicit ToldSpec(Findings& findings) : findings_(findings) {}
  // Takes every event of the trace, in order. Compares an input with the note that the driver recorded
  // directly before it for the same machine and connection.
  void on(unsigned machine, const Event&);

 private:
  bool agrees(const Event& told, const Event& note) const;
  bool request_agrees(const Event& told, const Event& note) const;

  Findings& findings_;
  std::map<unsigned, std::uint16_t> depths_;  // queue depths of server sessions, by machine
  bool just_received_ = false;                // the last event was a note of a received message
  unsigned machine_ = 0;
  Event note_;
  std::string bytes_;  // bytes of `note_`
};

}  // namespace rtrs::spec
