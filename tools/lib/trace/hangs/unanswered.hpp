// Requests without an answer at the end of one or several traces of a run, and what each waits for.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/trace/hangs/pauses.hpp"
#include "tools/lib/trace/hangs/request_follower.hpp"

namespace rtrs::trace {

// A request that is younger at the end of its trace counts as being on its way.
inline constexpr std::uint64_t kHangAfter = 1'000'000'000;  // in ns

enum class HangStage : std::uint8_t {
  path,      // client: no path is connected
  turn,      // client: waits for room on a path, or until its lost path is closed
  sent,      // sent; no trace tells whether it arrived
  wire,      // sent; not in the trace of the server
  server,    // arrived; not passed to storage
  storage,   // storage has not completed it
  finished,  // storage has completed it; the server has not answered
  response,  // the server has answered; the answer has not arrived
};
const char* to_string(HangStage) noexcept;  // one word
const char* words_of(HangStage) noexcept;   // a clause

struct SideEvent {
  std::size_t trace = 0;
  bool client = false;
  Moment at;
};

struct Unanswered {
  std::size_t trace = 0;  // the client's if there is one, else the server's
  unsigned instance = 0;
  OpenRequest request;
  std::uint64_t age = 0;  // at the end of its trace, in ns
  HangStage stage = HangStage::sent;
  std::string message;                 // RNBD message in words; empty if the traces do not have it
  std::vector<SideEvent> last;         // last event of the request at each side
  std::optional<SideEvent> heard;      // client: last arrival from the server
  std::uint64_t connection_heard = 0;  // client: time of the last arrival on the connection of the request
};

// Returns "write of 4096 bytes, permit 3", with the RNBD message if it is known.
std::string request_words(const Unanswered&);

// Collects the traces of a run. Machines that ended properly, and clients that ended their session, have no
// unanswered requests.
class HangCollector {
 public:
  // Call before the records of each trace.
  void begin_trace(bool counts_only, std::uint64_t taken = 0) {
    traces_.emplace_back(counts_only, taken);
    pauses_.emplace_back();
  }
  void on(unsigned instance, const spec::Event& event) {
    pauses_.back().at(event.seq, event.now);
    pauses_.back().on(instance, event);
    traces_.back().on(instance, event);
  }
  void on(unsigned instance, const spec::DeviceEvent& event) {
    pauses_.back().at(event.seq, event.now);
    traces_.back().on(instance, event);
  }
  // RequestFollower::ended() of the trace that is read.
  const std::optional<StageTimes>& ended() const { return traces_.back().ended(); }
  // Takes a record of the trace. `translator`: tools/lib/trace/judge/translate.hpp.
  template <class Translator, class Record>
  void read(Translator& translator, const Record& record) {
    if (const spec::Event* event = translator.translate(record))
      on(record.instance, *event);
    else if (const spec::DeviceEvent* device = translator.translate_device(record))
      on(record.instance, *device);
  }
  // Requests that have waited for at least `hang_after` ns at the end of their trace, oldest first in each
  // trace. A request that is in the traces of both sides is listed once.
  std::vector<Unanswered> unanswered(std::uint64_t hang_after = kHangAfter) const;
  // Times in which the process that recorded the trace did not run.
  const std::vector<Pause>& pauses(std::size_t trace) const { return pauses_[trace].pauses(); }

 private:
  std::vector<RequestFollower> traces_;
  std::vector<PauseFinder> pauses_;
};

}  // namespace rtrs::trace
