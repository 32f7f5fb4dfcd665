#include "tools/lib/trace/judge/trace_check.hpp"

#include <memory>
#include <optional>

#include "core/proto/client_session.hpp"
#include "core/proto/server_session.hpp"
#include "tools/lib/trace/judge/known_state.hpp"
#include "tools/lib/trace/judge/translate.hpp"
#include "tools/lib/trace/replay/dump_rerun.hpp"
#include "tools/lib/trace/replay/replay_adapter.hpp"
#include "tools/lib/trace/replay/snapshots.hpp"

namespace rtrs::trace {

namespace {

std::uint64_t machines_of(const TraceCheck& check) {
  return check.coverage.machines + check.coverage.without_beginning + check.coverage.resumed;
}

constexpr std::uint64_t kProgressEvery = 1 << 14;  // records between two progress reports

// What began before the trace, and what was not judged because of that.
void add_beginning(TraceCheck& check, const trace::Header& header) {
  const auto doubt = [&check](std::uint64_t count, const std::string& what) {
    if (count != 0) check.doubts.push_back(std::to_string(count) + what);
  };
  doubt(check.coverage.resumed,
        " sessions began before a snapshot: the receives, the first messages and the proofs of failover of "
        "their connections were not judged");
  doubt(check.coverage.earlier_requests,
        " requests began before a snapshot: their first steps were not judged");
  doubt(check.coverage.without_beginning,
        " machines began before the trace, and no snapshot tells their state, so much was possible");
  doubt(check.skipped, " records before the first snapshot of their machine");
  if (!check.difference.empty()) check.doubts.push_back(check.difference + "; nothing after it was judged");
  const bool partial = (header.flags & trace::partial) != 0;
  if (partial && machines_of(check) == 0) check.doubts.push_back("its beginning is missing");
}

void add_doubts(TraceCheck& check, const trace::Header& header) {
  using Status = trace::Reader::Status;
  if (check.status != Status::end)
    check.doubts.push_back("the trace could be read only up to byte " + std::to_string(check.stop.offset) +
                           ": " + check.stop.reason);
  add_beginning(check, header);
  if (check.coverage.wire == 0 && check.coverage.events != 0)
    check.doubts.push_back(
        "it has no wire notes, so messages were not judged; record it with the detail wire "
        "(trace_detail=wire)");
  if (machines_of(check) == 0 && check.coverage.wire != 0)
    check.judged.push_back("a capture: only what was on the wire");
  if (check.wire.gaps != 0)
    check.doubts.push_back(
        std::to_string(check.wire.gaps) +
        " gaps, where messages or the setup of their connections are missing, or their arrival is unknown");
  if (check.wire.reordered != 0)
    check.doubts.push_back(
        "in " + std::to_string(check.wire.reordered) +
        " places, messages are in another order than they were sent: the capture has frames "
        "late, or clocks that differ");
  if (check.wire.restarts != 0)
    check.doubts.push_back(std::to_string(check.wire.restarts) +
                           " times, a client may have restarted with the same uuids; which chunks its former "
                           "process still used is unknown");
  if (check.wire.excused != 0)
    check.doubts.push_back(std::to_string(check.wire.excused) +
                           " breaches of rules that missing messages may explain");
  if (check.wire.partial != 0)
    check.doubts.push_back(std::to_string(check.wire.partial) +
                           " attempts with missing connect requests or answers");
  if (check.wire.unplaced != 0)
    check.doubts.push_back(std::to_string(check.wire.unplaced) +
                           " messages belong to connections whose connect request is missing");
  if (check.coverage.events == 0 && check.coverage.wire == 0)
    check.doubts.push_back("it has no event that a rule judges");
  if (check.coverage.events != 0)
    check.judged.push_back(std::to_string(check.coverage.events) + " inputs and actions of " +
                           std::to_string(machines_of(check)) + " machines");
  if (check.coverage.events != 0 && (header.flags & trace::action_counts) != 0)
    check.judged.push_back("the actions of this core, which are as many as the recording counted");
  if (check.coverage.wire != 0)
    check.judged.push_back(std::to_string(check.coverage.wire) + " wire notes of " +
                           std::to_string(check.wire.connections + check.wire.resumed) + " connections");
  check.verdict = check.violations != 0  ? CheckVerdict::violating
                  : check.doubts.empty() ? CheckVerdict::conforming
                                         : CheckVerdict::inconclusive;
}

// Passes the records of one trace to the specification.
class Judge {
 public:
  Judge(const trace::Header& header, LawCollector* laws, HangCollector* hangs,
        std::uint64_t capture_heartbeat)
      : laws_(laws),
        hangs_(hangs),
        compatibility_(header.schema),
        recorded_(header.schema),
        rerun_actions_(trace::builtin_schema()),
        checker_(true, capture_heartbeat) {
    if ((header.flags & trace::action_counts) != 0) rerun_.emplace(header.schema);
    if (hangs_ != nullptr) hangs_->begin_trace(rerun_.has_value(), header.origin.taken);
  }

