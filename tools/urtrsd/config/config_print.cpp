#include <algorithm>

#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/config/config_values.hpp"

namespace rtrs::daemon {
namespace {

std::string toml_string(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\u00";
      result += kHex[byte >> 4];
      result += kHex[byte & 0xf];
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string value_of(const DaemonConfig& config, const Setting& setting) {
  const std::string value = setting.show(config);
  if (setting.is_boolean()) return value == "on" ? "true" : "false";
  return setting->rule.kind == options::Kind::number ? value : toml_string(value);
}

bool is_unset(const DaemonConfig& config, const Setting& setting) {
  return setting.show(config).empty() && !setting->rule.or_empty;
}

// Escapes control characters, which a file name may contain but a TOML comment must not.
std::string in_comment(const std::string& origin) {
  const std::string quoted = in_quotes(origin);
  return quoted == '"' + origin + '"' ? origin : quoted;
}

}  // namespace

std::vector<std::string> different_settings(const DaemonConfig& a, const DaemonConfig& b) {
  std::vector<std::string> keys;
  if (a.listen != b.listen) keys.emplace_back("listen");
  for (const Setting& setting : settings())
    if (setting.show(a) != setting.show(b)) keys.push_back(setting.key());
  return keys;
}

std::string print_config(const DaemonConfig& config, const ConfigReader::Origins* origins) {
  // Formats one line, followed by a comment with the origin of `key`.
  const auto line = [origins](std::string text, const std::string& key) {
    if (origins == nullptr) return text + "\n";
    constexpr std::size_t kColumn = 36;
    const auto found = origins->find(key);
    text.resize(std::max(text.size() + 1, kColumn), ' ');
    return text + "# " + (found == origins->end() ? "default" : in_comment(found->second)) + "\n";
  };
  std::string addresses;
  for (const std::string& address : config.listen)
    addresses += (addresses.empty() ? "" : ", ") + toml_string(address);
  std::string text = line("listen = [" + addresses + "]", "listen");
  for (const Setting& setting : settings())
    if (!is_unset(config, setting))
      text += line(setting.key() + " = " + value_of(config, setting), setting.key());
  for (const ExportSpec& spec : config.exports) {
    text += "\n[[export]]\n" + line("name = " + toml_string(spec.name), "export " + spec.name);
    text += spec.memory_bytes != 0 ? "mem = " + std::to_string(spec.memory_bytes) + "\n"
                                   : "path = " + toml_string(spec.path) + "\n";
    text += std::string("read_only = ") + (spec.read_only ? "true" : "false") + "\n";
    if (spec.force) text += "force = true\n";
    text += "delay_ms = " + std::to_string(spec.delay_ms) + "\n";
    constexpr const char* kLists[] = {"allow_addresses", "allow_identities", "allow_sessions"};
    for (unsigned i = 0; i < 3; ++i)
      if (!spec.allow.text[i].empty())
        text += std::string(kLists[i]) + " = " + toml_string(spec.allow.text[i]) + "\n";
  }
  return text;
}

}  // namespace rtrs::daemon
