// Fuzzes the parser of MPA requests and replies. Any bytes must be rejected, or be a complete or incomplete
// message; the result must be the same for bytes in one piece and byte by byte. The first input byte selects
// request or reply. A parsed request must be answerable, and the answer must parse.
#include <algorithm>
#include <array>
#include <span>

#include "conformance/fuzz/fuzz.hpp"
#include "core/iwarp/greeting.hpp"

using namespace rtrs::iwarp;

namespace {

void check_answer(const Greeting& request) {
  const Wishes mine{.crc = request.private_data.size() % 2 == 1, .send_with_immediate = true};
  for (const bool accept : {true, false}) {
    std::array<std::byte, kMaxGreetingBytes> out{};
    const Bytes data = request.private_data.first(std::min<std::size_t>(request.private_data.size(), 500));
    const std::size_t size =
        accept ? write_accept(request, mine, data, out) : write_reject(request, data, out);
    RTRS_FUZZ_CHECK(size != 0);
    GreetingReader reader(GreetingKind::reply);
    const Fault fault = reader.feed(Bytes(out).first(size));
    // A urtrs initiator requests enhanced mode and accepts only a matching reply.
    RTRS_FUZZ_CHECK(fault == Fault::none || (accept && !request.enhanced));
    if (fault != Fault::none) continue;
    const Greeting reply = reader.greeting();
    RTRS_FUZZ_CHECK(reader.complete() && reply.rejected == !accept && reply.own == request.own);
    RTRS_FUZZ_CHECK(std::ranges::equal(reply.private_data, data));
    RTRS_FUZZ_CHECK(!accept || agree(request.wishes, reply) == agree(mine, request));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const GreetingKind kind = data[0] % 2 == 0 ? GreetingKind::request : GreetingKind::reply;
  const Bytes input = std::as_bytes(std::span(data, size)).subspan(1);
  GreetingReader whole(kind);
  GreetingReader single(kind);
  whole.feed(input);
  for (const std::byte& byte : input) {
    const std::size_t missing = single.missing();
    single.feed(Bytes(&byte, 1));
    RTRS_FUZZ_CHECK(single.fault() != Fault::none || missing != 0);
  }
  RTRS_FUZZ_CHECK(whole.fault() == single.fault() && whole.complete() == single.complete());
  RTRS_FUZZ_CHECK(whole.fault() == Fault::none || answer_to(whole.fault()) != Answer::terminate);
  RTRS_FUZZ_CHECK(!whole.complete() ||
                  (input.size() >= kGreetingHeaderBytes && input.size() <= kMaxGreetingBytes));
  if (whole.complete() && kind == GreetingKind::request) check_answer(whole.greeting());
  if (whole.fault() == Fault::markers && kind == GreetingKind::request) check_answer(whole.greeting());
  return 0;
}
