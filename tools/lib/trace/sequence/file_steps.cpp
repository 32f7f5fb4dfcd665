#include "tools/lib/trace/sequence/file_steps.hpp"

#include <utility>

#include "tools/lib/trace/command/exit_codes.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"

namespace rtrs::tools::sequence {

FileSteps::FileSteps(Story& story, std::string name, const std::string& path, bool lean)
    : story_(story), name_(std::move(name)), path_(path), lean_(lean), input_(path) {}

bool FileSteps::open(bool show_progress) {
  if (!input_.is_open()) return false;
  reader_.emplace(input_.source());
  status_ = reader_->open();
  if (status_ != trace::Reader::Status::ok) return false;
  const trace::Header& header = reader_->header();
  TraceFile file;
  file.name = name_;
  file.tool = header.origin.tool;
  file.role = header.origin.role;
  file.backend = header.origin.backend;
  file.seed = header.origin.seed;
  file.options = header.origin.options;
  file.beginning_missing = (header.flags & trace::partial) != 0;
  index_ = static_cast<Index>(story_.files.size());
  story_.files.push_back(std::move(file));
  maker_.emplace(story_, steps_, index_, header, lean_);
  if ((header.flags & trace::action_counts) != 0) look_ahead();
  translator_.emplace(header.schema);
  progress_.emplace(input_.size(), show_progress);
  return true;
}

void FileSteps::look_ahead() {
  InputFile input(path_);
  if (!input.is_open()) return;
  trace::Reader reader(input.source());
  trace::Record record;
  if (reader.open() != trace::Reader::Status::ok) return;
  while (reader.next(record) == trace::Reader::Status::ok) maker_->look_ahead(record);
}

// Adds the step for a pause of the process that recorded the file.
void FileSteps::add_pause(const Pause& pause) {
  Step step;
  step.file = index_;
  step.record = pause.record;
  step.time = pause.to;
  for (std::size_t machine = 0; machine < story_.machines.size() && step.machine == kNone; ++machine)
    if (story_.machines[machine].file == step.file) step.machine = static_cast<Index>(machine);
  step.group = Group::state;
  step.tone = Tone::bad;
  step.event = kPauseEvent;
  step.title = "this process did not run for at least " +
               duration_words(static_cast<std::int64_t>(pause.length())) +
               ": its timer was due, and it recorded nothing";
  step.fields = "from=" + std::to_string(pause.from) + "\nto=" + std::to_string(pause.to) +
                "\nsilent_since=" + std::to_string(pause.silent_since);
  steps_.add(std::move(step));
}

bool FileSteps::read() {
  if (status_ == trace::Reader::Status::ok) status_ = reader_->next(record_);
  if (status_ != trace::Reader::Status::ok) return false;
  progress_->at(reader_->bytes());
  const std::size_t pauses = pauses_.pauses().size();
  pauses_.at(record_.seq, record_.time);
  if (const spec::Event* event = translator_->translate(record_)) pauses_.on(record_.instance, *event);
  if (pauses_.pauses().size() > pauses) add_pause(pauses_.pauses().back());
  maker_->add(record_);
  return true;
}

int FileSteps::finish() {
  if (!input_.is_open()) return exit_usage;
  // The caller must stop, because files are numbered by their position on the command line.
  if (index_ == kNone) {
    report_stop(name_, status_, *reader_);
    return exit_cannot_read;
  }
  TraceFile& read = file();
  read.records = reader_->records();
  read.first = reader_->first_time();
  read.times = trace::TimeBase(reader_->header(), read.first);
  read.pauses = pauses_.pauses();
  if (status_ != trace::Reader::Status::end)
    read.stopped = "byte " + std::to_string(reader_->stop().offset) + ": " + reader_->stop().reason;
  return report_stop(name_, status_, *reader_);
}

}  // namespace rtrs::tools::sequence
