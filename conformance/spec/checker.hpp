// Checks all machines and wire notes of one trace against the specification. Records must be passed in order.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <variant>

#include "conformance/spec/client.hpp"
#include "conformance/spec/client_devices.hpp"
#include "conformance/spec/findings.hpp"
#include "conformance/spec/handed.hpp"
#include "conformance/spec/sent.hpp"
#include "conformance/spec/server.hpp"
#include "conformance/spec/server_devices.hpp"
#include "conformance/spec/told.hpp"
#include "conformance/spec/wire.hpp"

namespace rtrs::spec {

struct Coverage {
  std::uint64_t events = 0;             // events that rules can judge
  std::uint64_t machines = 0;           // machines whose beginning is in the trace
  std::uint64_t without_beginning = 0;  // machines whose beginning is missing
  std::uint64_t resumed = 0;            // sessions whose state a snapshot told, instead of their beginning
  std::uint64_t earlier_requests = 0;   // their requests that began before it
  std::uint64_t wire = 0;               // wire notes
};

class Checker {
 public:
  // `actions`: the trace contains the state machines' actions; without them only wire notes can be judged.
  // `capture_heartbeat`: see WireSpec.
  explicit Checker(bool actions, Time capture_heartbeat = 0)
      : actions_(actions),
        wire_(findings_, capture_heartbeat),
        told_(findings_),
        sent_(findings_),
        handed_(findings_) {}
  void on(unsigned machine, const Event&);
  // A snapshot tells the state of a session. Does nothing if its state is known already.
  void resume(unsigned machine, const KnownSession&);
  void on(unsigned machine, const DeviceEvent&);
  // Call once, after the last record. `whole` false: the trace was cut, possibly within a step, so missing
  // actions of the last step are no violation.
  void finish(bool whole = true);
  const Findings& findings() const noexcept { return findings_; }
  const Coverage& coverage() const noexcept { return coverage_; }
  const WireSpec& wire() const noexcept { return wire_; }

 private:
  using Machine = std::variant<ClientSpec, ServerSpec, RegistrySpec>;
  using Devices = std::variant<ServerDevicesSpec, ClientDevicesSpec>;
  Machine* machine_of(unsigned machine, const Event&);
  std::unique_ptr<Machine> make(unsigned machine, const Event&) const;
  void end_devices(unsigned machine);
  void in_order(unsigned machine, std::uint64_t seq, Time now);

  bool actions_;
  mutable Findings findings_;
  Coverage coverage_;
  std::map<unsigned, std::unique_ptr<Machine>> machines_;
  std::set<unsigned> begun_;  // machines whose state is known: they began, or a snapshot told it
  std::map<unsigned, Devices> devices_;
  WireSpec wire_;
  ToldSpec told_;
  SentSpec sent_;
  Time last_ = 0;  // time of the last record
  HandedSpec handed_;
};

}  // namespace rtrs::spec
