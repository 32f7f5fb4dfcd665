// Fuzz test: takes arbitrary bytes as the output of an NBD server. The handshake must fail with a reason,
// wait for more bytes, or yield an export whose block size the kernel accepts. The result must not depend on
// how the bytes are split. An identity line of the kernel must be equal after it is formatted and parsed
// again.
#include <string>
#include <string_view>

#include "conformance/fuzz/fuzz.hpp"
#include "tools/lib/control/kernel_nbd/attachment.hpp"
#include "tools/lib/control/kernel_nbd/handshake.hpp"

using namespace rtrs::kernel_nbd;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view octets(reinterpret_cast<const char*>(data), size);
  Handshake whole("disk0");
  std::string sent = whole.take(octets);
  Handshake pieces("disk0");
  std::string sent_in_pieces;
  for (const char& one : octets) sent_in_pieces += pieces.take({&one, 1});
  RTRS_FUZZ_CHECK(sent == sent_in_pieces);
  RTRS_FUZZ_CHECK(whole.error() == pieces.error());
  RTRS_FUZZ_CHECK(whole.is_done() == pieces.is_done());
  RTRS_FUZZ_CHECK(whole.result() == pieces.result());
  const std::uint32_t block = whole.result().least_block;
  RTRS_FUZZ_CHECK(block >= 512 && block <= 4096 && (block & (block - 1)) == 0);

  if (const auto what = parse_identity(octets)) {
    RTRS_FUZZ_CHECK(!what->socket.empty());
    RTRS_FUZZ_CHECK(parse_identity(identity_of(*what)) == what);
  }
  return 0;
}
