// Runs protocol machines again on the inputs of a trace and compares everything that they do with the record.
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

namespace rtrs::trace {

// What a machine did in one step: its actions as a trace has them, whatever list the machine fills.
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
  // Encoded as this build does.
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

// One machine that is run again.
class ReplayMachine {
 public:
  virtual ~ReplayMachine() = default;
  // False when machines of this kind do not take the event.
  virtual bool feed(const Record& input, const FieldMap& map, Effects& effects) = 0;
  virtual std::uint64_t fingerprint() const = 0;
  // Name of the first broken rule of the state, or null.
  virtual const char* broken_invariant() const { return nullptr; }
  // Takes the state of a snapshot; else why not.
  virtual const char* load(std::string_view state, std::uint64_t layout) = 0;
  virtual StateText text() const = 0;
};

// Makes machines from their begin events; null for an event that it does not know. `why` names a
// configuration that no machine can be made from.
using MachineFactory =
    std::function<std::unique_ptr<ReplayMachine>(const Record& begin, const FieldMap& map, std::string& why)>;

// A machine in any state, for load(); null for an unknown kind.
using BlankFactory = std::function<std::unique_ptr<ReplayMachine>(MachineKind)>;

enum class Verdict : std::uint8_t {
  identical,
  diverged,        // ReplayResult::divergence; also of a machine whose state breaks an invariant
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
  std::uint64_t other_hashes = 0;  // not compared: of a version whose configurations have other fields
  std::uint64_t snapshots = 0;     // begun with or compared
  std::uint64_t skipped = 0;       // records of machines whose state is not known yet
  std::uint64_t notes = 0;         // of the wire, skipped
  std::uint64_t chain_hash = 0;    // of what was read
  bool counts_only = false;        // the trace has only the number of actions of every step
  bool stopped = false;            // after the last of ReplayOptions::visit
  Divergence divergence;
  Reader::Stop stop;
  std::string why;
};

// A machine where a replay stopped, or came by.
struct StateAt {
  InstanceId instance = 0;
  StateText text;
};

struct ReplayOptions {
  std::function<void(std::uint64_t bytes)> progress;  // called now and then with the bytes read
  // Holds the number of the record that is being fed: a machine may stop the program.
  volatile std::uint64_t* position = nullptr;
  BlankFactory blank;  // for snapshots; without it they are skipped
  // Numbers of records, ascending. In front of each (kNever: at the end) on_visit() gets the states of all
  // machines that live. After the last one the replay stops: what it found is of the records before. Those
  // that it does not reach are visited where it ends.
  std::vector<std::uint64_t> visit;
  std::function<void(std::uint64_t record, std::vector<StateAt>)> on_visit;
};

ReplayResult replay(Source& source, const MachineFactory& factory, const ReplayOptions& options = {});

}  // namespace rtrs::trace
