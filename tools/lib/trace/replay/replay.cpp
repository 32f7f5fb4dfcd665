#include "tools/lib/trace/replay/replay.hpp"

#include <cstring>
#include <map>

#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/replay/replay_history.hpp"
#include "tools/lib/trace/replay/snapshots.hpp"

namespace rtrs::trace {

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::identical:
      return "identical";
    case Verdict::diverged:
      return "diverged";
    case Verdict::damaged:
      return "damaged";
    case Verdict::not_replayable:
      return "not replayable";
  }
  return "unknown";
}

namespace {

std::string words(KindId kind, std::string_view fields) {
  const EventInfo& event = *builtin_schema().find(kind);
  std::vector<Value> values(event.fields.size());
  const auto* at = reinterpret_cast<const std::uint8_t*>(fields.data());
  get_values(at, at + fields.size(), event, values.data());
  return event.name + ' ' + fields_text(event, values, builtin_schema());
}

class Run {
 public:
  Run(Source& source, const MachineFactory& factory, const ReplayOptions& options)
      : reader_(source), factory_(factory), options_(options) {}
  ReplayResult run();

 private:
  struct Live {
    std::unique_ptr<ReplayMachine> machine;
    Effects actions;       // actions of the last input
    std::size_t next = 0;  // index of the first action that is not compared yet
    std::uint64_t input_seq = 0;
    bool same_fields = true;  // the begin record of the machine has the same fields as this build
  };

  // step() and the next functions return false if the replay must end.
  bool step(const Record& record);
  bool control(const Record& record);
  bool begin(const Record& record);
  bool snapshot(const Record& record);
  bool compare(const Record& record, const Live& live, const Snapshot& snapshot, const std::string& state);
  bool unknown(const Record& record);
  void visit(std::uint64_t seq);
  bool input(const Record& record);
  bool action(const Record& record);
  bool action_count(const Record& record, Live& live);
  bool state_hash(const Record& record, Live& live);
  bool settled(const Record& record, Live& live);
  bool refuse(const Record& record, const std::string& why);
  bool diverge(const Record& record, const Live& live, std::string recorded, std::string rerun);
  Live* find(const Record& record);
  void finish(Reader::Status status, const Record& last);
  std::string words_of(const Record& record) const {
    return record.event->name + ' ' + fields_text(*record.event, record.values, reader_.header().schema);
  }

