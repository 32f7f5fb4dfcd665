// Records every request of a run, numbered from 1: its kind, the period in which it was in flight, and the
// result of a read. check() derives the history of each sector from these records.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/proto/ids.hpp"
#include "sim/oracles/history.hpp"

namespace rtrs::sim {

struct BookedIo {
  std::uint32_t client = 0;
  Direction direction = Direction::read;
  std::uint32_t lba = 0;
  std::uint32_t sectors = 0;
  std::uint32_t deliveries = 0;  // number of deliveries to storage
  Tick invoked = 0;
  Tick answered = kOpenEnd;    // time of the result, success or failure
  Tick window_end = kOpenEnd;  // time after which the request has no effect
  Tick last_effect = 0;        // time of the last effect; 0: none so far
  bool good = false;           // the request succeeded
  Nanos submitted = 0;         // time of submission on the client's clock
  std::size_t values = 0;      // successful reads: index in values_ of the first of `sectors` values
};

class IoBook {
 public:
  IoBook() : ios_(1) {}
  Tick tick() noexcept { return ++tick_; }
  Tick last_tick() const noexcept { return tick_; }
  std::uint32_t open(std::uint32_t client, Direction direction, std::uint32_t lba, std::uint32_t sectors) {
    BookedIo io;
    io.client = client;
    io.direction = direction;
    io.lba = lba;
    io.sectors = sectors;
    io.invoked = tick();
    ios_.push_back(io);
    return static_cast<std::uint32_t>(ios_.size() - 1);
  }
  // Removes the last request, which was refused at submission.
  void forget_last() { ios_.pop_back(); }
  bool knows(std::uint64_t io) const noexcept { return io != 0 && io < ios_.size(); }
  std::size_t count() const noexcept { return ios_.size() - 1; }
  BookedIo& operator[](std::size_t io) noexcept { return ios_[io]; }
  const BookedIo& operator[](std::size_t io) const noexcept { return ios_[io]; }
  void add_value(BookedIo& io, std::uint32_t index, std::uint32_t value) {
    if (index == 0) io.values = values_.size();
    values_.push_back(value);
  }
  // Ends the windows of all requests of this client that failed or that the client gave up: they can no
  // longer take effect.
  void close_windows(std::uint32_t client) {
    const Tick now = tick();
    for (BookedIo& io : ios_)
      if (io.client == client && io.answered != kOpenEnd && io.window_end == kOpenEnd) io.window_end = now;
  }
  // Records a write that failed at the client without a response from the server, which may still execute it.
  // The window of the write stays open until end_failed() or close_windows().
  void failed_unanswered(std::uint32_t io, unsigned start) { failed_.push_back({io, start}); }
  // Called when a request that the client process number `start` submitted at `invoked` succeeded. Writes
  // that had failed before `invoked` must not take effect from now on.
  void end_failed(std::uint32_t client, unsigned start, Tick invoked) {
    if (failed_.empty()) return;
    const Tick now = tick();
    std::erase_if(failed_, [&](const FailedWrite& one) {
      const BookedIo& write = ios_[one.io];
      if (write.client != client || one.start != start || write.answered > invoked) return false;
      ios_[one.io].window_end = std::min(ios_[one.io].window_end, now);
      return true;
    });
  }
  // Returns nullopt if the history of every sector is that of a register. `actual_windows`: the window of a
  // write ends at its last effect, as with a kernel server without a fence. `spoiled` sectors are not judged.
  std::optional<std::string> check(std::uint32_t sectors, bool actual_windows,
                                   const std::vector<bool>& spoiled) const;

 private:
  struct FailedWrite {
    std::uint32_t io = 0;
    unsigned start = 0;
  };
  std::vector<BookedIo> ios_;
  std::vector<FailedWrite> failed_;  // failed writes with open windows
  std::vector<std::uint32_t> values_;
  Tick tick_ = 0;
};

}  // namespace rtrs::sim
