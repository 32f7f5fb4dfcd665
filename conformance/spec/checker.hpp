// All machines of one trace against the specification, and its wire notes. Feed the records in order.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <variant>

#include "conformance/spec/client.hpp"
#include "conformance/spec/findings.hpp"
#include "conformance/spec/server.hpp"
#include "conformance/spec/wire.hpp"

namespace rtrs::spec {

struct Coverage {
  std::uint64_t events = 0;         // that a rule could look at
  std::uint64_t machines = 0;       // with their beginning
  std::uint64_t beginningless = 0;  // machines
  std::uint64_t wire = 0;           // wire notes
};

class Checker {
 public:
  // `actions`: the trace has the machines' actions; without them only its wire notes can be judged.
  // `capture_heartbeat`: see WireSpec.
  explicit Checker(bool actions, Time capture_heartbeat = 0)
      : actions_(actions), wire_(findings_, capture_heartbeat) {}
  void on(unsigned machine, const Event&);
  // Once, after the last record. Not whole: the trace was cut, maybe within a step, whose other actions
  // nobody may then miss.
  void finish(bool whole = true);
  const Findings& findings() const noexcept { return findings_; }
  const Coverage& coverage() const noexcept { return coverage_; }
  const WireSpec& wire() const noexcept { return wire_; }

 private:
  using Machine = std::variant<ClientSpec, ServerSpec, RegistrySpec>;
  Machine* machine_of(unsigned machine, const Event&);
  std::unique_ptr<Machine> make(unsigned machine, const Event&) const;

  bool actions_;
  mutable Findings findings_;
  Coverage coverage_;
  std::map<unsigned, std::unique_ptr<Machine>> machines_;
  WireSpec wire_;
};

}  // namespace rtrs::spec
