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

std::optional<Mistake> wrong_value(const options::Row& row, const std::string& value) {
  options::Value checked;
  const std::string why = options::parse(row.rule, row.name, value, checked);
  if (why.empty()) return std::nullopt;
  const std::string near =
      row.rule.kind == options::Kind::word ? tools::nearest_word(value, choices(row.rule)) : "";
  return Mistake{
      fmt::format("--{}: {}, got \"{}\"", options::dashed(row.name), why.substr(why.rfind(": ") + 2), value),
      near.empty() ? "" : fmt::format("did you mean \"{}\"?", near), false};
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
  for (const auto& [key, value] : options.parameters)
    if (auto wrong = wrong_value(*mapping::session_parameter(key), value)) return wrong;
  const auto is_number = [](std::string_view text, std::size_t most) {
    return !text.empty() && text.size() <= most && text.find_first_not_of("0123456789") == text.npos;
  };
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