  void take(const trace::Record& record) {
    const trace::KindId kind = record.event->id;
    const bool known = compatibility_.problem(kind) == nullptr;
    if (known && kind == trace::kKindOf<trace::Snapshot>) return snapshot(record);
    if (!rerun_ || record.event->category == trace::EventClass::note) return judge(recorded_, record);
    if (known && kind == trace::kKindOf<trace::ActionCount>)
      return rerun_->count(record, [this](const trace::Record& action) { judge(rerun_actions_, action); });
    if (record.event->category == trace::EventClass::input) {
      if (!rerun_->input(record)) return void(++skipped_);
    } else if (known && kind == trace::kKindOf<trace::End>) {
      rerun_->end(record.instance);
    } else if (known) {
      rerun_->begin(record);
    }
    judge(recorded_, record);
  }

  void finish(TraceCheck& check, bool whole) {
    checker_.finish(whole && !rerun_);
    check.skipped = skipped_;
    if (rerun_) check.difference = rerun_->difference();
    check.findings = checker_.findings().kept();
    check.violations = checker_.findings().count();
    check.most_states = checker_.findings().most_states();
    check.coverage = checker_.coverage();
    check.wire = checker_.wire().counts();
  }

 private:
  void judge(Translator& translator, const trace::Record& record) {
    HangCollector* const hangs = &translator == &recorded_ ? hangs_ : nullptr;
    if (const spec::Event* event = translator.translate(record)) {
      checker_.on(record.instance, *event);
      if (laws_ != nullptr) laws_->on(record.instance, *event);
      if (hangs != nullptr) hangs->on(record.instance, *event);
    } else if (const spec::DeviceEvent* device = translator.translate_device(record)) {
      checker_.on(record.instance, *device);
      if (hangs != nullptr) hangs->on(record.instance, *device);
    }
  }

  void snapshot(const trace::Record& record) {
    const auto part = trace::get_struct<trace::Snapshot>(record, compatibility_.map(record.event->id));
    if (parts_.add(record.instance, part) != trace::SnapshotParts::Status::complete) return;
    const std::string& state = parts_.state();
    if (rerun_) rerun_->resume(record.instance, part.machine, state, part.layout);
    const auto resume = [&](auto session) {
      if (trace::load_state(*session, state, part.layout) == nullptr)
        checker_.resume(record.instance, known_state(*session, part.now));
    };
    if (part.machine == MachineKind::client_session)
      resume(std::make_unique<ClientSession>(ClientConfig{}));
    else if (part.machine == MachineKind::server_session)
      resume(std::make_unique<ServerSession>(ServerConfig{}, std::uint16_t{0}));
  }

  LawCollector* laws_;
  HangCollector* hangs_;  // takes recorded events only
  trace::Compatibility compatibility_;
  Translator recorded_;
  Translator rerun_actions_;
  spec::Checker checker_;
  std::optional<trace::DumpRerun> rerun_;  // for a ring dump
  trace::SnapshotParts parts_;
  std::uint64_t skipped_ = 0;
};

}  // namespace

const char* to_string(CheckVerdict verdict) noexcept {
  switch (verdict) {
    case CheckVerdict::conforming:
      return "conforming";
    case CheckVerdict::violating:
      return "violating";
    case CheckVerdict::inconclusive:
      return "inconclusive";
  }
  return "unknown";
}

tl::expected<HangCollector, std::string> hangs_of(trace::Source& source) {
  trace::Reader reader(source);
  if (reader.open() != trace::Reader::Status::ok) return tl::make_unexpected(reader.stop().reason);
  Translator translator(reader.header().schema);
  HangCollector hangs;
  hangs.begin_trace((reader.header().flags & trace::action_counts) != 0, reader.header().origin.taken);
  trace::Record record;
  while (reader.next(record) == trace::Reader::Status::ok) hangs.read(translator, record);
  return hangs;
}

TraceCheck check_trace(trace::Source& source, LawCollector* laws, const CheckProgress& progress,
                       std::uint64_t capture_heartbeat, HangCollector* hangs) {
  TraceCheck check;
  trace::Reader reader(source);
  check.status = reader.open();
  if (laws != nullptr)
    laws->begin_trace(check.status == trace::Reader::Status::ok &&
                      reader.header().origin.backend == "capture");
  if (check.status != trace::Reader::Status::ok) {
    if (hangs != nullptr) hangs->begin_trace(false);
    check.stop = reader.stop();
    check.doubts.push_back(check.stop.reason);
    return check;
  }
  Judge judge(reader.header(), laws, hangs, capture_heartbeat);
  trace::Record record;
  while ((check.status = reader.next(record)) == trace::Reader::Status::ok) {
    judge.take(record);
    if (progress && record.seq % kProgressEvery == 0) progress(reader.bytes());
  }
  const bool whole = check.status == trace::Reader::Status::end;
  judge.finish(check, whole);
  if (laws != nullptr) laws->end_trace(whole);
  check.stop = reader.stop();
  check.records = reader.records();
  check.times = trace::TimeBase(reader.header(), reader.first_time());
  add_doubts(check, reader.header());
  return check;
}

}  // namespace rtrs::trace
