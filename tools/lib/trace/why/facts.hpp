// Finds facts in a story: what caused a step, when something last arrived, what a process did meanwhile.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lib/trace/sequence/fields.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"
#include "tools/lib/trace/why/answer.hpp"

namespace rtrs::tools::why {

using sequence::duration_words;
using sequence::Index;
using sequence::kNone;
using sequence::Side;
using sequence::Step;
using sequence::Story;

class Facts {
 public:
  explicit Facts(const Story& story);  // `story` must outlive this object

  const Story& story() const noexcept { return story_; }
  Index count() const noexcept { return static_cast<Index>(story_.steps.size()); }
  const Step& step(Index at) const { return story_.steps[static_cast<std::size_t>(at)]; }
  const sequence::Machine& machine_of(const Step& step) const {
    return story_.machines[static_cast<std::size_t>(step.machine)];
  }
  const sequence::TraceFile& file(Index at) const { return story_.files[static_cast<std::size_t>(at)]; }
  // False for the steps of no state machine.
  bool is_of(const Step& step, Side side) const {
    return step.machine != kNone && machine_of(step).side == side;
  }
  bool has(Side side) const noexcept { return story_.has(side); }
  Ref ref(Index at) const { return {step(at).file, step(at).record, step(at).time}; }
  // Time of a trace as common time, in ns (Step::at).
  std::int64_t common(Index file_at, Nanos time) const {
    return static_cast<std::int64_t>(time - static_cast<Nanos>(file(file_at).times.zero()));
  }

  // Returns the common time of a step. Step::at never decreases in the merged order, so that a step that was
  // put behind a later one of another file shows the time of that one.
  std::int64_t at(const Step& step) const { return common(step.file, step.time); }
  std::int64_t at(Index index) const { return at(step(index)); }

  std::string field(Index at, std::string_view name) const {
    return std::string(sequence::value_of(step(at).fields, name));
  }
  std::uint64_t number(Index at, std::string_view name) const {
    return sequence::number_of(step(at).fields, name);
  }
  // Returns code and sentence of the reason in a record, and the errno: "heartbeat_lost (nothing received
  // ...)".
  std::string reason(Index at) const;
  std::string path_name(Index path) const;   // "path 1", or "path 1 of client 2"
  std::string side_name(const Step&) const;  // "the client", "client 2", "the server"
  std::string side_name(Side) const;
  // True if the message of the step did not arrive at the other side, which recorded later events.
  bool is_lost(Index at) const;
  // Returns the title of the step in the diagram, without the size of a header that is no RNBD message.
  std::string title(Index at) const;
  std::string connection_name(Index at) const;  // of a step: "connection 1 of path 0"
  bool is_path(Index path, std::string_view word) const;

  // Returns the input that the state machine handled when it took this step; the step itself if it is one.
  Index input_of(Index at) const;
  // Returns the input before this input of the same machine, or kNone.
  Index input_before(Index input) const { return input == 0 ? kNone : previous_input(input, input - 1); }
  // Returns the last arrival on the path (or on the connection with this number) before the step.
  Index last_arrival(Index path, Side side, Index before, std::optional<std::uint16_t> con = {}) const;
  // Longest time in ns for which a process that runs and has a connected path records nothing: an interval of
  // its heartbeats, and the delay of a busy host.
  std::int64_t longest_idle(Index file_at) const { return idle_[static_cast<std::size_t>(file_at)]; }
  // Returns the last record of the file before the common time, or kNone.
  Index last_of(Index file_at, std::int64_t before) const;
  // Returns the file that recorded the other end of the path's last connection before the step; kNone if no
  // file did.
  Index other_file(Index path, Side side, Index before) const;
  // Returns the last record of the file if its process ended in order within a second after the common time,
  // and another trace continues for longer; else kNone.
  Index last_of_process(Index file_at, std::int64_t after) const;
  // Returns the beginning of the last process of the side before the step that had a predecessor, or kNone.
  Index begin_again(Side side, Index until) const;
  // Returns the first step at which the side lost the path after its last connect before the step `until`; it
  // may be later than `until`.
  Index loss_of(Index path, Side side, Index until) const;
  // Common time of the last record.
  std::int64_t end_of(Index file_at) const { return ends_[static_cast<std::size_t>(file_at)]; }
  // Returns the step at which a path of the side changed its state, the last one before the step `before`.
  Index last_change(Index path, Side side, Index before) const;

 private:
  Index previous_input(Index of, Index from) const;
  const Story& story_;
  std::vector<std::int64_t> ends_;  // common time of the last record of each file
  std::vector<std::int64_t> idle_;  // longest_idle() of each file
};

bool is_input(std::string_view event);
// Returns "1 request" or "3 requests".
std::string many(std::uint64_t count, const char* one, const char* several);
// Names the command that explains more of the same traces, to follow a sentence.
inline std::string see(const std::string& target) {
  return "; see \"why ... " + target + "\"";
}

}  // namespace rtrs::tools::why
