#include "sim/explore/search.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "core/base/assert.hpp"
#include "sim/explore/canonical.hpp"
#include "sim/explore/endings.hpp"
#include "sim/explore/packed_world.hpp"
#include "sim/explore/state_table.hpp"

namespace rtrs::explore {

namespace {

using sim::MachineStep;
using sim::MachineWorld;

// kBlock: states of a block, the unit of work of a thread. kRound: the memory use is checked once per this
// many expanded blocks. kMostSteps: maximum number of enabled steps of a state.
constexpr std::size_t kBlock = 64;
constexpr std::size_t kRound = 64;
constexpr std::size_t kMostSteps = 48;

// States of one level in packed form. A block is freed as soon as its states are expanded.
struct Block {
  std::vector<std::uint8_t> bytes;
  std::vector<std::pair<StateId, std::uint32_t>> items;  // id of the state, and end of its bytes

  std::size_t memory() const noexcept { return bytes.capacity() + items.capacity() * sizeof(items[0]); }
  std::span<const std::uint8_t> at(std::size_t i) const noexcept {
    const std::size_t begin = i == 0 ? 0 : items[i - 1].second;
    return {bytes.data() + begin, items[i].second - begin};
  }
};

struct Broken {
  const char* rule = nullptr;
  StateId id = 0;
};

// State of one thread, which no other thread accesses during a round.
struct Worker {
  explicit Worker(const MachineWorld& root) : world(root), next(root) {}

  // `before`: as for pack().
  void push(StateId id, std::span<const std::uint8_t> before) {
    pack(next, before, filling.bytes);
    filling.items.emplace_back(id, static_cast<std::uint32_t>(filling.bytes.size()));
    if (filling.items.size() == kBlock) end_block();
  }
  void end_block() {
    if (filling.items.empty()) return;
    found.push_back(filling);  // copied, because a copy has no spare capacity
    found_bytes += found.back().memory();
    filling.bytes.clear();
    filling.items.clear();
  }

  MachineWorld world;
  MachineWorld next;
  Unpacked differs;  // client or server of `world` changed since `next` was last made equal
  Block filling;
  std::vector<Block> found;
  std::size_t found_bytes = 0;
  std::vector<StateId> targets;  // targets of the edges from the state that is being expanded
  EdgeLog edges;
  std::vector<StateId> finished;
  std::vector<Broken> broken;
  std::uint64_t transitions = 0;
};

class Search {
 public:
  Search(const MachineWorld& root, const SearchOptions& options) : root_(root), options_(options) {
    for (unsigned i = 0; i < std::max(1U, options.threads); ++i)
      workers_.push_back(std::make_unique<Worker>(root));
  }

  SearchResult run() {
    if (const char* why = options_.reduced ? why_not_canonical(root_.config()) : nullptr) {
      result_.stopped_by = std::string("the states of this world cannot be reduced: ") + why;
      return result_;
    }
    if (!table_.reserve(1, options_.most_bytes)) return stop_out_of_memory();
    begin();
    while (!level_.empty() && result_.stopped_by.empty()) {
      ++depth_;
      if (step_level()) result_.depth = depth_;
    }
    return finish();
  }

 private:
  std::uint64_t identity(const MachineWorld& world, ClientMemo* memo = nullptr) const {
    return options_.reduced ? canonical(world, memo) : std::max<std::uint64_t>(1, world.fingerprint());
  }
  void begin() {
    started_ = std::chrono::steady_clock::now();
    const auto root = table_.insert(identity(root_), StateTable::kNone, 1);
    workers_[0]->push(root.id, {});
    if (root_.finished()) workers_[0]->finished.push_back(root.id);
    next_level();
  }

  // Expands every state of the level. Returns true if a new state was found.
  bool step_level() {
    first_of_level_ = static_cast<StateId>(table_.size());
    for (std::size_t at = 0; at < level_.size() && result_.stopped_by.empty(); at += kRound) {
      step_round(at, std::min(level_.size(), at + kRound));
      report();
    }
    next_level();
    return table_.size() > first_of_level_;
  }
  void next_level() {
    level_.clear();
    for (const auto& worker : workers_) {
      worker->end_block();
      std::move(worker->found.begin(), worker->found.end(), std::back_inserter(level_));
      worker->found.clear();
      worker->found_bytes = 0;
    }
    level_bytes_ = waiting_ = 0;
    for (const Block& block : level_) {
      level_bytes_ += block.memory();
      waiting_ += block.items.size();
    }
  }

