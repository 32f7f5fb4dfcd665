// An in-memory storage device behind the simulated server. Requests take random times, overtake each other
// and fail with random errnos. A write takes effect, and a read copies the data, at a random instant between
// its start and its end. The sectors survive a server crash; requests in flight are lost.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/driver/block_actions.hpp"
#include "core/driver/server.hpp"
#include "sim/choices/choice.hpp"
#include "sim/oracles/data_integrity.hpp"

namespace rtrs::sim {

struct StorageOptions {
  std::uint32_t sectors = 32;
  Nanos latency = microseconds(50);  // maximum duration of a request
  std::uint32_t slow_rate = 0;       // probability per million that a request takes up to `slow_latency`
  Nanos slow_latency = 0;
  std::uint32_t error_rate = 0;  // probability per million that a request fails

  Nanos longest() const noexcept { return latency + slow_latency; }
};

class StorageModel {
 public:
  struct Op {
    RequestId id{};           // id of a request without block layer
    block::OpId operation{};  // id of an operation of a block server
    std::uint32_t io = 0;
    bool unidentified = false;  // several requests match; `io` is one of them
    Direction direction = Direction::read;
    std::uint64_t lba = 0;
    std::span<std::byte> data{};
    std::uint16_t error = 0;
  };
  enum class Instant : std::uint8_t { effect, end };
  struct Due {
    Instant instant = Instant::effect;
    Op op;
  };

  // Overrides the draws for the next requests: time from the start to the effect, time from the start to the
  // end, and errno.
  struct Planned {
    Nanos effect = 0;
    Nanos end = 0;
    std::uint16_t error = 0;
  };
  void plan(std::uint32_t count, const Planned& planned) { planned_.insert(planned_.end(), count, planned); }

  explicit StorageModel(const StorageOptions& options)
      : options_(options), bytes_(std::size_t{options.sectors} * kSectorBytes) {}
  void start(const Op&, Nanos now, ChoiceSource&);
  Nanos next_time() const noexcept { return heap_.empty() ? kNever : heap_.front().time; }
  // Returns the next event that is due. The caller reports the begin and the end of each effect to its
  // oracles, and then calls perform().
  bool take(Nanos now, Due&);
  // Applies the effect to the sectors or to the request's memory.
  void perform(const Op&) noexcept;
  // Drops all requests in flight.
  void crash() {
    heap_.clear();
    ops_.clear();
    free_.clear();
    planned_.clear();
  }
  std::size_t under_way() const noexcept { return ops_.size() - free_.size(); }
  const StorageOptions& options() const noexcept { return options_; }
  // Returns the memory of `bytes` bytes from sector `lba` on; empty if out of range.
  std::span<std::byte> at(std::uint64_t lba, std::size_t bytes) noexcept;

 private:
  struct Event {
    Nanos time = 0;
    std::uint64_t serial = 0;
    std::uint32_t op = 0;
    Instant instant = Instant::effect;
  };
  static bool later(const Event& a, const Event& b) noexcept {
    return a.time != b.time ? a.time > b.time : a.serial > b.serial;
  }
  void push(Nanos time, std::uint32_t op, Instant);

  StorageOptions options_;
  std::vector<std::byte> bytes_;
  std::vector<Event> heap_;
  std::vector<Op> ops_;
  std::vector<std::uint32_t> free_;
  std::deque<Planned> planned_;
  std::uint64_t serial_ = 0;
};

}  // namespace rtrs::sim
