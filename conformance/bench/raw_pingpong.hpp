// The limit that a fabric sets: libfabric alone, exchanging the two messages of a write request. The client
// writes `size` bytes with an immediate, the server answers with an empty write with an immediate.
#pragma once
#include <cstdint>
#include <string>

namespace rtrs::bench {

struct RawOptions {
  std::string provider = "tcp";
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // server: 0 chooses one
  std::uint32_t size = 4096;
  std::uint32_t depth = 1;
  double seconds = 1.0;  // of measuring, after a tenth of it to warm up
};

struct RawResult {
  bool ok = false;
  std::string error;  // when not ok
  double p50_us = 0, p99_us = 0;
  double iops = 0;
  std::uint64_t count = 0;
};

// Both busy-poll. The server runs until its client is gone and calls `listening` once with its port.
RawResult run_raw_client(const RawOptions&);
RawResult run_raw_server(const RawOptions&, void (*listening)(std::uint16_t port, void* context),
                         void* context);
// Both sides on this host: forks a server, pinned to the last CPU with the client on the first.
RawResult run_raw_pingpong(const RawOptions&);

}  // namespace rtrs::bench
