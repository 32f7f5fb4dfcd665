#include <algorithm>
#include <optional>
#include <utility>

#include "backends/options/quantity.hpp"
#include "tools/lib/control/limits/urtrsd.hpp"
#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/config/config_read.hpp"
#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/config/config_values.hpp"
#include "tools/urtrsd/config/toml.hpp"

namespace rtrs::daemon {
namespace {

constexpr const char* kCommas = "a list has commas: \"alice,bob\"";

std::string kind_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return "string " + in_quotes(text->get());
  if (const auto* integer = node.as_integer()) return "integer " + std::to_string(integer->get());
  if (const auto* boolean = node.as_boolean()) return boolean->get() ? "boolean true" : "boolean false";
  if (node.is_floating_point()) return "a fraction";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

// True for a table with a header, [a] or [[a]]. False for the table that a.b = 1 creates, whose source is the
// key, and for the inline table a = {b = 1}.
bool is_section(const toml::key& key, const toml::node& node) {
  return node.is_array_of_tables() ||
         (node.is_table() && !node.as_table()->is_inline() && node.source().begin != key.source().begin);
}

std::vector<std::string> known_keys() {
  std::vector<std::string> keys{"listen", "export"};
  for (const Setting& setting : settings()) keys.push_back(setting.key());
  return keys;
}

}  // namespace

// Reads the settings from a parsed TOML document and reports unknown keys and wrong values.
class TomlWalker {
 public:
  TomlWalker(ConfigReader& reader, const std::string& file_name) : reader_(reader), file_name_(file_name) {}

  void walk(const toml::table& table, const std::string& prefix) {
    for (auto&& [key, node] : table) {
      const std::string full = prefix + std::string(key.str());
      if (prefix.empty() && full == "listen") {
        listen(node);
      } else if (prefix.empty() && full == "export") {
        exports(node);
      } else if (prefix.empty() && full == "heartbeat") {
        if (node.is_table())
          walk(*node.as_table(), "heartbeat.");
        else
          wrong(node, full, "table [heartbeat]");
      } else if (const Setting* setting = find_setting(full); setting != nullptr) {
        value(*setting, node);
      } else if (const auto older = older_keys(); std::any_of(
                     older.begin(), older.end(), [&](const OlderKey& one) { return one.key == full; })) {
        const auto* integer = node.as_integer();
        const std::string text = integer == nullptr ? std::string() : std::to_string(integer->get());
        if (const std::string expectation = reader_.store(at(node.source()), full, text);
            !expectation.empty())
          wrong(node, full, expectation);
      } else if (is_section(key, node)) {
        const std::string meant = did_you_mean(full, {"export", "heartbeat"});
        reader_.report(at(key.source()), "unknown section " + in_quotes(full),
                       meant.empty() ? "the only section is [[export]]" : meant);
      } else {
        reader_.report(at(key.source()), "unknown key " + in_quotes(full), did_you_mean(full, known_keys()));
      }
    }
  }

 private:
  std::string at(const toml::source_region& source) const {
    return file_name_ + ":" + std::to_string(source.begin.line) + ":" + std::to_string(source.begin.column);
  }

  void wrong(const toml::node& node, const std::string& key, const std::string& expectation,
             std::string hint = {}) {
    reader_.report(at(node.source()), key + ": expected " + expectation + ", got " + kind_of(node),
                   std::move(hint));
  }

  void value(const Setting& setting, const toml::node& node) {
    using options::Kind;
    const Kind kind = setting->rule.kind;
    const bool quantity = kind == Kind::time || kind == Kind::size;
    std::string expectation = setting.expected();
    std::string hint;
    const auto store = [&](std::string text) {
      expectation = reader_.store(at(node.source()), setting->name, std::move(text));
    };
    if (const auto* integer = node.as_integer(); integer && (quantity || kind == Kind::number)) {
      store(std::to_string(integer->get()));
    } else if (const auto* boolean = node.as_boolean(); boolean && setting.is_boolean()) {
      store(boolean->get() ? "on" : "off");
    } else if (const auto* text = node.as_string(); text && kind != Kind::number && !setting.is_boolean()) {
      store(text->get());
      if (!expectation.empty() && kind == Kind::word)
        hint = did_you_mean(text->get(), choices(setting->rule));
    } else if (node.is_array() && setting->name.starts_with("allow_")) {
      hint = kCommas;
    }
    if (!expectation.empty()) wrong(node, setting.key(), expectation, std::move(hint));
  }

