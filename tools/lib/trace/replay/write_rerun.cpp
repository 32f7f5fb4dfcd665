#include "tools/lib/trace/replay/write_rerun.hpp"

#include "core/record/writer.hpp"
#include "tools/lib/trace/replay/dump_rerun.hpp"
#include "tools/lib/trace/replay/snapshots.hpp"

namespace rtrs::trace {

namespace {

class Rewriter {
 public:
  Rewriter(const Header& header, Writer& writer)
      : writer_(writer), compatibility_(header.schema), rerun_(header.schema) {}

  void take(const Record& record) {
    if (record.event->id == kKindOf<Snapshot>) {
      const auto part = get_struct<Snapshot>(record, compatibility_.map(record.event->id));
      put(record);
      if (parts_.add(record.instance, part) == SnapshotParts::Status::complete)
        rerun_.resume(record.instance, part.machine, parts_.state(), part.layout);
    } else if (record.event->id == kKindOf<ActionCount>) {
      rerun_.count(record, [this](const Record& action) { put(action); });
    } else if (record.event->category == EventClass::input) {
      if (rerun_.input(record)) put(record);
    } else {
      if (record.event->id == kKindOf<End>)
        rerun_.end(record.instance);
      else
        rerun_.begin(record);
      put(record);
    }
  }
  int error() const noexcept { return error_; }
  const std::string& difference() const noexcept { return rerun_.difference(); }

 private:
  void put(const Record& record) {
    const int failed = writer_.append_values(*record.event, record.instance, record.time, record.values);
    if (error_ == 0) error_ = failed;
  }

  Writer& writer_;
  Compatibility compatibility_;
  DumpRerun rerun_;
  SnapshotParts parts_;
  int error_ = 0;
};

}  // namespace

std::string write_rerun(Source& dump, const std::string& to) {
  Reader reader(dump);
  if (reader.open() != Reader::Status::ok) return reader.stop().reason;
  Header header = reader.header();
  if (!(header.schema == builtin_schema())) return "another version recorded the dump";
  header.flags &= ~static_cast<std::uint32_t>(action_counts);
  header.origin.options.emplace_back("made_by=urtrs-replay min");
  int error = 0;
  auto sink = FdSink::create(to.c_str(), error);
  if (!sink) return "cannot write " + to + ": " + file_error_text(error);
  Writer writer(std::move(sink));
  error = writer.start(header);
  Rewriter rewriter(reader.header(), writer);
  Record record;
  Reader::Status status = Reader::Status::ok;
  while (error == 0 && rewriter.error() == 0 && rewriter.difference().empty() &&
         (status = reader.next(record)) == Reader::Status::ok)
    rewriter.take(record);
  if (error == 0) error = rewriter.error();
  if (error == 0) error = writer.finish();
  if (error != 0) return "cannot write " + to + ": " + file_error_text(error);
  if (!rewriter.difference().empty()) return rewriter.difference();
  return status == Reader::Status::end ? "" : reader.stop().reason;
}

}  // namespace rtrs::trace
