// Merges traces so that each message is received after it was sent.
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/record/writer.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

namespace sequence = tools::sequence;

struct MergeOptions {
  std::vector<std::string> files;
  std::string output;
  bool json = false;
};

// Maximum number of files. With n files, instance i of file f becomes i * n + f, so that instances stay
// unique.
constexpr std::size_t kMaxFiles = 16;

class MergedFile {
 public:
  explicit MergedFile(const std::string& path) : input_(path) {
    if (input_.is_open()) reader_.emplace(input_.source());
  }
  bool open() {
    // Does not print read errors, because StoryReader has already printed them.
    return reader_ && reader_->open() == trace::Reader::Status::ok && next();
  }
  bool next() { return more_ = reader_->next(record_) == trace::Reader::Status::ok; }
  bool more() const { return more_; }
  const trace::Record& record() const { return record_; }
  const trace::Header& header() const { return reader_->header(); }

 private:
  InputFile input_;
  std::optional<trace::Reader> reader_;
  trace::Record record_;
  bool more_ = false;
};

// Writes the merged records, and renumbers their instances so that they are unique in the merged trace.
class Destination {
 public:
  Destination(const MergeOptions& options, const std::vector<std::unique_ptr<MergedFile>>& files,
              const sequence::Story& story)
      : options_(options), files_(files), story_(story) {}

  // Opens the output file. Returns an exit code.
  int open() {
    if (options_.output.empty()) return exit_ok;
    for (const auto& file : files_) {
      if (!(file->header().schema == files_.front()->header().schema)) {
        error("the traces were recorded by different versions; merge them without --output");
        return exit_cannot_read;
      }
    }
    const int fd = create_output(options_.output, 0600);
    if (fd < 0) return exit_usage;
    auto sink = std::make_unique<trace::FdSink>(fd);
    trace::Header header = files_.front()->header();
    header.origin.role = "both";
    header.origin.options.clear();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      header.origin.options.push_back("merged=" + options_.files[i]);
      header.flags |= files_[i]->header().flags;
    }
    writer_ = std::make_unique<trace::Writer>(std::move(sink));
    return failed(writer_->start(header));
  }
  int take(std::size_t from, const trace::Record& record) {
    const std::size_t instance = record.instance * files_.size() + from;
    if (writer_) {
      if (instance > 0xffff) {
        error("too many machines for one trace");
        return exit_cannot_read;
      }
      return failed(writer_->append_values(*record.event, static_cast<InstanceId>(instance), record.time,
                                           record.values));
    }
    const trace::Schema& schema = files_[from]->header().schema;
    const std::string line = options_.json ? "{\"file\":" + std::to_string(from) +
                                                 ",\"record\":" + trace::record_json(record, schema) + '}'
                                           : std::string(1, static_cast<char>('A' + from)) + ' ' +
                                                 record_text(record, schema, story_.files[from].times);
    return out_.line(line) ? exit_ok : exit_usage;
  }
  int finish(int code) {
    if (writer_ && code == exit_ok) code = failed(writer_->finish());
    return out_.finish(code);
  }
  Output& out() { return out_; }

 private:
  int failed(int errno_of_write) const {
    if (errno_of_write == 0) return exit_ok;
    error("cannot write " + options_.output + ": " + std::strerror(errno_of_write));
    return exit_usage;
  }

  const MergeOptions& options_;
  const std::vector<std::unique_ptr<MergedFile>>& files_;
  const sequence::Story& story_;
  std::unique_ptr<trace::Writer> writer_;
  Output out_;
};

int merge(const MergeOptions& options) {
  if (given_twice(options.files)) return exit_usage;
  if (options.files.size() > kMaxFiles) {
    error("at most " + std::to_string(kMaxFiles) + " traces can be merged");
    return exit_usage;
  }
  int code = exit_ok;
  const sequence::StoryReader reader(options.files, {}, code);
  const sequence::Story& story = reader.story();
  if (code == exit_usage || code == exit_cannot_read) return code;
  std::vector<std::unique_ptr<MergedFile>> files;
  for (std::size_t i = 0; i < options.files.size(); ++i) {
    files.push_back(std::make_unique<MergedFile>(reader.path(i)));
    files.back()->open();
  }
  Destination to(options, files, story);
  if (const int wrong = to.open()) return wrong;
  if (options.output.empty() && !options.json) {
    to.out().line(times_line(story.clock_file().times));
    for (std::size_t i = 0; i < files.size(); ++i) {
      const sequence::TraceFile& file = story.files[i];
      to.out().line("# " + std::string(1, static_cast<char>('A' + i)) + ": " + file.name + ", " + file.role +
                    ", its clock " + (file.clock < 0 ? "" : "+") + std::to_string(file.clock) + " ns");
    }
  }
  // Records that have no step in the story are written after the record of the preceding step.
  int wrong = exit_ok;
  const auto take_until = [&](std::size_t from, std::uint64_t end) {
    MergedFile& file = *files[from];
    while (wrong == exit_ok && file.more() && file.record().seq < end) {
      wrong = to.take(from, file.record());
      file.next();
    }
  };
  reader.order([&](const sequence::Step& step, std::size_t) {
    take_until(static_cast<std::size_t>(step.file), step.record + 1);
    return wrong == exit_ok;
  });
  for (std::size_t from = 0; from < files.size(); ++from) take_until(from, kNever);
  return to.finish(wrong != exit_ok ? wrong : code);
}

}  // namespace

void add_merge(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, MergeOptions& options) {
    add_traces(command, "FILE", options.files, "Trace files of both sides")->required();
    command.add_option("-o,--output", options.output, "Write one trace instead of printing")
        ->type_name("TRACE");
    command.add_flag("--json", options.json, "One JSON object per record");
  };
  add_command<MergeOptions>(
      app, runner, "merge", "Print the traces of client and server as one, each effect after its cause",
      "Examples:\n"
      "  urtrs-replay merge client.rtrc server.rtrc\n"
      "  urtrs-replay merge client.rtrc server.rtrc --output both.rtrc\n"
      "\n"
      "Each file keeps its own order; nothing arrives before it was sent. Clocks decide only "
      "what messages leave open. Instance i of file f of n becomes i * n + f in the merged trace.\n"
      "Exit codes: 0 merged, 2 wrong usage, 3 no trace, 5 a trace is damaged: the records before the damage "
      "were merged.",
      bind, merge);
}

}  // namespace rtrs::replay_tool
