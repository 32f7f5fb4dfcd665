// Reads one trace file and makes the steps of its records.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/hangs/pauses.hpp"
#include "tools/lib/trace/judge/translate.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/sequence/story_records.hpp"

namespace rtrs::tools::sequence {

class FileSteps {
 public:
  // Adds state machines and connections to `story`. `path`: must be readable from its start.
  // `name`: of the file in the story and in messages.
  FileSteps(Story& story, std::string name, const std::string& path, bool lean);
  // Reads the header and adds the file to the story. Returns false after an error.
  bool open(bool show_progress);
  // Reads one record; returns false at the end.
  bool read();
  // Completes the data of the file in the story and prints why reading stopped early. Returns an exit code.
  int finish();

  StepBuffer& steps() noexcept { return steps_; }
  const trace::Header& header() const noexcept { return reader_->header(); }
  const trace::Record& record() const noexcept { return record_; }  // the last one that was read
  std::uint64_t records() const noexcept { return reader_->records(); }

 private:
  TraceFile& file() { return story_.files[static_cast<std::size_t>(index_)]; }
  void look_ahead();
  void add_pause(const Pause& pause);

  Story& story_;
  const std::string name_, path_;
  const bool lean_;
  InputFile input_;
  StepBuffer steps_;
  Index index_ = kNone;
  std::optional<trace::Reader> reader_;
  std::optional<StoryRecords> maker_;
  std::optional<trace::Translator> translator_;
  std::optional<Progress> progress_;
  trace::Reader::Status status_ = trace::Reader::Status::ok;
  trace::Record record_;
  trace::PauseFinder pauses_;
};

}  // namespace rtrs::tools::sequence