  void step_round(std::size_t begin, std::size_t end) {
    if (table_.size() >= options_.most_states) {
      result_.stopped_by = "the limit of states was reached";
      return;
    }
    if (options_.stopped && options_.stopped()) {
      result_.stopped_by = "it was stopped";
      return;
    }
    const std::size_t bytes = memory();
    result_.bytes = std::max(result_.bytes, bytes);
    const std::size_t left = options_.most_bytes > bytes ? options_.most_bytes - bytes : 0;
    if (!table_.reserve((end - begin) * kBlock * kMostSteps, left + table_.bytes())) {
      stop_out_of_memory();
      return;
    }
    for (std::size_t at = begin; at < end; ++at) {
      level_bytes_ -= level_[at].memory();
      waiting_ -= level_[at].items.size();
    }
    std::atomic<std::size_t> next{begin};
    const auto work = [&](Worker& worker) {
      for (std::size_t at = next.fetch_add(1); at < end; at = next.fetch_add(1)) {
        for (std::size_t i = 0; i < level_[at].items.size(); ++i) step_state(worker, level_[at], i);
        level_[at] = Block{};
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < workers_.size(); ++i) threads.emplace_back(work, std::ref(*workers_[i]));
    work(*workers_[0]);
    for (std::thread& thread : threads) thread.join();
  }

  void step_state(Worker& worker, const Block& block, std::size_t i) {
    const StateId from = block.items[i].first;
    const auto before = i == 0 ? std::span<const std::uint8_t>() : block.at(i - 1);
    const Unpacked changed = unpack(block.at(i), before, worker.world);
    // The flags accumulate over states that have no steps.
    worker.differs.client |= changed.client;
    worker.differs.server |= changed.server;
    const auto steps = worker.world.enabled();
    RTRS_ASSERT(steps.size() <= kMostSteps);
    worker.targets.clear();
    ClientMemo memo;
    for (const MachineStep& step : steps) {
      worker.next.undo(worker.world, worker.differs.client, worker.differs.server);
      worker.differs = {};
      worker.next.apply(step);
      ++worker.transitions;
      const auto [id, fresh] = table_.insert(identity(worker.next, &memo), from, first_of_level_);
      if (options_.judge_endings && !step.is_fault()) worker.targets.push_back(id);
      if (!fresh) continue;
      if (worker.next.violation() != nullptr) {
        worker.broken.push_back({worker.next.violation(), id});
        continue;
      }
      if (worker.next.finished()) worker.finished.push_back(id);
      worker.push(id, block.at(i));
    }
    worker.edges.add(from, worker.targets);
  }

  // --- the end ---

  std::size_t memory() const {
    std::size_t bytes = table_.bytes() + level_bytes_ + level_.capacity() * sizeof(Block);
    for (const auto& worker : workers_) {
      bytes += worker->found_bytes + worker->found.capacity() * sizeof(Block) + worker->edges.bytes();
      bytes += worker->finished.capacity() * sizeof(StateId);
    }
    return bytes;
  }
  SearchResult& stop_out_of_memory() {
    result_.stopped_by = "the memory that it may use is full";
    return result_;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }
  std::uint64_t transitions() const {
    std::uint64_t all = 0;
    for (const auto& worker : workers_) all += worker->transitions;
    return all;
  }
  void report() {
    if (!options_.progress || seconds() < reported_ + 1) return;
    reported_ = seconds();
    std::size_t waiting = waiting_;
    for (const auto& worker : workers_)
      waiting += worker->found.size() * kBlock + worker->filling.items.size();
    options_.progress({table_.size(), transitions(), waiting, depth_, reported_, memory()});
  }

  SearchResult& finish() {
    result_.bytes = std::max(result_.bytes, memory());
    result_.states = table_.size();
    result_.transitions = transitions();
    std::map<std::string, std::vector<StateId>> broken;
    std::vector<StateId> done;
    std::vector<StateId> excused;
    std::vector<EdgeLog> edges;
    for (const auto& worker : workers_) {
      for (const Broken& one : worker->broken) broken[one.rule].push_back(one.id);
      for (const Broken& one : worker->broken) excused.push_back(one.id);
      done.insert(done.end(), worker->finished.begin(), worker->finished.end());
      edges.push_back(std::move(worker->edges));
    }
    result_.finished = done.size();
    if (options_.judge_endings && result_.exhausted()) {
      // A state from which a rule violation is reachable does not count as stuck: that violation is reported
      // instead.
      done.insert(done.end(), excused.begin(), excused.end());
      auto stuck = find_dead_ends(std::move(edges), done, table_.size());
      if (!stuck.empty()) broken[kStuck] = std::move(stuck);
    }
    for (auto& [rule, states] : broken) result_.findings.push_back({rule, states.size(), steps_to(states)});
    result_.seconds = seconds();
    return result_;
  }

  // Returns the steps of a shortest path to one of `states`. If several are equally near, chooses the one
  // with the lowest key.
  std::vector<MachineStep> steps_to(const std::vector<StateId>& states) const {
    const auto way = [this](StateId id) {
      std::vector<StateId> ids;
      for (; id != StateTable::kNone; id = table_.origin(id)) ids.push_back(id);
      std::reverse(ids.begin(), ids.end());
      return ids;
    };
    std::vector<StateId> best;
    for (const StateId id : states) {
      auto ids = way(id);
      const bool better = best.empty() || ids.size() < best.size() ||
                          (ids.size() == best.size() && table_.key(id) < table_.key(best.back()));
      if (better) best = std::move(ids);
    }
    return replay(best);
  }
  // Finds the step from each state to the next by trying all enabled steps, because the table does not store
  // steps.
  std::vector<MachineStep> replay(const std::vector<StateId>& ids) const {
    std::vector<MachineStep> steps;
    MachineWorld world = root_;
    for (std::size_t i = 1; i < ids.size(); ++i) {
      for (const MachineStep& step : world.enabled()) {
        MachineWorld next = world;
        next.apply(step);
        if (identity(next) != table_.key(ids[i])) continue;
        world = next;
        steps.push_back(step);
        break;
      }
      RTRS_ASSERT(steps.size() == i);
    }
    return steps;
  }

  const MachineWorld& root_;
  const SearchOptions& options_;
  StateTable table_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Block> level_;
  std::size_t level_bytes_ = 0;  // memory of the blocks that are not expanded yet
  std::size_t waiting_ = 0;      // number of states in these blocks
  StateId first_of_level_ = 0;
  unsigned depth_ = 0;
  std::chrono::steady_clock::time_point started_{};
  double reported_ = 0;
  SearchResult result_;
};

}  // namespace

const Finding* SearchResult::finding(const char* rule) const {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [rule](const Finding& finding) { return finding.rule == rule; });
  return found == findings.end() ? nullptr : &*found;
}

SearchResult search(const MachineWorld& root, const SearchOptions& options) {
  return Search(root, options).run();
}

}  // namespace rtrs::explore
