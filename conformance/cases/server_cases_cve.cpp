// Published vulnerabilities of Linux's server that a client can detect (listed in docs/interop.md). Each case
// passes against any server with the fix and fails against a server without it.
#include <algorithm>

#include "conformance/cases/cves.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {
namespace cve_checks {
namespace {

// CVE-2026-97413: the offset of the user header underflows. Without the fix Linux parses the bytes before the
// chunk and answers; with the fix it does not answer. A urtrs server closes the path.
void header_before_chunk(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.off = 36 + 36;
  ask.usr_len = 36 + 36 + 36;
  path.send(ask);
  Answer answer;
  if (path.fate(ask.chunk, &answer) != Path::Fate::answered) return;
  fail(
      "it was answered with errno {}: the bytes before its chunk were judged, because Linux with the fix "
      "does not answer",
      answer.error);
}

// CVE-2026-64269. The read buffer has room for all bytes that the server could send.
void read_behind_chunk(ServerTester& tester) {
  Path& path = tester.opened();
  constexpr std::byte kUntouched{0xa5};
  const std::uint32_t length = path.chunk_size() + 1;
  if (length > Endpoint::kMemory / 2)
    not_run("chunks of {} bytes are larger than the tester's memory", path.chunk_size());
  const Endpoint::Landing landing = tester.endpoint().landing(path.con(0), length);
  std::fill(landing.bytes.begin(), landing.bytes.end(), kUntouched);
  Ask ask = sess_info_ask();
  ask.desc_addr = landing.addr;
  ask.desc_key = landing.key;
  ask.desc_len = length;
  path.send(ask);
  const bool answered = path.fate(ask.chunk) == Path::Fate::answered;
  const auto sent = landing.bytes.size() - static_cast<std::size_t>(std::count(
                                               landing.bytes.begin(), landing.bytes.end(), kUntouched));
  require(!answered,
          "a read of {} bytes, one more than a chunk has, was answered, with {} bytes of the server's memory",
          length, sent);
  require(landing.bytes.back() == kUntouched, "the byte behind the chunk was sent");
}

// CVE-2026-43184: fields that a response does not set contain old bytes of the chunk. The case first writes
// known bytes into the chunk.
void answer_shows_chunk(ServerTester& tester) {
  Path& path = tester.opened();
  Message held(wire::rnbd::kSessInfoRspBytes);
  for (std::size_t i = 0; i < held.size(); ++i) held[i] = static_cast<std::byte>(i * 37 + 11);
  tester.endpoint().write(path.con(0), held, path.chunk(0).addr, path.chunk(0).key);
  const Answer answer = path.ask(sess_info_ask());
  require(answer.error == 0, "SESS_INFO was answered with errno {}", answer.error);
  unsigned stale = 0;
  for (std::size_t i = 5; i < answer.data.size(); ++i) stale += answer.data[i] == held[i] ? 1 : 0;
  // A few bytes may be equal by chance or be valid fields.
  require(stale < 8, "{} bytes of SESS_INFO_RSP are the former content of the chunk", stale);
}

constexpr Case kCases[] = {
    {"C246-cve-2026-97413", "cve: no user header is read from before its chunk (CVE-2026-97413)",
     "protocol.md section 2.7", Level::must, false, header_before_chunk},
    {"C247-cve-2026-64269", "cve: a read of more than a chunk sends nothing (CVE-2026-64269)",
     "protocol.md section 2.7", Level::must, false, read_behind_chunk},
    {"C248-cve-2026-43184", "cve: SESS_INFO_RSP shows no former content of its chunk (CVE-2026-43184)",
     "protocol.md section 9.2", Level::must, false, answer_shows_chunk},
};

}  // namespace
}  // namespace cve_checks

std::span<const Case> cve_cases() {
  return cve_checks::kCases;
}

}  // namespace rtrs::conformance