  Reader reader_;
  const MachineFactory& factory_;
  const ReplayOptions& options_;
  std::unique_ptr<Compatibility> compatibility_;
  std::map<InstanceId, std::unique_ptr<Live>> live_;
  SnapshotParts parts_;
  std::string no_snapshot_;  // reason why the first unusable snapshot could not be used
  std::size_t visited_ = 0;
  History history_;
  ReplayResult result_;
};

bool Run::refuse(const Record& record, const std::string& why) {
  result_.verdict = Verdict::not_replayable;
  result_.why = "record " + std::to_string(record.seq) + " (" + record.event->name + "): " + why;
  return false;
}

bool Run::diverge(const Record& record, const Live& live, std::string recorded, std::string rerun) {
  result_.verdict = Verdict::diverged;
  Divergence& divergence = result_.divergence;
  divergence.seq = record.seq;
  divergence.time = record.time;
  divergence.instance = record.instance;
  divergence.input_seq = live.input_seq;
  divergence.recorded = std::move(recorded);
  divergence.rerun = std::move(rerun);
  divergence.before =
      history_.lines(reader_.header().schema, TimeBase(reader_.header(), reader_.first_time()));
  return false;
}

Run::Live* Run::find(const Record& record) {
  const auto at = live_.find(record.instance);
  return at == live_.end() ? nullptr : at->second.get();
}

// Checks that the trace contained every action of the last step.
bool Run::settled(const Record& record, Live& live) {
  if (live.next == live.actions.size()) return true;
  const std::string next = words(live.actions.kind(live.next), live.actions.fields(live.next));
  const std::string left = std::to_string(live.actions.size() - live.next);
  if (result_.counts_only) return diverge(record, live, "no action", left + " actions, first " + next);
  return diverge(record, live, "no further action", next + " (" + left + " more than recorded)");
}

bool Run::begin(const Record& record) {
  std::string why;
  auto machine = factory_(record, compatibility_->map(record.event->id), why);
  if (!machine) return refuse(record, why.empty() ? "this program has no such machine" : why);
  auto& slot = live_[record.instance];
  if (slot && !settled(record, *slot)) return false;
  slot = std::make_unique<Live>();
  slot->machine = std::move(machine);
  slot->input_seq = record.seq;
  slot->same_fields = compatibility_->same(record.event->id);
  ++result_.machines;
  return true;
}

// Handles a record of an unknown machine. If the trace lacks its beginning, skips the record and waits for a
// snapshot of the machine.
bool Run::unknown(const Record& record) {
  if ((reader_.header().flags & partial) == 0) return refuse(record, "the machine was never begun");
  ++result_.skipped;
  return true;
}

bool Run::snapshot(const Record& record) {
  if (!options_.blank) return true;
  const auto part = get_struct<Snapshot>(record, compatibility_->map(record.event->id));
  const SnapshotParts::Status status = parts_.add(record.instance, part);
  if (status == SnapshotParts::Status::out_of_order)
    return refuse(record, "a part of a snapshot does not follow the one before");
  if (status == SnapshotParts::Status::incomplete) return true;
  const std::string& state = parts_.state();
  if (const Live* live = find(record)) return compare(record, *live, part, state);
  auto machine = options_.blank(part.machine);
  const char* why = machine ? machine->load(state, part.layout) : "this program has no such machine";
  if (why != nullptr) {
    if (no_snapshot_.empty()) no_snapshot_ = "record " + std::to_string(record.seq) + ": " + why;
    ++result_.skipped;
    return true;
  }
  auto& slot = live_[record.instance] = std::make_unique<Live>();
  slot->machine = std::move(machine);
  slot->input_seq = record.seq;
  ++result_.machines;
  ++result_.snapshots;
  return true;
}

bool Run::compare(const Record& record, const Live& live, const Snapshot& snapshot,
                  const std::string& state) {
  auto recorded = options_.blank(snapshot.machine);
  if (!recorded || recorded->load(state, snapshot.layout) != nullptr) return true;
  ++result_.snapshots;
  if (recorded->fingerprint() == live.machine->fingerprint()) return true;
  const StateDifference difference = first_difference(recorded->text(), live.machine->text());
  return diverge(record, live, "state " + difference.a, "state " + difference.b);
}

// Passes the states before record `seq` to on_visit(), if requested.
void Run::visit(std::uint64_t seq) {
  while (visited_ < options_.visit.size() && options_.visit[visited_] <= seq) {
    std::vector<StateAt> states;
    for (const auto& [instance, live] : live_) states.push_back({instance, live->machine->text()});
    ++visited_;
    options_.on_visit(reader_.records() - (seq == kNever ? 0 : 1), std::move(states));
  }
}

bool Run::control(const Record& record) {
  const KindId kind = record.event->id;
  // The event was added by a later version and does not belong to a machine.
  if (builtin_schema().find(kind) == nullptr) return true;
  if (kind == kKindOf<BeginClient> || kind == kKindOf<BeginServerSession> ||
      kind == kKindOf<BeginServerRegistry> || kind == kKindOf<BeginClientDevices> ||
      kind == kKindOf<BeginServerDevices>) {
    return begin(record);
  }
  if (kind == kKindOf<Snapshot>) {
    Live* of = find(record);
    return (of == nullptr || settled(record, *of)) && snapshot(record);
  }
  Live* live = find(record);
  if (live == nullptr) return unknown(record);
  if (kind == kKindOf<ActionCount>) return action_count(record, *live);
  if (!settled(record, *live)) return false;
  if (kind == kKindOf<StateHash>) return state_hash(record, *live);
  if (kind == kKindOf<End>) live_.erase(record.instance);
  return true;
}

bool Run::action_count(const Record& record, Live& live) {
  const auto count = get_struct<ActionCount>(record, compatibility_->map(record.event->id)).count;
  if (count != live.actions.size()) {
    return diverge(record, live, std::to_string(count) + " actions",
                   std::to_string(live.actions.size()) + " actions");
  }
  live.next = live.actions.size();
  result_.actions += count;
  return true;
}

bool Run::state_hash(const Record& record, Live& live) {
  if (!live.same_fields) {  // the hash covers the configuration, which has other fields in the recorded
                            // version
    ++result_.other_hashes;
    return true;
  }
  const StateHash recorded = get_struct<StateHash>(record, compatibility_->map(record.event->id));
  const std::uint64_t rerun = live.machine->fingerprint();
  ++result_.state_hashes;
  if (recorded.fingerprint == rerun) return true;
  return diverge(record, live, words_of(record), "StateHash fingerprint=" + std::to_string(rerun));
}

bool Run::input(const Record& record) {
  Live* live = find(record);
  if (live == nullptr) return unknown(record);
  if (!settled(record, *live)) return false;
  live->actions.clear();
  live->next = 0;
  live->input_seq = record.seq;
  ++result_.inputs;
  if (!live->machine->feed(record, compatibility_->map(record.event->id), live->actions))
    return refuse(record, "a machine of this kind has no such input");
  const char* rule = live->machine->broken_invariant();
  if (rule == nullptr) return true;
  return diverge(record, *live, "no word on the state",
                 std::string("a state of which it is not true that ") + rule);
}

bool Run::action(const Record& record) {
  Live* live = find(record);
  if (live == nullptr) return unknown(record);
  if (live->next == live->actions.size())
    return diverge(record, *live, words_of(record), "no further action");
  const KindId kind = live->actions.kind(live->next);
  const std::string_view rerun = live->actions.fields(live->next);
  bool equal = kind == record.event->id;
  if (equal && compatibility_->same(kind)) {
    equal = rerun == record.fields;
  } else if (equal) {
    std::uint8_t recorded[kMaxBuiltinRecord];
    const std::uint8_t* const end = put_fields(recorded, record, compatibility_->map(kind));
    equal = rerun == std::string_view(reinterpret_cast<const char*>(recorded),
                                      static_cast<std::size_t>(end - recorded));
  }
  if (!equal) return diverge(record, *live, words_of(record), words(kind, rerun));
  ++live->next;
  ++result_.actions;
  return true;
}

bool Run::step(const Record& record) {
  if (record.event->category == EventClass::note) {
    ++result_.notes;
    return true;
  }
  const bool known = builtin_schema().find(record.event->id) != nullptr;
  if (known || record.event->category != EventClass::control) {
    if (const char* problem = compatibility_->problem(record.event->id)) return refuse(record, problem);
  }
  switch (record.event->category) {
    case EventClass::control:
      return control(record);
    case EventClass::input:
      return input(record);
    case EventClass::action:
      return action(record);
    case EventClass::note:
      break;
  }
  return refuse(record, "this version does not know the class of the event");
}

ReplayResult Run::run() {
  const auto refused = [this](std::string why) {
    result_.verdict = Verdict::not_replayable;
    result_.why = std::move(why);
    result_.stop = reader_.stop();
    return result_;
  };
  const Reader::Status opened = reader_.open();
  if (opened == Reader::Status::damaged) {
    result_.verdict = Verdict::damaged;
    result_.stop = reader_.stop();
    return result_;
  }
  if (opened != Reader::Status::ok) return refused(reader_.stop().reason);
  result_.counts_only = (reader_.header().flags & action_counts) != 0;
  compatibility_ = std::make_unique<Compatibility>(reader_.header().schema);

  Record record;
  std::uint64_t blocks = 0;
  Reader::Status status = Reader::Status::ok;
  while (result_.verdict == Verdict::identical && (status = reader_.next(record)) == Reader::Status::ok) {
    if (options_.position != nullptr) *options_.position = record.seq;
    if (visited_ < options_.visit.size()) {
      visit(record.seq);
      if (visited_ == options_.visit.size()) {
        result_.stopped = true;
        break;
      }
    }
    if (step(record)) history_.add(record);
    if (options_.progress && reader_.blocks() != blocks) {
      blocks = reader_.blocks();
      options_.progress(reader_.bytes());
    }
  }
  finish(status, record);
  return std::move(result_);
}

void Run::finish(Reader::Status status, const Record& last) {
  result_.records = reader_.records();
  result_.chain_hash = reader_.chain_hash();
  result_.times = TimeBase(reader_.header(), reader_.first_time());
  if (result_.verdict != Verdict::identical) return visit(kNever);
  visit(kNever);
  if (result_.machines == 0 && result_.skipped != 0) {
    result_.verdict = Verdict::not_replayable;
    result_.why = "it begins in the middle of a run, without a snapshot of the state" +
                  (no_snapshot_.empty() ? std::string() : " (" + no_snapshot_ + ")");
    return;
  }
  if (result_.stopped) return;
  if (status != Reader::Status::end) {
    result_.verdict = Verdict::damaged;
    result_.stop = reader_.stop();
    return;
  }
  if (result_.machines == 0 && result_.notes != 0) {
    result_.verdict = Verdict::not_replayable;
    result_.why = "the trace has wire notes but no machine; try `urtrs-replay check`";
    return;
  }
  // A dump of the ring may end in the middle of a step; a completed file ends after a step.
  if (result_.counts_only) return;
  for (auto& [instance, live] : live_) {
    Record record = last;
    record.instance = instance;
    if (!settled(record, *live)) return;
  }
}

}  // namespace

ReplayResult replay(Source& source, const MachineFactory& factory, const ReplayOptions& options) {
  return Run(source, factory, options).run();
}

}  // namespace rtrs::trace
