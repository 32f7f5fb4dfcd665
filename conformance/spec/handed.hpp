// Judges what drivers hand from one machine of a process to another: a server's session and its block
// devices, a client's block devices and their session. Each machine alone may be right while the driver mixes
// up their requests or results.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conformance/spec/device_event.hpp"
#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

class HandedSpec {
 public:
  explicit HandedSpec(Findings& findings) : findings_(findings) {}
  // Takes every event of the trace, in order.
  void on(unsigned machine, const Event&);
  void on(unsigned machine, const DeviceEvent&);

 private:
  // A request that arrived at a server.
  struct Arrived {
    bool reads = false;
    std::uint32_t data_len = 0;
    std::uint32_t usr_len = 0;
    std::optional<std::string> user;  // user header; empty: not recorded
  };
  struct Server {
    std::uint64_t session = 0;
    std::map<std::pair<std::uint16_t, Key>, Arrived> arrived;  // by chunk
  };
  // Devices of one session of a server.
  struct Devices {
    std::map<std::uint64_t, Arrived> delivered;       // by request
    std::map<std::uint64_t, std::uint16_t> answered;  // errno, by request
  };
  // A message or IO that a client's devices gave to the session.
  struct Begun {
    bool io = false;
    bool reads = false;
    std::uint64_t token = 0;
    std::uint32_t device = 0;
    std::uint32_t device_id = 0;
    std::uint32_t data_len = 0;
    std::string header;
    IoFacts facts;
    // Set when the request ends.
    bool delivered = false;
    std::uint16_t error = 0;
  };

  void server_session(unsigned machine, const Event&);
  void deliver(Server&, const Event&);
  void device_request(unsigned machine, const DeviceEvent&);
  void client_session(const Event&);
  void submitted(const Event&);
  void posted(const Event& note);
  void client_devices(const DeviceEvent&);
  void message_done(const DeviceEvent&);
  void io_done(const DeviceEvent&);

  void report(Rule rule, const DeviceEvent& event, const std::string& seen, const char* allowed) const {
    findings_.add(rule, event.seq, event.now, machine_, seen, allowed);
  }

  Findings& findings_;
  unsigned machine_ = 0;
  std::map<unsigned, Server> servers_;
  std::map<std::uint64_t, Devices> devices_;           // by session, of devices whose beginning was seen
  std::map<unsigned, std::uint64_t> device_sessions_;  // sessions, by machine of their devices
  // The last event of a server, if it is a note of a received request.
  bool just_received_ = false;
  Event note_;
  std::string bytes_;

  // Client. Judged if the trace has the beginning of both machines, and of no second session.
  std::optional<unsigned> client_;
  bool has_devices_ = false;
  bool ambiguous_ = false;
  std::deque<Begun> begun_;  // not submitted yet
  std::map<std::uint16_t, Begun> permits_;
  std::vector<Begun> ended_;                         // not told to the devices yet
  std::optional<DeviceEvent> io_begun_;              // IoBegun whose IoStarted follows
  std::map<Key, std::deque<std::uint16_t>> posted_;  // permits of PostRequests whose messages follow
};

}  // namespace rtrs::spec
