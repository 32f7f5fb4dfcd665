#include "tools/dev/netns-faults.d/load/history.hpp"

#include <algorithm>
#include <istream>
#include <sstream>
#include <tuple>

namespace rtrs::real {

using sim::kOpenEnd;
using sim::RegisterRead;
using sim::RegisterWrite;
using sim::Tick;

tl::expected<void, std::string> Book::add(std::istream& text, const std::string& name) {
  Load load;
  load.name = name;
  std::string line;
  std::getline(text, line);
  if (std::string why = header(load, line); !why.empty()) return tl::unexpected(name + ": " + why);
  for (std::size_t number = 2; std::getline(text, line); ++number) {
    if (text.eof()) break;  // the line has no line feed, because the process ended while writing it
    if (std::string why = take(load, line); !why.empty())
      return tl::unexpected(name + ":" + std::to_string(number) + ": " + why);
  }
  loads_.push_back(std::move(load));
  return {};
}

std::string Book::header(Load& load, const std::string& line) {
  std::istringstream words(line);
  std::string magic;
  unsigned version = 0;
  std::uint64_t seed = 0;
  std::uint32_t cells = 0;
  if (!(words >> magic >> version >> load.client >> seed >> cells) || magic != "urtrs-history" ||
      version != 1)
    return "not a history of version 1";
  if (load.client > kMaxClient || cells == 0 || cells > kMaxCells)
    return "a client from 0 to 253 and 1 to 2^20 cells are expected";
  if (cells_ != 0 && (cells != cells_ || seed != seed_))
    return "the seed or the number of cells is that of another run";
  for (const Load& other : loads_)
    if (other.client == load.client)
      return "client " + std::to_string(load.client) + " is also in " + other.name;
  cells_ = cells;
  seed_ = seed;
  return {};
}

std::string Book::take(Load& load, const std::string& line) {
  if (load.ended) return "something follows the end";
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == "w" || kind == "r") return take_begin(load, words, kind == "w");
  if (kind == "a") return take_answer(load, words);
  if (kind != "end") return "unknown event '" + kind + "'";
  load.ended = true;
  return {};
}

std::string Book::take_begin(Load& load, std::istream& words, bool write) {
  Operation operation;
  operation.write = write;
  if (!(words >> operation.id >> operation.first >> operation.count >> operation.begun))
    return "an id, the first cell, a count and a time are expected";
  if (operation.count == 0 || operation.first >= cells_ || operation.count > cells_ - operation.first)
    return "there are only " + std::to_string(cells_) + " cells";
  if (operation.id >> 24 != load.client + 1)
    return "the id " + std::to_string(operation.id) + " is not one of client " + std::to_string(load.client);
  if (!load.operations.emplace(operation.id, operation).second)
    return "the id " + std::to_string(operation.id) + " is not new";
  return {};
}

std::string Book::take_answer(Load& load, std::istream& words) {
  std::uint32_t id = 0;
  std::string outcome;
  int error = 0;
  if (!(words >> id >> outcome)) return "an id and an outcome are expected";
  const auto found = load.operations.find(id);
  if (found == load.operations.end()) return "an answer to " + std::to_string(id) + ", which nobody asked";
  Operation& one = found->second;
  if (one.answered) return "a second answer to " + std::to_string(id);
  one.answered = true;
  one.outcome = outcome == "ok" ? Outcome::ok : outcome == "peer" ? Outcome::peer : Outcome::gone;
  if (one.outcome != Outcome::ok && !(words >> error)) return "an errno is expected";
  if (!(words >> one.ended)) return "a time is expected";
  for (std::string value; words >> value;) {
    const bool number = !value.empty() && value.size() < 11 &&
                        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!number && value != "x") return "'" + value + "' is not a value";
    one.values.push_back(number ? static_cast<std::uint32_t>(std::stoull(value)) : kBroken);
  }
  const std::size_t expected = one.outcome == Outcome::ok && !one.write ? one.count : 0;
  if (one.values.size() != expected) return std::to_string(expected) + " values are expected";
  return {};
}

// Maps times to unique ticks, because the oracle needs distinct numbers and processes can record equal times.
// If times are equal, a start is ordered before an answer. The operations then overlap, which allows more
// results.
struct Book::Ticks {
  explicit Ticks(const std::vector<Load>& loads) {
    for (const Load& load : loads)
      for (const auto& [id, one] : load.operations) {
        keys.emplace_back(one.begun, 0, id);
        if (one.answered) keys.emplace_back(one.ended, 1, id);
      }
    std::sort(keys.begin(), keys.end());
  }
  Tick of(Time time, int answer, std::uint32_t id) const {
    const auto at = std::lower_bound(keys.begin(), keys.end(), std::tuple(time, answer, id));
    return static_cast<Tick>(at - keys.begin()) + 1;
  }
  Tick after_all() const { return keys.size() + 1; }
  std::vector<std::tuple<Time, int, std::uint32_t>> keys;
};

void Book::judge_answers(const Load& load, Findings& findings) const {
  for (const auto& [id, one] : load.operations) {
    ++(one.write ? findings.writes : findings.reads);
    if (one.answered && one.outcome != Outcome::ok) ++findings.failed;
    if (one.answered) continue;
    ++findings.unanswered;
    if (load.ended)
      findings.broken.push_back(load.name + ": request " + std::to_string(id) + " was never answered");
  }
}

void Book::judge_cells(Findings& findings) const {
  struct Register {
    std::vector<RegisterWrite> writes;
    std::vector<RegisterRead> reads;
  };
  std::vector<Register> registers(cells_);
  const Ticks ticks(loads_);
  for (const Load& load : loads_) {
    for (const auto& [id, one] : load.operations) {
      const Tick begun = ticks.of(one.begun, 0, id);
      const Tick ended = one.answered ? ticks.of(one.ended, 1, id) : kOpenEnd;
      const bool good = one.answered && one.outcome == Outcome::ok;
      for (std::uint32_t at = 0; at < one.count; ++at) {
        const std::uint32_t number = one.first + at;
        Register& cell = registers[number];
        if (one.write) {
          const bool over = good || (one.answered && one.outcome == Outcome::peer);
          cell.writes.push_back({id, begun, good ? ended : kOpenEnd, over ? ended : kOpenEnd});
        } else if (good && one.values[at] == kBroken) {
          findings.broken.push_back(load.name + ": read " + std::to_string(id) + " of cell " +
                                    std::to_string(number) + " is not the content of one write");
        } else if (good) {
          cell.reads.push_back({one.values[at], begun, ended});
        }
      }
    }
  }
  for (std::uint32_t number = 0; number < cells_; ++number) {
    Register& cell = registers[number];
    if (number < final_.size() && final_[number] == kBroken) {
      findings.broken.push_back("cell " + std::to_string(number) +
                                " of the device is not the content of one write");
    } else if (number < final_.size()) {
      cell.reads.push_back({final_[number], ticks.after_all(), ticks.after_all() + 1});
    }
    findings.compared += cell.reads.size();
    if (const char* why = sim::broken_register(cell.writes, cell.reads))
      findings.broken.push_back("cell " + std::to_string(number) + ": " + why);
  }
}

Findings Book::judge() const {
  Findings findings;
  for (const Load& load : loads_) judge_answers(load, findings);
  judge_cells(findings);
  return findings;
}

}  // namespace rtrs::real
