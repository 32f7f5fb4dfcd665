// First reading of the traces: all of a story except its steps, and the first messages of each connection,
// from which the two ends of the connections are found.
#pragma once
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/trace/sequence/story.hpp"
#include "tools/lib/trace/summary/trace_summary.hpp"

namespace rtrs::tools::sequence {

// A violation that another command has found, and that the diagram must show.
struct WantedMark {
  std::size_t file = 0;
  std::uint64_t record = 0;
  std::string text;
};

// A received message is looked for among so many sent ones after the last that arrived.
inline constexpr std::size_t kFarthest = 1024;

struct Message {
  std::uint64_t signature = 0;
  Nanos time = 0;
  bool is_note() const noexcept { return is_note(signature); }
  // Wire notes are a separate sequence of messages.
  static bool is_note(std::uint64_t signature) noexcept {
    return signature >> 56 == 'W' || signature >> 56 == 'w';
  }
};

// The messages that a connection sent, or those that it received.
struct Messages {
  std::vector<Message> first;
  std::uint64_t count = 0;
  bool is_cut() const noexcept { return first.size() != count; }
};

class Survey {
 public:
  // Reads the files. Prints read errors on stderr and sets `code` to the exit code; `summary` receives the
  // records and may be nullptr. A mark on a record without a step is a usage error.
  Survey(const std::vector<std::string>& files, const std::vector<WantedMark>& marks, int& code,
         trace::RunSummary* summary);

  const Story& story() const noexcept { return story_; }
  std::size_t steps() const noexcept { return steps_; }
  // Returns where file `index` can be read again, also if it was a pipe.
  const std::string& path(std::size_t index) const noexcept { return paths_[index]; }

  // By connection: messages that it sent, and that it received.
  const std::pair<Messages, Messages>& messages(std::size_t connection) const noexcept {
    return messages_[connection];
  }
  const std::vector<Nanos>& begin() const noexcept { return begin_; }  // first time of each file
  const std::vector<Nanos>& end() const noexcept { return end_; }      // last time of each file

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
  };
  bool keep(const std::string& name);
  int read(const std::string& name, trace::RunSummary* run);
  void add(const Step& step);
  void add(Messages& list, const Step& step);

  Story story_;
  std::size_t steps_ = 0;
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<std::FILE, Close>> held_;  // the files, and copies of pipes
  std::vector<std::pair<Messages, Messages>> messages_;
  std::size_t kept_ = 0;  // messages in messages_
  std::size_t most_;      // most messages of one list
  std::vector<Nanos> begin_, end_;
  std::map<std::pair<Index, std::uint64_t>, bool> marks_;  // wanted (file, record): it has a step
};

}  // namespace rtrs::tools::sequence
