#include "tools/lib/trace/sequence/build.hpp"

#include "tools/lib/trace/command/exit_codes.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/hangs/pauses.hpp"
#include "tools/lib/trace/judge/translate.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/sequence/story_records.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"

namespace rtrs::tools::sequence {

namespace {

// Adds the step for a pause of the process that recorded the last file.
void add_pause(Story& story, const Pause& pause) {
  Step step;
  step.file = static_cast<Index>(story.files.size() - 1);
  step.record = pause.record;
  step.time = pause.to;
  for (std::size_t machine = 0; machine < story.machines.size() && step.machine == kNone; ++machine)
    if (story.machines[machine].file == step.file) step.machine = static_cast<Index>(machine);
  step.group = Group::state;
  step.tone = Tone::bad;
  step.event = kPauseEvent;
  step.title = "this process did not run for at least " +
               duration_words(static_cast<std::int64_t>(pause.length())) +
               ": its timer was due, and it recorded nothing";
  step.fields = "from=" + std::to_string(pause.from) + "\nto=" + std::to_string(pause.to) +
                "\nsilent_since=" + std::to_string(pause.silent_since);
  story.steps.push_back(std::move(step));
}

// Standard input cannot be read twice: the records before its first snapshots then have no depth.
void look_ahead(StoryRecords& records, const std::string& path) {
  if (path == "-") return;
  InputFile input(path);
  if (!input.is_open()) return;
  trace::Reader reader(input.source());
  trace::Record record;
  if (reader.open() != trace::Reader::Status::ok) return;
  while (reader.next(record) == trace::Reader::Status::ok) records.look_ahead(record);
}

// Adds the records of a file to the story and returns an exit code. From a damaged trace, adds the records
// before the damage.
int read_file(Story& story, const std::string& path, trace::RunSummary* run) {
  InputFile input(path);
  if (!input.is_open()) return exit_usage;
  trace::Reader reader(input.source());
  trace::Reader::Status status = reader.open();
  if (status != trace::Reader::Status::ok) {
    // A file without a valid header is not added. The caller must then stop, because files are numbered by
    // their position on the command line.
    report_stop(path, status, reader);
    return exit_cannot_read;
  }

  const trace::Header& header = reader.header();
  TraceFile file;
  file.name = path;
  file.tool = header.origin.tool;
  file.role = header.origin.role;
  file.backend = header.origin.backend;
  file.seed = header.origin.seed;
  file.options = header.origin.options;
  file.beginning_missing = (header.flags & trace::partial) != 0;
  story.files.push_back(file);
  const auto index = static_cast<Index>(story.files.size() - 1);
  StoryRecords records(story, index, header);
  if ((header.flags & trace::action_counts) != 0) look_ahead(records, path);
  Progress progress(input.size(), true);
  trace::Record record;
  trace::PauseFinder pauses;
  trace::Translator translator(header.schema);
  trace::TraceSummary* const summary = run != nullptr ? &run->begin_trace(header) : nullptr;
  while ((status = reader.next(record)) == trace::Reader::Status::ok) {
    progress.at(reader.bytes());
    if (pauses.at(record.seq, record.time)) add_pause(story, pauses.pauses().back());
    if (const spec::Event* event = translator.translate(record)) pauses.on(record.instance, *event);
    if (summary != nullptr) summary->add(record);
    records.add(record);
  }
  if (summary != nullptr) summary->finish();
  TraceFile& read = story.files.back();
  read.records = reader.records();
  read.first = reader.first_time();
  read.times = trace::TimeBase(header, read.first);
  read.pauses = pauses.pauses();
  if (status != trace::Reader::Status::end)
    read.stopped = "byte " + std::to_string(reader.stop().offset) + ": " + reader.stop().reason;
  return report_stop(path, status, reader);
}

}  // namespace

bool set_marks(Story& story, const std::vector<WantedMark>& wanted) {
  std::vector<bool> found(wanted.size(), false);
  for (std::size_t i = 0; i < story.steps.size(); ++i) {
    Step& step = story.steps[i];
    for (std::size_t mark = 0; mark < wanted.size(); ++mark) {
      const WantedMark& one = wanted[mark];
      if (static_cast<std::size_t>(step.file) != one.file || step.record != one.record) continue;
      if (step.event == kPauseEvent) continue;
      step.mark += (step.mark.empty() ? "" : "; ") + one.text;
      story.marks.push_back({static_cast<Index>(i), one.text});
      found[mark] = true;
    }
  }
  for (std::size_t mark = 0; mark < wanted.size(); ++mark) {
    if (found[mark]) continue;
    error("no record " + std::to_string(wanted[mark].record) + " in file " +
          std::to_string(wanted[mark].file + 1) + "; records are numbered as in `cat --json`, from 0");
    return false;
  }
  return true;
}

Story build_story(const std::vector<std::string>& files, const std::vector<WantedMark>& marks, int& code,
                  trace::RunSummary* summary) {
  Story story;
  code = exit_ok;
  for (const std::string& file : files) {
    const int one = read_file(story, file, summary);
    if (one == exit_usage || one == exit_cannot_read) {
      code = one;
      return story;
    }
    if (one != exit_ok) code = one;
  }
  pair_messages(story);
  order_steps(story);
  follow_requests(story);
  for (const Step& step : story.steps)
    if (step.io != kNone && step.device != kNone)
      story.requests[static_cast<std::size_t>(step.io)].device = step.device;
  lay_out(story);
  if (!set_marks(story, marks)) code = exit_usage;
  return story;
}

}  // namespace rtrs::tools::sequence
