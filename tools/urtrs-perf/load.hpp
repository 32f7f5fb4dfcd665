// Keeps `iodepth` requests of a session in flight. As soon as a request completes, the next request is sent.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "core/driver/client.hpp"
#include "tools/urtrs-perf/meter.hpp"
#include "tools/urtrs-perf/pattern.hpp"

namespace rtrs::perf {

class Load {
 public:
  // `data` must have at least iodepth * bytes bytes. The client must have a path.
  Load(const Options&, Client&, Fabric&, const Region& data, std::uint32_t bytes, Meter::Progress);

  void start(Nanos now);
  // Returns true if a request completed; then call it again immediately.
  bool step(Nanos now);
  Nanos next_deadline() const noexcept;
  // True after a failure, or when the measurement is over and all requests have completed.
  bool done() const noexcept { return failed() || (meter_.over() && inflight_ == 0); }
  bool failed() const noexcept { return exit_code_ != kOk; }
  // Ends the measurement early. Does not wait for requests in flight.
  void stop(Nanos now, int exit_code, std::string why);

  const std::string& failure() const noexcept { return failure_; }
  int exit_code() const noexcept { return exit_code_; }
  Result take_result() { return meter_.take(); }

 private:
  struct Slot {
    Nanos submitted = 0;
    Direction direction = Direction::read;
    PerfHeader header;
  };
  void submit(Nanos now, std::uint32_t slot);
  void finish(Nanos now, const IoCompletion&);
  Direction next_direction() noexcept;
  std::uint64_t next_offset() noexcept;
  std::uint64_t draw() noexcept;
  std::span<std::byte> data_of(std::uint32_t slot) const noexcept {
    return data_.bytes.subspan(std::size_t{slot} * bytes_, bytes_);
  }

  const Options& options_;
  Client& client_;
  Fabric& fabric_;
  Region data_;
  std::uint32_t bytes_;
  Meter meter_;
  std::vector<Slot> slots_;
  std::array<IoCompletion, 64> finished_;
  std::uint64_t blocks_;
  std::uint64_t next_block_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t random_ = 0x853c49e6748fea9bu;
  unsigned inflight_ = 0;
  // If no request completes for this time, the measurement fails.
  Nanos patience_;
  Nanos last_completion_ = 0;
  int exit_code_ = kOk;
  std::string failure_;
};

}  // namespace rtrs::perf
