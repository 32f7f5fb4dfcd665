// History of a load: a text file with one line per start and per answer of a request. The judge checks that
// every request was answered once, and that the writes explain the content of every cell that was read
// (sim/oracles/history.hpp).
//
//     urtrs-history 1 CLIENT SEED CELLS       first line
//     w ID FIRST COUNT AT                     a write of cells FIRST .. FIRST + COUNT - 1 starts
//     r ID FIRST COUNT AT                     a read starts
//     a ID ok AT [VALUE ...]                  success; a read has the value of each cell, x: invalid content
//     a ID peer ERRNO AT                      error from the server: the write takes no effect after AT
//     a ID gone ERRNO AT                      no answer: the write may take effect at any later time
//     end AT                                  the load ended normally
//
// AT is nanoseconds of the monotonic clock, which all processes of the host share. The ID of a write is the
// value of the cells that it writes. The upper 8 bits are the client number + 1, so that IDs are unique among
// all clients.
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

using Time = std::int64_t;  // in nanoseconds

inline constexpr std::uint32_t kBroken = 0xffffffff;  // value of a cell with invalid content
inline constexpr std::uint32_t kMaxClient = 253;
inline constexpr std::uint32_t kMaxCells = 1U << 20;
constexpr std::uint32_t first_id(std::uint32_t client) noexcept {
  return (client + 1) << 24;
}

enum class Outcome : std::uint8_t {
  ok,
  peer,  // error from the server
  gone,  // error from the client: the server did not answer
};

// Writes each event with one system call. A start is written before the request is submitted, so that the
// history of a killed process contains every request that it submitted.
class HistoryWriter {
 public:
  // Creates `file` and writes the first line. Returns 0 or a positive errno.
  int open(const std::string& file, std::uint32_t client, std::uint64_t seed, std::uint32_t cells);
  HistoryWriter() = default;
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  void begin(bool write, std::uint32_t id, std::uint32_t first, std::uint32_t count, Time at);
  void answer(std::uint32_t id, Outcome, int error, std::span<const std::uint32_t> values, Time at);
  void end(Time at);
  // Returns 0, or the errno of the first write that failed. After that the history is incomplete.
  int error() const noexcept { return error_; }

 private:
  void put(const std::string& line);
  int file_ = -1;
  int error_ = 0;
};

struct Findings {
  std::vector<std::string> broken;  // descriptions of broken rules; empty: no rule is broken
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
  std::uint64_t failed = 0;      // requests that were answered with an error
  std::uint64_t unanswered = 0;  // requests without an answer, from loads that were killed
  std::uint64_t compared = 0;    // number of cell contents that were checked
};

// The histories of all clients of one device.
class Book {
 public:
  // Reads one history. The error text names the line. An incomplete last line is accepted, because the load
  // may have been killed.
  tl::expected<void, std::string> add(std::istream&, const std::string& name);
  // Sets the content of the device after all loads have ended, one value per cell. The content is judged like
  // a final read.
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
