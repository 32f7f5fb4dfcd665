// Runs protocol machines again on the inputs of a trace and compares everything that they do with the record.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/proto/actions.hpp"
#include "core/trace/codec.hpp"
#include "core/trace/reader.hpp"

namespace rtrs::trace {

// One machine that is run again.
class ReplayMachine {
 public:
  virtual ~ReplayMachine() = default;
  // False when machines of this kind do not take the event.
  virtual bool feed(const Record& input, const FieldMap& map, ActionList& actions) = 0;
  virtual std::uint64_t fingerprint() const = 0;
};

// Makes machines from their begin events; null for an event that it does not know. `why` names a
// configuration that no machine can be made from.
using MachineFactory =
    std::function<std::unique_ptr<ReplayMachine>(const Record& begin, const FieldMap& map, std::string& why)>;

enum class Verdict : std::uint8_t {
  identical,
  diverged,        // ReplayResult::divergence
  damaged,         // identical as far as it could be read; ReplayResult::stop
  not_replayable,  // ReplayResult::why
};
const char* to_string(Verdict) noexcept;

struct Divergence {
  std::uint64_t seq = 0;  // of the record that differs, or of the one that came too early
  Nanos time = 0;
  InstanceId instance = 0;
  std::uint64_t input_seq = 0;      // of the machine's last input
  std::string recorded;             // in words
  std::string rerun;                // in words
  std::vector<std::string> before;  // up to 20 records before, as record_text(), with their numbers
};

struct ReplayResult {
  Verdict verdict = Verdict::identical;
  std::uint64_t records = 0;
  std::uint64_t machines = 0;
  std::uint64_t inputs = 0;
  std::uint64_t actions = 0;       // compared
  std::uint64_t state_hashes = 0;  // compared
  std::uint64_t notes = 0;         // of the wire, skipped
  std::uint64_t chain_hash = 0;    // of what was read
  bool counts_only = false;        // the trace has only the number of actions of every step
  Divergence divergence;
  Reader::Stop stop;
  std::string why;
};

struct ReplayOptions {
  std::function<void(std::uint64_t bytes)> progress;  // called now and then with the bytes read
  // Holds the number of the record that is being fed: a machine may stop the program.
  volatile std::uint64_t* position = nullptr;
};

ReplayResult replay(Source& source, const MachineFactory& factory, const ReplayOptions& options = {});

}  // namespace rtrs::trace
