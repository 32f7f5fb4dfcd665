// Compares the inputs of a machine with the recorded messages. A driver that decodes a message wrongly would
// otherwise give its machine a consistent but wrong history.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

class ToldSpec {
 public:
  explicit ToldSpec(Findings& findings) : findings_(findings) {}
  // `depth`: number of chunks of a server session; 0: unknown.
  void begin(unsigned machine, std::uint16_t depth) {
    if (depth != 0) depths_[machine] = depth;
  }
  // Takes every event of the trace, in order. Compares an input with the note that the driver recorded
  // directly before it for the same machine and connection.
  void on(unsigned machine, const Event&);

 private:
  bool agrees(const Event& told, const Event& note) const;
  bool request_agrees(const Event& told, const Event& note) const;

  Findings& findings_;
  std::map<unsigned, std::uint16_t> depths_;  // of server sessions, by machine
  bool just_received_ = false;                // the last event was a note of a received message
  unsigned machine_ = 0;
  Event note_;
  std::string bytes_;  // of the note
};

}  // namespace rtrs::spec
