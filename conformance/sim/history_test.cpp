// Tests the register checker with handwritten histories, and compares it with an exhaustive search on random
// ones.
#include "sim/oracles/history.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace rtrs::sim::history_test {

namespace {

using Writes = std::vector<RegisterWrite>;
using Reads = std::vector<RegisterRead>;

struct Instant {
  enum class Kind { write_begins, write_answered, window_ends, read_begins, read_answered };
  Tick time;
  Kind kind;
  std::size_t index;
};

std::vector<Instant> instants_of(const Writes& writes, const Reads& reads) {
  std::vector<Instant> instants;
  for (std::size_t at = 0; at < writes.size(); ++at) {
    instants.push_back({writes[at].invoked, Instant::Kind::write_begins, at});
    if (writes[at].window_end != kOpenEnd)
      instants.push_back({writes[at].window_end, Instant::Kind::window_ends, at});
    if (writes[at].answered != kOpenEnd)
      instants.push_back({writes[at].answered, Instant::Kind::write_answered, at});
  }
  for (std::size_t at = 0; at < reads.size(); ++at) {
    instants.push_back({reads[at].invoked, Instant::Kind::read_begins, at});
    instants.push_back({reads[at].answered, Instant::Kind::read_answered, at});
  }
  std::stable_sort(instants.begin(), instants.end(),
                   [](const Instant& a, const Instant& b) { return a.time < b.time; });
  return instants;
}

// Exhaustive search over all possible states of the register: content, writes that took effect, reads that
// returned their value.
class Search {
 public:
  Search(const Writes& writes, const Reads& reads) : writes_(writes), reads_(reads) {}

  bool is_valid() {
    states_ = {{0, 0, 0}};
    for (const Instant& instant : instants_of(writes_, reads_)) {
      spread();
      apply(instant);
      if (states_.empty()) return false;
    }
    return true;
  }

 private:
  using State = std::tuple<std::uint32_t, unsigned, unsigned>;

  State seen(State state) const {
    auto& [content, done, found] = state;
    for (std::size_t at = 0; at < reads_.size(); ++at)
      if ((reading_ >> at & 1U) != 0 && reads_[at].value == content) found |= 1U << at;
    return state;
  }
  // Adds all states that are reachable if unanswered writes take effect any number of times.
  void spread() {
    std::vector<State> work;
    std::set<State> all;
    for (const State& state : states_) work.push_back(seen(state));
    while (!work.empty()) {
      const State state = work.back();
      work.pop_back();
      if (!all.insert(state).second) continue;
      for (std::size_t at = 0; at < writes_.size(); ++at)
        if ((writing_ >> at & 1U) != 0)
          work.push_back(seen({writes_[at].value, std::get<1>(state) | 1U << at, std::get<2>(state)}));
    }
    states_ = all;
  }
  void apply(const Instant& instant) {
    const unsigned bit = 1U << instant.index;
    switch (instant.kind) {
      case Instant::Kind::write_begins:
        writing_ |= bit;
        break;
      case Instant::Kind::window_ends:
        writing_ &= ~bit;
        break;
      case Instant::Kind::write_answered:
        std::erase_if(states_, [bit](const State& state) { return (std::get<1>(state) & bit) == 0; });
        break;
      case Instant::Kind::read_begins:
        reading_ |= bit;
        break;
      case Instant::Kind::read_answered:
        reading_ &= ~bit;
        std::erase_if(states_, [bit](const State& state) { return (std::get<2>(state) & bit) == 0; });
        break;
    }
  }

  const Writes& writes_;
  const Reads& reads_;
  std::set<State> states_;
  unsigned writing_ = 0;
  unsigned reading_ = 0;
};

// Draws a history of up to four writes and four reads at distinct times. Most histories are valid or almost
// valid.
void draw_history(Writes& writes, Reads& reads) {
  const auto write_count = *rc::gen::inRange<unsigned>(0, 5);
  const auto read_count = *rc::gen::inRange<unsigned>(1, 5);
  std::vector<Tick> times(3 * write_count + 2 * read_count);
  for (std::size_t at = 0; at < times.size(); ++at) times[at] = at + 1;
  for (std::size_t at = times.size(); at > 1; --at)
    std::swap(times[at - 1], times[*rc::gen::inRange<std::size_t>(0, at)]);
  std::size_t next = 0;
  for (unsigned at = 0; at < write_count; ++at) {
    std::sort(times.begin() + static_cast<std::ptrdiff_t>(next),
              times.begin() + static_cast<std::ptrdiff_t>(next + 3));
    RegisterWrite write{at + 1, times[next], times[next + 1], times[next + 2]};
    const auto kind = *rc::gen::inRange<unsigned>(0, 4);
    if (kind == 0) write.window_end = write.answered;
    if (kind == 1) write.answered = kOpenEnd;
    if (kind == 2) write.answered = write.window_end = kOpenEnd;
    writes.push_back(write);
    next += 3;
  }
  for (unsigned at = 0; at < read_count; ++at) {
    const Tick a = times[next], b = times[next + 1];
    reads.push_back({*rc::gen::inRange<std::uint32_t>(0, write_count + 1), std::min(a, b), std::max(a, b)});
    next += 2;
  }
}

}  // namespace

TEST(History, LostUpdateIsFound) {
  const Writes writes{{1, 1, 2, 2}, {2, 3, 4, 4}};
  EXPECT_EQ(broken_register(writes, Reads{{2, 5, 6}}), nullptr);
  EXPECT_NE(broken_register(writes, Reads{{1, 5, 6}}), nullptr);
}

TEST(History, RepeatedWriteIsLegalOnlyInsideItsWindow) {
  EXPECT_NE(broken_register(Writes{{1, 1, 2, 2}, {2, 3, 4, 4}}, Reads{{2, 5, 6}, {1, 7, 8}}), nullptr);
  EXPECT_EQ(broken_register(Writes{{1, 1, 2, 9}, {2, 3, 4, 4}}, Reads{{2, 5, 6}, {1, 7, 8}}), nullptr);
}

TEST(History, FailedWriteMayOrMayNotTakeEffect) {
  const Writes writes{{1, 1, kOpenEnd, kOpenEnd}};
  EXPECT_EQ(broken_register(writes, Reads{{0, 5, 6}, {1, 7, 8}}), nullptr);
  EXPECT_NE(broken_register(writes, Reads{{2, 5, 6}}), nullptr);
}

TEST(History, ReadOfAFutureValueIsFound) {
  EXPECT_NE(broken_register(Writes{{1, 5, 6, 6}}, Reads{{1, 1, 2}}), nullptr);
}

TEST(History, AcknowledgedWriteWithoutAnEffectIsFound) {
  // Invalid: 0 is read again after an acknowledged write.
  EXPECT_NE(broken_register(Writes{{1, 2, 3, 3}}, Reads{{0, 1, 4}, {0, 5, 6}}), nullptr);
}

TEST(History, AgreesWithAnExhaustiveSearch) {
  unsigned illegal = 0;
  const bool passed = rc::check("checker and search agree", [&illegal] {
    for (unsigned round = 0; round < 100; ++round) {
      Writes writes;
      Reads reads;
      draw_history(writes, reads);
      const bool valid = Search(writes, reads).is_valid();
      illegal += valid ? 0 : 1;
      RC_ASSERT((broken_register(writes, reads) == nullptr) == valid);
    }
  });
  EXPECT_TRUE(passed);
  EXPECT_GT(illegal, 100U);
}

}  // namespace rtrs::sim::history_test
