// Command line of urtrs-perf.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/options/connection.hpp"

namespace rtrs::perf {

// Exit codes, as in all programs of this project.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // the measurement failed because of wrong data or an error from the server
inline constexpr int kUsage = 2;
// A precondition is not met: for example no such provider, port in use, no permission.
inline constexpr int kPrecondition = 3;
inline constexpr int kNoVerdict = 3;  // --compare-raw has no verdict, because every round was too noisy
inline constexpr int kTimedOut = 4;   // no server answered, or it stopped answering
inline constexpr int kSignalBase = 128;

enum class Workload : std::uint8_t { read, write, randread, randwrite, rw };
const char* to_string(Workload) noexcept;
enum class Wait : std::uint8_t {
  busy,    // busy polling in a simple loop
  pump,    // busy polling in the event loop
  events,  // sleep until there are events
};
const char* to_string(Wait) noexcept;

// Defaults of the client during measurements: one IO connection and short timeouts.
ClientConfig measuring_client();

struct Options : options::FabricOptions {
  std::vector<std::string> addresses;  // server addresses, one per path; empty: run as the server
  std::uint16_t port = 18515;
  bool fresh_keys = false;  // --rdma-invalidation is set: as a server, uses a fresh rkey for each IO
  Workload rw = Workload::write;
  unsigned read_percent = 50;  // percentage of reads in Workload::rw
  std::uint32_t block_size = 4096;
  bool all_sizes = false;
  unsigned iodepth = 1;
  std::optional<std::uint64_t> iterations;  // unset: run for `runtime`
  Nanos runtime = seconds(5);
  std::uint64_t span = std::uint64_t{1} << 30;  // in bytes; all offsets are below this value
  Wait wait = Wait::busy;
  bool verify = false;
  bool recorder = true;
  std::string record;                      // trace file; empty: records are kept only in memory
  std::string record_detail = "machines";  // "machines", "wire" or "payload"
  std::optional<unsigned> cpu;             // CPU to run on
  Nanos connect_timeout = seconds(5);
  ClientConfig protocol = measuring_client();

  bool json = false;
  std::string json_file;  // file for JSON results; empty: standard output
  bool csv = false;
  std::optional<Nanos> interval;  // time between progress lines; unset: 1 s on a terminal, none otherwise

  // Options that only the server has.
  std::string listen;  // address to listen on; empty: all addresses
  std::uint16_t queue_depth = 512;
  std::uint32_t chunk_size = 262144;

  bool raw = false;          // measure the bare fabric instead of the protocol
  bool compare_raw = false;  // measure both the protocol and the bare fabric, alternately
  unsigned rounds = 3;
};

struct CommandLine {
  std::optional<Options> run;  // unset: exit with `exit_code`
  int exit_code = kOk;
  std::string output;
  std::string errors;
};
CommandLine parse_command_line(const std::vector<std::string>& arguments);

}  // namespace rtrs::perf
