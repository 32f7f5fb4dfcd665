// ofi_pingpong server|client|both [size [depth [seconds [host [port [provider]]]]]]
// Prints one line of JSON.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "conformance/bench/raw_pingpong.hpp"

int main(int argc, char** argv) {
  using namespace rtrs::bench;
  const char* role = argc > 1 ? argv[1] : "both";
  RawOptions options;
  if (argc > 2) options.size = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  if (argc > 3) options.depth = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  if (argc > 4) options.seconds = std::strtod(argv[4], nullptr);
  if (argc > 5) options.host = argv[5];
  if (argc > 6) options.port = static_cast<std::uint16_t>(std::strtoul(argv[6], nullptr, 10));
  if (argc > 7) options.provider = argv[7];
  RawResult result;
  if (std::strcmp(role, "server") == 0) {
    result = run_raw_server(
        options, [](std::uint16_t port, void*) { std::fprintf(stderr, "listening on port %u\n", port); },
        nullptr);
  } else if (std::strcmp(role, "client") == 0) {
    result = run_raw_client(options);
  } else {
    result = run_raw_pingpong(options);
  }
  if (!result.ok) {
    std::fprintf(stderr, "ofi_pingpong: %s\n", result.error.c_str());
    return 1;
  }
  std::printf(
      "{\"size\": %u, \"depth\": %u, \"p50_us\": %.2f, \"p99_us\": %.2f, \"iops\": %.0f, \"count\": %llu}\n",
      options.size, options.depth, result.p50_us, result.p99_us, result.iops,
      static_cast<unsigned long long>(result.count));
  return 0;
}
