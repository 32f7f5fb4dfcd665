// Fuzzes the RNBD parsers. Any bytes must give a named error, or a value whose encoding parses to the same
// value. The first byte selects the parser.
#include <array>
#include <span>

#include "conformance/fuzz/fuzz.hpp"
#include "core/wire/rnbd_messages.hpp"

using namespace rtrs::wire;

namespace {

template <class Parse>
void check_stable(Bytes bytes, Parse parse) {
  const auto first = parse(bytes);
  RTRS_FUZZ_CHECK(static_cast<unsigned>(first.why) < kRefusalCount);
  if (!first) return;
  std::array<std::byte, 512> out{};
  const std::size_t size = encode(first.value, out);
  RTRS_FUZZ_CHECK(size != 0);
  const auto second = parse(Bytes(out).first(size));
  RTRS_FUZZ_CHECK(second && second.value == first.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  (void)rnbd::message_type(bytes);
  switch (data[0] % 6) {
    case 0:
      check_stable(bytes, rnbd::parse_sess_info);
      break;
    case 1:
      check_stable(bytes, rnbd::parse_sess_info_rsp);
      break;
    case 2:
      check_stable(bytes, rnbd::parse_open);
      break;
    case 3:
      check_stable(bytes, rnbd::parse_open_rsp);
      break;
    case 4:
      check_stable(bytes, rnbd::parse_close);
      break;
    default:
      check_stable(bytes, rnbd::parse_io);
      break;
  }
  return 0;
}
