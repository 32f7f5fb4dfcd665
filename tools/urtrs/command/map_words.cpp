#include "tools/urtrs/command/map_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/lib/text/nearest_word.hpp"

namespace rtrs::admin {

namespace {

// True if the word may be an address or a pair of addresses, that is, if it contains ".", ":" or "@". A host
// name without dots is therefore not taken for a path.
bool may_be_path(const std::string& word) {
  return word.find_first_of(".:@") != std::string::npos;
}

Mistake no_mode(const std::string& word) {
  std::string lower = word;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const std::string near = tools::nearest_word(lower, std::array{"ro", "rw", "migration"});
  return {fmt::format("\"{}\" is neither an address nor an access mode", word),
          near.empty() ? "a mode is ro, rw or migration" : fmt::format("did you mean \"{}\"?", near), false};
}

}  // namespace

tl::expected<MapWords, Mistake> map_words(const std::vector<std::string>& arguments) {
  const auto wrong = [](std::string message) {
    return tl::unexpected(Mistake{std::move(message), "for example urtrs map disk0 from 10.0.0.2", false});
  };
  MapWords words;
  words.device = arguments[0];
  const std::size_t at = arguments[1] == "from" ? 2 : 1;
  if (words.device == "from" && at == 1) return wrong("the device is missing before \"from\"");
  const bool slip = arguments[1] == "to" || tools::edit_distance(arguments[1], "from") == 1;
  if (at == 1 && arguments.size() > 2 && slip)
    return tl::unexpected(
        Mistake{fmt::format("unknown word \"{}\" here", arguments[1]), "did you mean \"from\"?", false});
  if (at == arguments.size()) return wrong("the server is missing after \"from\"");
  words.from = arguments[at];
  for (std::size_t i = at + 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word != "ro" && word != "rw" && word != "migration") {
      if (!may_be_path(word)) return tl::unexpected(no_mode(word));
      words.paths.push_back(word);
      continue;
    }
    if (!words.mode.empty()) return wrong(fmt::format("\"{}\" and \"{}\" are both given", words.mode, word));
    words.mode = word;
  }
  return words;
}

std::optional<Mistake> wrong_map_options(const MapOptions& options) {
  const auto is_number = [](std::string_view text, std::size_t most) {
    return !text.empty() && text.size() <= most && text.find_first_not_of("0123456789") == text.npos;
  };
  const std::string& port = options.port;
  if (!port.empty() && (!is_number(port, 5) || std::stoul(port) == 0 || std::stoul(port) > 65535))
    return Mistake{fmt::format("--port: expected 1 to 65535, got \"{}\"", port), "", false};
  const std::array fabrics{"tcp", "libfabric", "verbs"};
  if (!options.fabric.empty() && std::find(fabrics.begin(), fabrics.end(), options.fabric) == fabrics.end()) {
    const std::string near = tools::nearest_word(options.fabric, fabrics);
    return Mistake{
        fmt::format("unknown fabric \"{}\"", options.fabric),
        near.empty() ? "expected tcp, libfabric or verbs" : fmt::format("did you mean \"{}\"?", near), false};
  }
  std::string_view device = options.nbd;
  if (device.empty() || device == "auto") return std::nullopt;
  if (device.starts_with("/dev/")) device.remove_prefix(5);
  if (!device.starts_with("nbd") || !is_number(device.substr(3), 5))
    return Mistake{
        fmt::format("--nbd takes /dev/nbdN, a device of the kernel's NBD client, not \"{}\"", options.nbd),
        "or --nbd alone, which takes a free one", false};
  return std::nullopt;
}

tl::expected<UnmapWords, Mistake> unmap_words(const std::string& verb,
                                              const std::vector<std::string>& arguments) {
  UnmapWords words;
  words.device = arguments[0];
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (verb == "unmap" && i + 1 == arguments.size() && arguments[i] == "force")
      words.force = true;
    else if (i == 1)
      words.session = arguments[i];
    else
      return tl::unexpected(
          Mistake{fmt::format("\"{}\" is not an argument of unmap; the last may be \"force\"", arguments[i]),
                  "", false});
  }
  return words;
}

}  // namespace rtrs::admin
