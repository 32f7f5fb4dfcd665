// What a load asked for and what it was answered, as text with one event a line, and the judgement of it:
// every request answered once, every cell that was read explained by the writes (sim/oracles/history.hpp).
//
//     urtrs-history 1 CLIENT SEED CELLS       first line
//     w ID FIRST COUNT AT                     a write of cells FIRST .. FIRST + COUNT - 1 begins
//     r ID FIRST COUNT AT                     a read begins
//     a ID ok AT [VALUE ...]                  the answer; of a read with the value of each cell, x: broken
//     a ID peer ERRNO AT                      the server's error: nothing of it takes effect any more
//     a ID gone ERRNO AT                      no answer of a server: it may take effect at any time
//     end AT                                  the load ended by itself
//
// AT is in nanoseconds of the monotonic clock, which all processes of a machine share. A write's ID is the
// value that it writes: the client's number in the upper 8 bits, so it is unique over all clients.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "sim/oracles/history.hpp"

namespace rtrs::real {

using Time = std::int64_t;  // nanoseconds

inline constexpr std::uint32_t kBroken = 0xffffffff;  // instead of a cell's value
inline constexpr std::uint32_t kMaxClient = 253;
inline constexpr std::uint32_t kMaxCells = 1U << 20;
constexpr std::uint32_t first_id(std::uint32_t client) noexcept {
  return (client + 1) << 24;
}

enum class Outcome : std::uint8_t {
  ok,
  peer,  // an errno of the server
  gone,  // an errno of our side
};

// Appends to a file with one system call an event, before what the event announces is done: what a killed
// process had begun is in it.
class HistoryWriter {
 public:
  // 0 or a positive errno.
  int open(const std::string& file, std::uint32_t client, std::uint64_t seed, std::uint32_t cells);
  HistoryWriter() = default;
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  void begin(bool write, std::uint32_t id, std::uint32_t first, std::uint32_t count, Time at);
  void answer(std::uint32_t id, Outcome, int error, std::span<const std::uint32_t> values, Time at);
  void end(Time at);
  // 0, or the errno of the first write that failed: the history is not whole then.
  int error() const noexcept { return error_; }

 private:
  void put(const std::string& line);
  int file_ = -1;
  int error_ = 0;
};

struct Findings {
  std::vector<std::string> broken;  // rules that were broken, in words; empty: all is well
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
  std::uint64_t failed = 0;      // answered by an error
  std::uint64_t unanswered = 0;  // of loads that were killed
  std::uint64_t compared = 0;    // cells that were read and explained
};

// The histories of all clients of one device.
class Book {
 public:
  // The error is a sentence with the line. The last line of a load that was killed may be incomplete.
  tl::expected<void, std::string> add(std::istream&, const std::string& name);
  // The content of the device after everything, one value a cell: read once more, at the end.
  void add_final_content(std::vector<std::uint32_t> values) { final_ = std::move(values); }

  std::uint32_t cells() const noexcept { return cells_; }
  std::uint64_t seed() const noexcept { return seed_; }
  Findings judge() const;

 private:
  struct Operation {
    bool write = false;
    bool answered = false;
    Outcome outcome = Outcome::ok;
    std::uint32_t id = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    Time begun = 0;
    Time ended = 0;
    std::vector<std::uint32_t> values;
  };
  struct Load {
    std::string name;
    std::uint32_t client = 0;
    bool ended = false;
    std::map<std::uint32_t, Operation> operations;
  };
  struct Ticks;

  std::string header(Load&, const std::string& line);
  std::string take(Load&, const std::string& line);
  std::string take_begin(Load&, std::istream&, bool write);
  std::string take_answer(Load&, std::istream&);
  void judge_answers(const Load&, Findings&) const;
  void judge_cells(Findings&) const;

  std::uint32_t cells_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<Load> loads_;
  std::vector<std::uint32_t> final_;
};

}  // namespace rtrs::real
