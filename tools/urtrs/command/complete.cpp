#include "tools/urtrs/command/complete.hpp"

#include <algorithm>
#include <array>

#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

namespace {

using Words = std::vector<std::string>;

// Meaning of the words before the cursor.
struct Position {
  std::string side;  // "client"; empty: the server
  std::string noun;
  std::string verb;
  Words arguments;
  std::string option;    // option that expects its value next, such as "--unit"
  bool literal = false;  // "--" was given, so the next words are no options
  bool unknown = false;  // the words contain an unknown command
};

// Returns the options that have a value, or those that need none.
Words options_with(bool value) {
  Words all;
  for (const Flag& flag : flags())
    if (flag.has_value() == value) all.push_back("--" + flag.name);
  return all;
}

bool is_option(const std::string& word) {
  if (word.size() > 1 && (word[0] == '-' || word[0] == '+')) return true;
  static const Words kBare{"json", "csv", "noheaders", "notree", "nototals", "help", "help-all", "all"};
  return std::find(kBare.begin(), kBare.end(), word) != kBare.end() ||
         (word.size() == 1 && kUnits.find(word) != std::string_view::npos);
}

Position position_of(const Words& words) {
  Position at;
  Words rest;
  const Words with_values = options_with(true);
  for (const std::string& word : words) {
    if (!at.option.empty()) {
      at.option.clear();
    } else if (at.literal) {
      rest.push_back(word);
    } else if (word == "--") {
      at.literal = true;
    } else if (std::find(with_values.begin(), with_values.end(), word) != with_values.end()) {
      at.option = word;
    } else if (!is_option(word)) {
      rest.push_back(word);
    }
  }
  std::size_t next = !rest.empty() && (rest[0] == "server" || rest[0] == "client") ? 1 : 0;
  if (next != 0 && rest[0] == "client") at.side = rest[0];
  at.noun = at.side;
  if (next == rest.size()) return at;
  const Words plain = verbs(at.side);
  const bool is_verb = std::find(plain.begin(), plain.end(), rest[next]) != plain.end();
  if (const std::string word = meant(rest[next], nouns(at.side)); !is_verb && !word.empty()) {
    at.noun = noun_of(at.side, word);
    ++next;
  }
  if (next == rest.size()) return at;
  at.verb = meant(rest[next++], verbs(at.noun));
  at.unknown = at.verb.empty();
  at.arguments.assign(rest.begin() + static_cast<std::ptrdiff_t>(next), rest.end());
  return at;
}

// Returns the placeholder for the next argument in the syntax of the command, for example "PATH" after the
// first argument of "SESSION PATH".
std::string expected(const Position& at) {
  for (const Form& form : forms()) {
    if (at.noun != form.noun || at.verb != form.verb) continue;
    std::string usage = form.arguments;
    usage.erase(std::remove_if(usage.begin(), usage.end(), [](char c) { return c == '[' || c == ']'; }),
                usage.end());
    std::size_t begin = 0;
    for (std::size_t i = 0; begin != std::string::npos && begin < usage.size(); ++i) {
      const std::size_t end = usage.find(' ', begin);
      if (i == at.arguments.size()) return usage.substr(begin, end - begin);
      begin = end == std::string::npos ? end : end + 1;
    }
  }
  return {};
}

void of_trace(const Position& at, Completion& found) {
  if (at.arguments.empty())
    found.words = {"start", "stop", "dump"};
  else
    found.files = at.arguments.size() == 1 && at.arguments[0] != "stop";
}

bool is_of_mapd(const Position& at) {
  return at.noun == "mapping" ||
         (at.noun.empty() && (at.verb == "map" || at.verb == "unmap" || at.verb == "remap"));
}

// Completes "urtrs map DEVICE from SERVER [ADDRESS]... [MODE]" and the other urtrs-mapd commands. The devices
// and addresses of servers are not known here.
void of_mapd(const Position& at, Names& names, Completion& found) {
  const std::string kind = expected(at);
  const bool maps = at.verb == "map";
  if (kind == "from")
    found.words = {"from"};
  else if (kind == "SERVER" || kind == "SESSION")
    found.words = names.mapped_sessions();
  else if (kind == "DEVICE" && !maps)
    found.words = names.mapped_devices();
  else if (kind == "force")
    found.words = {"force"};
  else if (maps && at.arguments.size() > 2)
    found.words = {"ro", "rw", "migration"};
}

void arguments_of(const Position& at, Names& names, Completion& found) {
  if (at.verb == "trace") return of_trace(at, found);
  if (is_of_mapd(at)) return of_mapd(at, names, found);
  const std::string kind = expected(at);
  const std::string first = at.arguments.empty() ? "" : at.arguments[0];
  if (kind == "SESSION")
    found.words = names.sessions();
  else if (kind == "PATH")
    found.words = names.paths(first);
  else if (kind == "DEVICE")
    found.words = names.devices({});
  else if (kind == "POLICY")
    found.words = {"round-robin", "min-inflight", "min-latency"};
  else if (kind == "MODE")
    found.words = {"ro", "rw", "migration"};
  else if (kind == "NAME")
    found.words = names.exports();
  else if (kind == "FILE")
    found.files = true;
  else if (kind == "force")
    found.words = {"force"};
  else if (kind == "LEVEL")
    found.words = log_levels();
}

// Completes the value of an option, except --fields, because only the help lists the field names.
void value_of(const std::string& option, const std::string& prefix, Names& names, Completion& found) {
  Words values;
  if (option == "--unit")
    for (const char unit : kUnits) values.emplace_back(1, unit);
  if (option == "--rdma-device") values = names.rdma_devices();
  std::string key = option.substr(std::min<std::size_t>(2, option.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  const options::Row* const row = mapping::session_parameter(key);
  if (row != nullptr && (row->rule.kind == options::Kind::word || row->rule.kind == options::Kind::toggle))
    values = choices(row->rule);
  std::erase(values, "allow");  // for servers only
  if (option == "--nbd" || (row != nullptr && row->rule.kind == options::Kind::file)) found.files = true;
  if (option == "--socket") {
    values = names.sockets();
    found.files = true;
  }
  for (const std::string& value : values) found.words.push_back(prefix + value);
}

void options_of(Completion& found) {
  found.words = options_with(false);
  for (const std::string& one : options_with(true)) found.words.push_back(one + "=");
}

}  // namespace

Completion complete(const Words& words, const std::string& current, Names& names) {
  const Position at = position_of(words);
  Completion found;
  const std::size_t equals = current.find('=');
  if (!at.option.empty()) {
    value_of(at.option, "", names, found);
  } else if (!at.literal && current.rfind("--", 0) == 0 && equals != std::string::npos) {
    value_of(current.substr(0, equals), current.substr(0, equals + 1), names, found);
  } else if (!at.literal && current.rfind('-', 0) == 0) {
    options_of(found);
  } else if (at.unknown) {
    return found;
  } else if (at.verb.empty()) {
    found.words = verbs(at.noun);
    if (at.noun == at.side) {
      const Words all = nouns(at.side);
      found.words.insert(found.words.begin(), all.begin(), all.end());
      if (at.side.empty()) found.words.emplace_back("client");
    }
  } else {
    arguments_of(at, names, found);
  }
  const auto other = [&current](const std::string& word) { return word.rfind(current, 0) != 0; };
  found.words.erase(std::remove_if(found.words.begin(), found.words.end(), other), found.words.end());
  return found;
}

}  // namespace rtrs::admin
