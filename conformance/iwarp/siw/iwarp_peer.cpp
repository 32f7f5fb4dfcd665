// iwarp_peer fabric|verbs responder ADDRESS PORT [crc] [spoil=WHAT]
// iwarp_peer fabric|verbs initiator SOURCE@ADDRESS PORT [crc] [spoil=WHAT]
// One side of the test; the other side is another process. With `verbs`, the local address must belong to an
// iWARP device. Exit code 1: a check failed.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/iwarp/siw/script.hpp"

namespace {

using namespace rtrs::siw;

int usage() {
  std::fprintf(stderr,
               "usage: iwarp_peer fabric|verbs responder ADDRESS|initiator SOURCE@ADDRESS PORT [crc] "
               "[spoil=private-data|write|message|order]\n");
  return 2;
}

std::unique_ptr<End> open(std::string_view over, bool crc) {
  if (over == "fabric") return fabric_end(crc);
#ifdef URTRS_IWARP_PEER_VERBS
  if (over == "verbs" && !crc) return verbs_end();
#endif
  return nullptr;
}

bool parse(std::string_view word, bool& crc, Corruption& spoil) {
  constexpr std::pair<std::string_view, Corruption> kSpoils[] = {
      {"spoil=private-data", Corruption::private_data},
      {"spoil=write", Corruption::write},
      {"spoil=message", Corruption::message},
      {"spoil=order", Corruption::order}};
  if (word == "crc") return crc = true;
  for (const auto& [name, what] : kSpoils) {
    if (word != name) continue;
    spoil = what;
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 4 || (words[1] != "initiator" && words[1] != "responder")) return usage();
  bool crc = false;
  Corruption spoil = Corruption::nothing;
  for (std::size_t i = 4; i < words.size(); ++i) {
    if (!parse(words[i], crc, spoil)) return usage();
  }
  const auto port = static_cast<std::uint16_t>(std::strtoul(words[3].c_str(), nullptr, 10));
  try {
    const std::unique_ptr<End> end = open(words[0], crc);
    if (end == nullptr) return usage();
    const std::size_t at = words[2].find('@');
    if ((words[1] == "initiator") == (at == std::string::npos)) return usage();
    if (at == std::string::npos)
      run_responder(*end, words[2], port, spoil);
    else
      run_initiator(*end, words[2].substr(0, at), words[2].substr(at + 1), port, spoil);
  } catch (const Failure& failure) {
    std::printf("%s: FAILED: %s\n", words[1].c_str(), failure.what());
    return 1;
  }
  std::printf("%s: everything holds\n", words[1].c_str());
  return 0;
}
