// The command line of urtrs-perf.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/options/connection.hpp"

namespace rtrs::perf {

// Exit codes, those of every tool of this project.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // the measurement failed: wrong data, an error of the server
inline constexpr int kUsage = 2;
inline constexpr int kPrecondition = 3;  // no such provider, port in use, no permission
inline constexpr int kNoVerdict = 3;     // --compare-raw: every round was too noisy
inline constexpr int kTimedOut = 4;      // no server, or it stopped to answer
inline constexpr int kSignalBase = 128;

enum class Workload : std::uint8_t { read, write, randread, randwrite, rw };
const char* to_string(Workload) noexcept;
enum class Wait : std::uint8_t {
  busy,    // a loop around the driver
  pump,    // busy polling through the event loop's pump
  events,  // sleeps
};
const char* to_string(Wait) noexcept;

// Defaults of a client that measures: one IO connection, and short times.
ClientConfig measuring_client();

struct Options : options::FabricOptions {
  std::vector<std::string> addresses;  // of the server, one a path; none: be the server
  std::uint16_t port = 18515;
  std::string rdma_invalidation;  // of verbs; given at the server: every IO has a fresh key
  Workload rw = Workload::write;
  unsigned read_percent = 50;  // of Workload::rw
  std::uint32_t block_size = 4096;
  bool all_sizes = false;
  unsigned iodepth = 1;
  std::optional<std::uint64_t> iterations;  // else as long as `runtime`
  Nanos runtime = seconds(5);
  std::uint64_t span = std::uint64_t{1} << 30;  // offsets are below it
  Wait wait = Wait::busy;
  bool verify = false;
  bool recorder = true;
  std::string record;                      // file for a trace; empty: only the ring in memory
  std::string record_detail = "machines";  // or wire, payload
  std::optional<unsigned> cpu;             // to run on
  Nanos connect_timeout = seconds(5);
  ClientConfig protocol = measuring_client();

  bool json = false;
  std::string json_file;  // empty: standard output
  bool csv = false;
  std::optional<Nanos> interval;  // of progress lines; unset: one a second on a terminal

  // Server only.
  std::string listen;  // empty: every address
  std::uint16_t queue_depth = 512;
  std::uint32_t chunk_size = 262144;

  bool raw = false;          // the bare ping-pong instead of the protocol
  bool compare_raw = false;  // both in turn
  unsigned rounds = 3;
};

struct CommandLine {
  std::optional<Options> run;  // else leave with `exit_code`
  int exit_code = kOk;
  std::string output;
  std::string errors;
};
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace rtrs::perf
