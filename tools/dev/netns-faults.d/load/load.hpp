// A load that reads and writes cells of one remote device at a given rate, and records every event in a
// history.
#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "tools/dev/netns-faults.d/load/history.hpp"

namespace rtrs::real {

struct LoadOptions {
  std::uint32_t client = 0;  // 0 .. kMaxClient
  std::uint64_t seed = 1;
  std::uint32_t cells =
      256;  // number of cells of the device, which start at byte `base`; equal for all clients of a device
  std::uint32_t first = 0;     // first cell that this client uses
  std::uint32_t used = 0;      // number of cells that this client uses; 0: all
  std::uint64_t base = 0;      // byte offset of cell 0 on the device
  std::uint32_t depth = 16;    // maximum number of requests in flight
  std::uint32_t rate = 1500;   // requests per second
  std::uint32_t longest = 16;  // maximum number of cells in one request
  std::uint32_t write_percent = 70;
};

// Not thread-safe: use it only in the thread of the io_context.
class Load {
 public:
  // `device` must be mapped and outlive the load. `history` must be open.
  Load(boost::asio::io_context&, asio::RemoteDevice& device, HistoryWriter& history, const LoadOptions&);

  void start();
  // Starts no new requests and waits for those in flight. Then reads every cell (final read; skipped if no
  // path is left) and calls `done`.
  void finish(std::function<void()> done);
  // Returns the counters and the worst latency so far.
  nlohmann::json summary() const;

 private:
  struct Slot {
    explicit Slot(boost::asio::io_context& context) : timer(context) {}
    boost::asio::steady_timer timer;
    std::vector<std::byte> data;
    std::uint32_t id = 0;
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    bool write = false;
    Time begun = 0;
  };
  struct Cell {
    std::uint16_t reads = 0;  // number of reads in flight
    std::uint16_t writes = 0;
  };
  struct ErrorCount {
    std::uint64_t count = 0;
    Time first = 0;  // time of the first answer with this errno
    Time last = 0;
  };

  void rest(Slot&);
  void next(Slot&);
  bool choose(Slot&);
  bool is_free(const Slot&) const;
  void occupy(const Slot&, int change);
  void begin(Slot&);
  void on_done(Slot&, const boost::system::error_code&);
  void note_error(const Slot&, const boost::system::error_code&, Time now);
  void settle();

  boost::asio::io_context& context_;
  asio::RemoteDevice& device_;
  HistoryWriter& history_;
  LoadOptions options_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Cell> cells_;
  std::uint32_t next_id_;
  std::uint32_t in_flight_ = 0;
  std::uint32_t final_cell_ = 0;  // next cell of the final read
  std::function<void()> done_;
  std::uint64_t answered_ = 0;
  Time worst_ = 0;
  Time worst_begun_ = 0;
  std::uint64_t broken_ = 0;
  std::map<std::string, ErrorCount> errors_;
};

}  // namespace rtrs::real
