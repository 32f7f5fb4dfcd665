// Reads the files of a survey once more and returns their steps in order. Keeps the order within each file,
// and puts each receive after its send. Clocks decide only the order of the other steps.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/lib/trace/sequence/file_steps.hpp"
#include "tools/lib/trace/sequence/survey.hpp"

namespace rtrs::tools::sequence {

// Memory is bounded: a message is paired only if both of its ends are within kWindow steps of their files.
class StepOrder {
 public:
  // `lean`: without the fields of the steps, and without Step::lost. `survey` must outlive this object.
  StepOrder(const Survey& survey, bool lean);
  // Takes the next step; returns false at the end. In a receive, Step::peer is the number of the step that
  // sent the message, and `sender_io` the request that set_io() gave to that step. In a send, Step::peer is
  // kNone.
  bool next(Step& step, Index& sender_io);
  // Gives the last step to the receiver of its message.
  void set_io(Index io) noexcept {
    if (last_ != nullptr) last_->io = io;
  }

 private:
  // A message that was sent, but not received yet.
  struct Sent {
    std::size_t number = 0;
    std::int64_t at = 0;
    Index io = kNone;
    bool matched = false;
  };
  struct File {
    Index index = 0;
    Story story;  // state machines and connections that were read so far
    std::unique_ptr<FileSteps> reader;
    bool ended = false;
    bool changed = false;  // the file has steps that the survey did not see
    std::size_t seen = 0;  // steps of the reader that are in flows_
    Index first_machine = 0, first_connection = 0;
    std::deque<std::pair<std::size_t, Index>> sends;  // (step, connection), oldest first
    std::unordered_map<std::size_t, Sent> sent;       // by step
    StepBuffer& steps() { return reader->steps(); }
  };
  struct Sending {
    std::uint64_t signature = 0;
    std::size_t step = 0;
  };
  struct Arrival {
    std::uint64_t signature = 0;
    std::size_t step = 0;
    std::size_t searched = 0;  // position up to which no send fits
  };
  // Messages from one connection to its peer, by their position.
  struct Flow {
    std::deque<Sending> sends;       // those that may still be received
    std::size_t first = 0;           // position of the first of them
    std::size_t next[2] = {};        // position after the last that was received: messages, wire notes
    std::deque<Arrival> waiting[2];  // received ones whose sends are not read yet
    std::size_t end() const noexcept { return first + sends.size(); }
    void drop_first() noexcept {
      sends.pop_front();
      ++first;
      for (std::size_t& one : next) one = std::max(one, first);
    }
  };
  const Connection& connection(Index at) const {
    return survey_.story().connections[static_cast<std::size_t>(at)];
  }
  File& file_of(Index connection_index) {
    const Machine& machine =
        survey_.story().machines[static_cast<std::size_t>(connection(connection_index).machine)];
    return *files_[static_cast<std::size_t>(machine.file)];
  }
  std::int64_t time(const Step& step) const;
  bool read(File& file);
  bool read_ahead(File& file);
  void note(File& file, const Step& step, std::size_t number);
  void pair(Index sender, bool notes);
  void give_up_first(Index sender, bool notes);
  void settle_receive(const Step& step);
  void settle_send(const Step& step, std::size_t number);
  bool has_head(File& file);
  bool waits(const Step& step);
  File* pick();
  void finish(File& file, Step& step, Index& sender_io);
  void forget_old(File& file);

  const Survey& survey_;
  const bool lean_;
  std::vector<std::unique_ptr<File>> files_;
  std::unordered_map<Index, Flow> flows_;  // by the connection that sends
  Sent* last_ = nullptr;
  std::int64_t zero_ = 0, at_ = 0;
  std::size_t number_ = 0;
};

}  // namespace rtrs::tools::sequence
