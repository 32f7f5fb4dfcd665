// Judges what drivers tell their machines. Compares inputs with the recorded messages: a driver that decodes
// a message wrongly would otherwise give its machine a consistent but wrong history. Requires that the
// driver passes each answer of the devices to the server's session.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "conformance/spec/device_event.hpp"
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
  void on(const DeviceEvent&);
  // Call after the last record.
  void finish();

 private:
  struct Answer {
    std::uint64_t seq = 0;
    Time now = 0;
  };
  void begins_or_ends(unsigned machine, const Event&);
  bool agrees(const Event& told, const Event& note) const;
  bool request_agrees(const Event& told, const Event& note) const;
  static bool fence_agrees(const Event& told, const Event& note);

  Findings& findings_;
  std::map<unsigned, std::uint16_t> depths_;    // of server sessions, by machine
  std::map<unsigned, std::uint64_t> sessions_;  // indexes of server sessions, by machine
  std::map<std::uint64_t, Answer> answers_;     // of devices, by request, until the session is told
  Time now_ = 0;
  std::set<unsigned> noted_;            // machines whose messages the trace has
  std::optional<unsigned> last_noted_;  // the last one that was put into `noted_`
  bool just_received_ = false;          // the last event was a note of a received message
  unsigned machine_ = 0;
  Event note_;
  std::string bytes_;  // bytes of `note_`
};

}  // namespace rtrs::spec
