// Fuzz test: decodes arbitrary bytes as the hello message of an RDMA probe. If the hello is accepted,
// encoding it must give the same bytes.
#include <cstring>
#include <span>

#include "conformance/fuzz/fuzz.hpp"
#include "tools/lib/control/rdma_probe/hello.hpp"

using namespace rtrs;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto hello = probe::decode(std::as_bytes(std::span(data, size)));
  if (!hello) return 0;
  const probe::HelloBytes again = probe::encode(*hello);
  RTRS_FUZZ_CHECK(size >= again.size() && std::memcmp(again.data(), data, again.size()) == 0);
  return 0;
}