  void listen(const toml::node& node) {
    const toml::array* list = node.as_array();
    if (node.is_string() || (list != nullptr && !list->empty())) reader_.clear_listen();
    if (const auto* one = node.as_string()) {
      if (one->get().find(',') != std::string::npos)
        return wrong(node, "listen", "one address or a list", "for example [\"10.0.0.1\", \"10.0.1.1\"]");
      reader_.add_listen(at(node.source()), one->get());
      return;
    }
    if (list == nullptr || list->empty()) {
      wrong(node, "listen", "address or non-empty list of addresses");
      return;
    }
    for (const toml::node& element : *list) {
      if (const auto* text = element.as_string())
        reader_.add_listen(at(element.source()), text->get());
      else
        wrong(element, "listen", "address as a string");
    }
  }

  void exports(const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      wrong(node, "export", "list of tables", node.is_table() ? "write [[export]] with two brackets" : "");
      return;
    }
    for (const toml::node& element : *list) {
      if (const toml::table* table = element.as_table())
        one_export(*table);
      else
        wrong(element, "export", "table");
    }
  }

  void one_export(const toml::table& table) {
    ExportSpec spec;
    const std::size_t problems_before = reader_.problems_.size();
    for (auto&& [key, node] : table) export_key(spec, std::string(key.str()), key.source(), node);
    if (reader_.problems_.size() != problems_before) return;
    const std::string origin = at(table.source());
    const auto list = [&table](const char* key) { return table[key].value_or(std::string()); };
    auto allow = parse_access(list("allow_addresses"), list("allow_identities"), list("allow_sessions"));
    if (!allow) return reader_.report(origin, "export: " + allow.error());
    spec.allow = std::move(*allow);
    if (!table.contains("name")) {
      reader_.report(origin, "export: \"name\" is missing", "peers open the device by its name");
    } else if (table.contains("path") == table.contains("mem")) {
      reader_.report(origin,
                     "export " + in_quotes(spec.name) + ": exactly one of \"path\" and \"mem\" is needed");
    } else {
      reader_.add_export(origin, std::move(spec), false);
    }
  }

  void export_key(ExportSpec& spec, const std::string& key, const toml::source_region& where,
                  const toml::node& node) {
    const auto* text = node.as_string();
    const auto* integer = node.as_integer();
    if (key == "name" || key == "path") {
      if (text == nullptr || text->get().empty() || text->get().find('\0') != std::string::npos)
        wrong(node, "export." + key, "non-empty string");
      else
        (key == "name" ? spec.name : spec.path) = text->get();
    } else if (key == "mem") {
      tl::expected<std::uint64_t, std::string> size = 0;
      if (text != nullptr) size = options::parse_size(text->get());
      if (integer != nullptr && integer->get() > 0) size = static_cast<std::uint64_t>(integer->get());
      if (!size)
        reader_.report(at(node.source()), "export.mem: " + size.error());
      else if (*size < kSectorBytes)
        wrong(node, "export.mem", "size of at least 512 bytes", "for example \"64M\"");
      else
        spec.memory_bytes = *size;
    } else if (key == "allow_addresses" || key == "allow_identities" || key == "allow_sessions") {
      if (text == nullptr || text->get().empty()) wrong(node, "export." + key, "non-empty string", kCommas);
    } else if (key == "read_only" || key == "force") {
      if (const auto* boolean = node.as_boolean())
        (key == "force" ? spec.force : spec.read_only) = boolean->get();
      else
        wrong(node, "export." + key, "boolean");
    } else if (key == "delay_ms") {
      if (integer == nullptr || integer->get() < 0 || integer->get() > kMaxDelayMs)
        wrong(node, "export.delay_ms", "integer 0.." + std::to_string(kMaxDelayMs));
      else
        spec.delay_ms = static_cast<std::uint32_t>(integer->get());
    } else {
      const std::string meant = did_you_mean(key, {"name", "path", "mem", "read_only", "force", "delay_ms",
                                                   "allow_addresses", "allow_identities", "allow_sessions"});
      reader_.report(at(where), "unknown key " + in_quotes("export." + key),
                     meant.empty()
                         ? "an export has name, path or mem, read_only, force, delay_ms, allow_addresses, "
                           "allow_identities, allow_sessions"
                         : meant);
    }
  }

