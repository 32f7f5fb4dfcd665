// Sorts the steps of all files. Keeps the order within each file, and puts each receive after its send.
// Clocks decide only the order of the other steps.
#include <algorithm>
#include <limits>

#include "tools/lib/trace/sequence/build.hpp"

namespace rtrs::tools::sequence {

namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;

// Times of a trace may have any value, so a sum may wrap around.
constexpr std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// Range of the server's clock minus the client's clock, in ns, computed from the messages between two files.
struct Offset {
  std::int64_t least = -kFar, most = kFar;
  bool any = false;
};

std::int64_t file_offset(const Story& story, Index client, Index server) {
  Offset offset;
  for (const Step& sent : story.steps) {
    if (sent.shape != Shape::send || sent.peer == kNone) continue;
    const Step& got = story.steps[static_cast<std::size_t>(sent.peer)];
    if (sent.file == client && got.file == server) {
      offset.most = std::min(offset.most, static_cast<std::int64_t>(got.time - sent.time));
    } else if (sent.file == server && got.file == client) {
      offset.least = std::max(offset.least, static_cast<std::int64_t>(sent.time - got.time));
    } else {
      continue;
    }
    offset.any = true;
  }
  const std::int64_t slack = clock_slack(story.files[static_cast<std::size_t>(client)]);
  if (!offset.any || (offset.least <= slack && offset.most >= -slack)) return 0;
  if (offset.least == -kFar) return offset.most;
  if (offset.most == kFar) return offset.least;
  return offset.least + (offset.most - offset.least) / 2;
}

void estimate_clocks(Story& story) {
  Index reference = kNone;
  for (std::size_t file = 0; file < story.files.size() && reference == kNone; ++file) {
    if (story.files[file].has_server) reference = static_cast<Index>(file);
  }
  for (std::size_t file = 0; file < story.files.size() && reference != kNone; ++file) {
    if (static_cast<Index>(file) == reference) continue;
    story.files[file].clock = file_offset(story, static_cast<Index>(file), reference);
    story.same_clock = story.same_clock && story.files[file].clock == 0;
  }
}

class Merge {
 public:
  explicit Merge(Story& story) : story_(story), place_(story.steps.size(), kNone) {
    next_.assign(story.files.size(), 0);
    queues_.resize(story.files.size());
    for (std::size_t i = 0; i < story.steps.size(); ++i)
      queues_[static_cast<std::size_t>(story.steps[i].file)].push_back(static_cast<Index>(i));
  }

  void run() {
    std::vector<Index> order;
    order.reserve(place_.size());
    while (order.size() < place_.size()) {
      const Index step = pick();
      place_[static_cast<std::size_t>(step)] = static_cast<Index>(order.size());
      order.push_back(step);
    }
    rearrange(order);
  }

 private:
  std::int64_t time(Index at) const {
    const Step& step = story_.steps[static_cast<std::size_t>(at)];
    return sum(static_cast<std::int64_t>(step.time), story_.files[static_cast<std::size_t>(step.file)].clock);
  }
  bool waits(Index at) const {
    const Step& step = story_.steps[static_cast<std::size_t>(at)];
    return step.shape == Shape::receive && step.peer != kNone &&
           place_[static_cast<std::size_t>(step.peer)] == kNone;
  }

  Index pick() {
    std::size_t free = queues_.size(), any = queues_.size();
    for (std::size_t file = 0; file < queues_.size(); ++file) {
      if (next_[file] == queues_[file].size()) continue;
      const Index head = queues_[file][next_[file]];
      if (any == queues_.size() || time(head) < time(queues_[any][next_[any]])) any = file;
      if (waits(head)) continue;
      if (free == queues_.size() || time(head) < time(queues_[free][next_[free]])) free = file;
    }
    if (free == queues_.size()) {
      // Every file waits for another file, so at least one pair of send and receive is wrong. Drops one pair,
      // so that the sort can continue.
      free = any;
      Step& step = story_.steps[static_cast<std::size_t>(queues_[any][next_[any]])];
      story_.steps[static_cast<std::size_t>(step.peer)].peer = kNone;
      step.peer = kNone;
    }
    return queues_[free][next_[free]++];
  }

  // Finds the start of the earliest run, and makes it the origin of all files.
  std::int64_t common_zero() {
    std::int64_t zero = kFar;
    for (const TraceFile& file : story_.files)
      if (file.records != 0) zero = std::min(zero, sum(file.times.zero(), file.clock));
    for (TraceFile& file : story_.files) file.times.move_to(sum(zero, -file.clock));
    return zero;
  }

  Index moved(Index at) const { return at == kNone ? kNone : place_[static_cast<std::size_t>(at)]; }

  void rearrange(const std::vector<Index>& order) {
    std::vector<Step> sorted;
    sorted.reserve(order.size());
    const std::int64_t zero = common_zero();
    std::int64_t last = 0;
    for (const Index at : order) {
      last = std::max(last, sum(time(at), -zero));
      Step& step = story_.steps[static_cast<std::size_t>(at)];
      step.at = last;
      step.peer = moved(step.peer);
      sorted.push_back(std::move(step));
    }
    story_.steps = std::move(sorted);
    for (Connection& connection : story_.connections) {
      for (Index& at : connection.sent) at = moved(at);
      for (Index& at : connection.received) at = moved(at);
    }
  }

  Story& story_;
  std::vector<std::vector<Index>> queues_;  // step indexes of each file, in recorded order
  std::vector<std::size_t> next_;
  std::vector<Index> place_;  // new index of each step, by old index
};

}  // namespace

std::int64_t clock_slack(const TraceFile& file) noexcept {
  return file.backend.starts_with("sim") ? 0 : 50'000'000;
}

void order_steps(Story& story) {
  estimate_clocks(story);
  Merge(story).run();
}

}  // namespace rtrs::tools::sequence
