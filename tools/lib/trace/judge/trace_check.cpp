#include "tools/lib/trace/judge/trace_check.hpp"

#include "tools/lib/trace/judge/translate.hpp"

namespace rtrs::trace {

namespace {

constexpr std::uint64_t kProgressEvery = 1 << 14;  // records between two progress reports

void add_doubts(TraceCheck& check, const trace::Header& header) {
  using Status = trace::Reader::Status;
  if (check.status != Status::end)
    check.doubts.push_back("the trace could be read only up to byte " + std::to_string(check.stop.offset) +
                           ": " + check.stop.reason);
  if ((header.flags & trace::partial) != 0 || check.coverage.without_beginning != 0)
    check.doubts.push_back("its beginning is missing, so much was possible before it");
  if ((header.flags & trace::action_counts) != 0)
    check.doubts.push_back(
        "it is a dump of the ring and has no actions: only its wire notes could be judged");
  if (check.coverage.wire == 0 && check.coverage.events != 0)
    check.doubts.push_back(
        "it has no wire notes, so messages were not judged; record it with the detail wire "
        "(trace_detail=wire)");
  if (check.coverage.machines + check.coverage.without_beginning == 0 && check.coverage.wire != 0)
    check.judged.push_back("a capture: only what was on the wire");
  if (check.wire.gaps != 0)
    check.doubts.push_back(
        std::to_string(check.wire.gaps) +
        " gaps, where messages or the setup of their connections are missing, or their arrival is unknown");
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
                           std::to_string(check.coverage.machines + check.coverage.without_beginning) +
                           " machines");
  if (check.coverage.wire != 0)
    check.judged.push_back(std::to_string(check.coverage.wire) + " wire notes of " +
                           std::to_string(check.wire.connections) + " connections");
  check.verdict = check.violations != 0  ? CheckVerdict::violating
                  : check.doubts.empty() ? CheckVerdict::conforming
                                         : CheckVerdict::inconclusive;
}

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
  hangs.begin_trace((reader.header().flags & trace::action_counts) != 0);
  trace::Record record;
  while (reader.next(record) == trace::Reader::Status::ok) hangs.read(translator, record);
  return hangs;
}

TraceCheck check_trace(trace::Source& source, LawCollector* laws, const CheckProgress& progress,
                       std::uint64_t capture_heartbeat, HangCollector* hangs) {
  TraceCheck check;
  if (laws != nullptr) laws->begin_trace();
  trace::Reader reader(source);
  check.status = reader.open();
  if (check.status != trace::Reader::Status::ok) {
    if (hangs != nullptr) hangs->begin_trace(false);
    check.stop = reader.stop();
    check.doubts.push_back(check.stop.reason);
    return check;
  }
  Translator translator(reader.header().schema);
  if (hangs != nullptr) hangs->begin_trace((reader.header().flags & trace::action_counts) != 0);
  spec::Checker checker((reader.header().flags & trace::action_counts) == 0, capture_heartbeat);
  trace::Record record;
  while ((check.status = reader.next(record)) == trace::Reader::Status::ok) {
    if (const spec::Event* event = translator.translate(record)) {
      checker.on(record.instance, *event);
      if (laws != nullptr) laws->on(record.instance, *event);
      if (hangs != nullptr) hangs->on(record.instance, *event);
    } else if (const spec::DeviceEvent* device = translator.translate_device(record)) {
      checker.on(record.instance, *device);
      if (hangs != nullptr) hangs->on(record.instance, *device);
    }
    if (progress && record.seq % kProgressEvery == 0) progress(reader.bytes());
  }
  const bool whole = check.status == trace::Reader::Status::end;
  checker.finish(whole);
  if (laws != nullptr) laws->end_trace(whole);
  check.stop = reader.stop();
  check.records = reader.records();
  check.times = trace::TimeBase(reader.header(), reader.first_time());
  check.findings = checker.findings().kept();
  check.violations = checker.findings().count();
  check.most_states = checker.findings().most_states();
  check.coverage = checker.coverage();
  check.wire = checker.wire().counts();
  add_doubts(check, reader.header());
  return check;
}

}  // namespace rtrs::trace