  ConfigReader& reader_;
  const std::string& file_name_;
};

namespace {

// Counts dots outside strings and comments.
std::size_t dots_of(std::string_view line) {
  std::size_t dots = 0;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == '\\' && quote == '"')
        ++i;
      else if (line[i] == quote)
        quote = 0;
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#') {
      break;
    } else if (line[i] == '.') {
      ++dots;
    }
  }
  return dots;
}

// Finds the first line that is too long or whose key has too many parts. Returns its number and the error
// text.
std::optional<std::pair<std::size_t, std::string>> find_invalid_line(std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() > tools::kMaxConfigLine)
      return std::pair(number, "a line of " + std::to_string(line.size()) + " bytes; at most " +
                                   std::to_string(tools::kMaxConfigLine) + " are read");
    if (const std::size_t dots = dots_of(line); dots >= tools::kMaxConfigKeyParts)
      return std::pair(number, "a key of " + std::to_string(dots + 1) + " parts; at most " +
                                   std::to_string(tools::kMaxConfigKeyParts) + " are read");
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// True if the value looks like an address without quotes: it has more than one dot or colon, so it is not a
// number.
bool looks_like_address(std::string_view value) {
  const std::string_view word = value.substr(0, value.find_first_of(" ,]#"));
  return std::count(word.begin(), word.end(), '.') > 1 || std::count(word.begin(), word.end(), ':') > 1;
}

// Returns a hint for a line that is not valid TOML, for example if a text after "=" has no quotes. Empty if
// there is no hint.
std::string advice_for(std::string_view text, std::size_t number) {
  for (; number > 1 && text.find('\n') != std::string_view::npos; --number)
    text.remove_prefix(text.find('\n') + 1);
  const std::string_view line = text.substr(0, text.find('\n'));
  if (line.rfind("[export]", 0) == 0) return "write [[export]] with two brackets";
  const std::size_t sign = line.find('=');
  const std::size_t begin = sign == std::string_view::npos ? sign : line.find_first_not_of(" \t[", sign + 1);
  if (begin == std::string_view::npos) return {};
  const std::string_view value = line.substr(begin);
  if (value[0] == '"' && value.find('"', 1) == std::string_view::npos)
    return "the quote at the end of the text is missing";
  return is_letter(value[0]) || value[0] == '/' || looks_like_address(value)
             ? "text is written in quotes, as in log_level = \"info\""
             : "";
}

}  // namespace

void ConfigReader::read_toml(std::string_view text, const std::string& file_name) {
  if (const auto unfit = find_invalid_line(text))
    return report(file_name + ":" + std::to_string(unfit->first) + ":1", unfit->second);
  try {
    const toml::table document = toml::parse(text, file_name);
    TomlWalker(*this, file_name).walk(document, "");
  } catch (const toml::parse_error& error) {
    const toml::source_position where = error.source().begin;
    report(file_name + ":" + std::to_string(where.line) + ":" + std::to_string(where.column),
           std::string(error.description()), advice_for(text, where.line));
  }
}

void ConfigReader::read_file(const std::string& path) {
  const tl::expected<std::string, std::string> text = read_config_file(path);
  if (text) {
    read_toml(*text, path);
  } else {
    report(path, text.error());
  }
}

}  // namespace rtrs::daemon
