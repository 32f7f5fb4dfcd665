// Replays protocol state machines: runs them on the inputs of a trace and compares all their actions with the
// recorded ones.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/proto/actions.hpp"
#include "core/record/codec.hpp"
#include "core/record/state.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/time_base.hpp"

namespace rtrs::trace {

// Actions of a state machine in one step, in trace encoding. Independent of the list type that the machine
// uses for its actions.
class Effects {
 public:
  void clear() noexcept {
    bytes_.clear();
    ends_.clear();
  }
  template <class... Actions>
  void add(const std::variant<Actions...>& action) {
    visit_action([this](const auto& one) { this->add_event(one); }, action);
  }
  template <class T>
  void add_event(const T& value) {
    static_assert(KindOf<T>::category == EventClass::action);
    add(kKindOf<T>, put_fields(scratch_, value));
  }

  std::size_t size() const noexcept { return ends_.size(); }
  KindId kind(std::size_t index) const noexcept { return ends_[index].kind; }
  // Returns the fields of an action, in the encoding of this build.
  std::string_view fields(std::size_t index) const noexcept {
    const std::size_t begin = index == 0 ? 0 : ends_[index - 1].end;
    return std::string_view(bytes_).substr(begin, ends_[index].end - begin);
  }

 private:
  struct End {
    KindId kind;
    std::size_t end;
  };
  void add(KindId kind, const std::uint8_t* end) {
    bytes_.append(reinterpret_cast<const char*>(scratch_), static_cast<std::size_t>(end - scratch_));
    ends_.push_back({kind, bytes_.size()});
  }
  std::string bytes_;
  std::vector<End> ends_;
  std::uint8_t scratch_[kMaxBuiltinRecord];
};

// A state machine that is replayed.
class ReplayMachine {
 public:
  virtual ~ReplayMachine() = default;
  // Passes an input to the machine. Returns false if this kind of state machine has no such input.
  virtual bool feed(const Record& input, const FieldMap& map, Effects& effects) = 0;
  virtual std::uint64_t fingerprint() const = 0;
  // Returns the name of the first broken invariant of the state, or nullptr.
  virtual const char* broken_invariant() const { return nullptr; }
  // Loads the state from a snapshot. Returns nullptr, or the reason why it cannot be loaded.
  virtual const char* load(std::string_view state, std::uint64_t layout) = 0;
  virtual StateText text() const = 0;
  // Returns the state as load() takes it, and sets `layout`.
  virtual std::string save(std::uint64_t& layout) const = 0;
};

// Creates a state machine from its begin event. Returns nullptr for an unknown event or an invalid
// configuration; `why` then names the invalid configuration.
using MachineFactory =
    std::function<std::unique_ptr<ReplayMachine>(const Record& begin, const FieldMap& map, std::string& why)>;

// Creates a state machine in an arbitrary state, on which the caller then calls load(). Returns nullptr for
// an unknown kind.
using BlankFactory = std::function<std::unique_ptr<ReplayMachine>(MachineKind)>;

enum class Verdict : std::uint8_t {
  identical,
  diverged,        // the trace and this build differ, see ReplayResult::divergence; also used for a broken
                   // invariant
  damaged,         // identical up to the damage; see ReplayResult::stop
  not_replayable,  // see ReplayResult::why
};
const char* to_string(Verdict) noexcept;

struct Divergence {
  // Number of the record that differs, or of the record before which an action is missing.
  std::uint64_t seq = 0;
  Nanos time = 0;
  InstanceId instance = 0;
  std::uint64_t input_seq = 0;      // number of the last input record of the machine
  std::string recorded;             // recorded action, as text
  std::string rerun;                // action of this build, as text
  std::vector<std::string> before;  // up to 20 earlier records: number and record_text()
};

struct ReplayResult {
  Verdict verdict = Verdict::identical;
  std::uint64_t records = 0;
  std::uint64_t machines = 0;
  std::uint64_t inputs = 0;
  std::uint64_t actions = 0;       // number of compared actions
  std::uint64_t state_hashes = 0;  // number of compared hashes
  std::uint64_t other_hashes = 0;  // hashes not compared: they cover configuration fields of another version
  std::uint64_t snapshots = 0;     // number of snapshots loaded or compared
  std::uint64_t skipped = 0;       // records skipped because the state of the machine is not known yet
  std::uint64_t notes = 0;         // number of wire notes, which replay skips
  std::uint64_t chain_hash = 0;    // chain hash of the blocks that were read
  bool counts_only = false;        // the trace has only the number of actions per step
  bool stopped = false;            // the replay ended after the last of ReplayOptions::visit
  TimeBase times;                  // origin of the times in the texts of the divergence
  Divergence divergence;
  Reader::Stop stop;
  std::string why;
};

// State of a state machine at a record of ReplayOptions::visit.
struct StateAt {
  InstanceId instance = 0;
  StateText text;
};

struct ReplayOptions {
  std::function<void(std::uint64_t bytes)> progress;  // called periodically with the bytes read; may be empty
  // The replay writes the number of the current record here, so that it is known if a state machine crashes
  // the program. May be nullptr.
  volatile std::uint64_t* position = nullptr;
  BlankFactory blank;  // creates machines for snapshots; if empty, snapshots are skipped
  // Record numbers, ascending; kNever stands for the end. Before each of these records, on_visit() receives
  // the states of all live machines. The replay stops after the last of them, so the result covers only
  // earlier records. If the replay ends before a requested record, on_visit() is called at the end.
  std::vector<std::uint64_t> visit;
  std::function<void(std::uint64_t record, std::vector<StateAt>)> on_visit;
};

ReplayResult replay(Source& source, const MachineFactory& factory, const ReplayOptions& options = {});

}  // namespace rtrs::trace
