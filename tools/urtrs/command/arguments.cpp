#include "tools/urtrs/command/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tools/lib/text/nearest_word.hpp"

namespace rtrs::admin {

namespace {

using Words = std::vector<std::string>;

constexpr unsigned kMaxNbdWait = 86400;  // in seconds
constexpr const char* kServer = "server";
constexpr const char* kClient = "client";

// Result of matching a word: the candidate that it stands for, or all candidates of an ambiguous prefix.
struct Match {
  std::string word;
  Words could_be;
};

Match match(const std::string& word, const Words& candidates) {
  Match found;
  for (const std::string& one : candidates) {
    if (word == one || word == one + "s") return {one, {}};
    if (!word.empty() && one.rfind(word, 0) == 0) found.could_be.push_back(one);
  }
  if (found.could_be.size() == 1) found.word = found.could_be.front();
  return found;
}

Words unique_of(const char* Form::*member, const std::string& noun) {
  Words words;
  for (const Form& form : forms()) {
    if (member == &Form::verb && noun != form.noun) continue;
    const std::string word = form.*member;
    if (!word.empty() && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return words;
}

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

tl::unexpected<Mistake> mistake(std::string message, std::string hint = {}) {
  return tl::unexpected(Mistake{std::move(message), std::move(hint), false});
}

tl::unexpected<Mistake> unknown(const char* kind, const std::string& word, const Words& candidates) {
  const std::string near = tools::nearest_word(word, candidates);
  return mistake(fmt::format("unknown {} \"{}\"", kind, word),
                 near.empty() ? fmt::format("expected one of {}", fmt::join(candidates, ", "))
                              : fmt::format("did you mean \"{}\"?", near));
}

// Returns a hint if exactly these words are a command for the other side (server or client). This hint takes
// precedence over a similarly spelled command for this side.
std::string at_other_side(const std::string& side, const std::string& noun, const std::string& word) {
  const std::string other = noun_of(side.empty() ? kClient : "", noun);
  const Words theirs =
      noun.empty() ? joined(nouns(other), unique_of(&Form::verb, other)) : unique_of(&Form::verb, other);
  const std::string found = match(word, theirs).word;
  if (!side.empty() && noun.empty() && found == "trace")
    return "SIGUSR1 to its nbdkit writes the last records, trace=FILE of the plugin all of them";
  return found.empty()
             ? ""
             : fmt::format("did you mean \"urtrs {}{}{}\"?", other, other.empty() ? "" : " ", found);
}

tl::unexpected<Mistake> unknown_here(const std::string& side, const std::string& noun,
                                     const std::string& word, const Words& candidates) {
  const std::string kind = noun.empty() ? "command" : noun_of(side, noun) + " command";
  const std::string hint = at_other_side(side, noun, word);
  return hint.empty() ? unknown(kind.c_str(), word, candidates)
                      : mistake(fmt::format("unknown {} \"{}\"", kind, word), hint);
}

// Handles a word that selects the output, such as `json`. It may be a bare word, as in the command `rnbd`, or
// an option with dashes. Returns false for other words.
bool take_switch(std::string word, Options& options) {
  if (word.rfind("--", 0) == 0) word.erase(0, 2);
  if (word == "help-all") options.help_all = true;
  if (word == "json" || word == "csv") ++options.formats;
  if (word == "json")
    options.format = Format::json;
  else if (word == "csv")
    options.format = Format::csv;
  else if (word == "noheaders" || word == "no-headers")
    options.headers = false;
  else if (word == "notree" || word == "no-tree")
    options.tree = false;
  else if (word == "nototals" || word == "no-totals")
    options.totals = false;
  else if (word == "help" || word == "-h" || word == "help-all")
    options.help = true;
  else if (word == "idempotent")
    options.map.idempotent = true;
  else if (word.size() == 1 && kUnits.find(word) != std::string_view::npos)
    options.unit = word[0];
  else
    return false;
  return true;
}

// An option "--name=value" or "--name value". If the value is the next word, split() advances `at`.
struct Valued {
  std::string name;
  std::string value;
  bool has_value = false;
};
Valued split(const Words& words, std::size_t& at) {
  Valued one;
  const std::string& word = words[at];
  const std::size_t equals = word.find('=');
  one.name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  if (equals != std::string::npos) {
    one.value = word.substr(equals + 1);
    one.has_value = true;
  } else if (at + 1 < words.size()) {
    one.value = words[++at];
    one.has_value = true;
  }
  return one;
}

// Returns the member that stores the text of an option; nullptr for an option without text.
std::string* text_option(const std::string& name, Options& options) {
  std::string key = name;
  std::replace(key.begin(), key.end(), '-', '_');
  if (mapping::session_parameter(key) != nullptr) return &options.map.parameters[key];
  MapOptions& map = options.map;
  constexpr const char* kOptions[] = {"run", "nbd", "session", "rdma-device"};
  std::string* const texts[] = {&map.run, &map.nbd, &map.session, &options.rdma.device};
  const auto* const found = std::find(std::begin(kOptions), std::end(kOptions), name);
  return found == std::end(kOptions) ? nullptr : texts[found - kOptions];
}

// Splits a comma-separated list.
void take_fields(const std::string& text, Words& fields) {
  std::string field;
  for (const char c : text + ",") {
    if (c != ',')
      field += c;
    else if (!field.empty())
      fields.push_back(std::exchange(field, {}));
  }
}

Mistake bad_value(const Valued& one, const std::string& expected) {
  return {fmt::format("--{}: expected {}, got \"{}\"", one.name, expected, one.value), "", false};
}

std::optional<Mistake> take_option(const Words& words, std::size_t& at, Options& options) {
  const std::string given = words[at];
  const Valued one = split(words, at);
  const auto number = [&one](double least, bool whole = true) -> std::optional<double> {
    char* end = nullptr;
    const double value = std::strtod(one.value.c_str(), &end);
    const bool fits = !one.value.empty() && *end == '\0' && value >= least && value <= 1e6;
    return fits && (!whole || value == std::floor(value)) ? std::optional(value) : std::nullopt;
  };
  Words names;
  for (const Flag& flag : flags()) names.push_back(flag.name);
  if (std::find(names.begin(), names.end(), one.name) == names.end()) {
    const std::string near = tools::nearest_word(one.name, names);
    return Mistake{fmt::format("unknown option \"{}\"", given),
                   near.empty() ? "" : fmt::format("did you mean \"--{}\"?", near), false};
  }
  if (!one.has_value) return Mistake{fmt::format("--{} needs a value", one.name), "", false};
  if (one.name == "socket") {
    options.socket = one.value;
  } else if (one.name == "fields") {
    if (one.value.empty()) return Mistake{"--fields is empty", "for example --fields=state,+reads", false};
    take_fields(one.value, options.fields);
  } else if (one.name == "unit") {
    if (one.value.size() != 1 || kUnits.find(one.value) == std::string::npos)
      return bad_value(one, "one of B, K, M, G, T, P, E");
    options.unit = one.value[0];
  } else if (one.name == "interval") {
    const auto value = number(0.1, false);
    if (!value) return bad_value(one, "seconds, 0.1 or more");
    options.interval = *value;
  } else if (one.name == "count") {
    const auto value = number(1);
    if (!value) return bad_value(one, "a whole number, 1 or more");
    options.count = static_cast<unsigned>(*value);
  } else if (one.name == "nbd-wait") {
    const auto value = number(1);
    if (!value || *value > kMaxNbdWait) return bad_value(one, fmt::format("seconds, 1 to {}", kMaxNbdWait));
    options.map.nbd_wait = static_cast<unsigned>(*value);
  } else if (one.name == "rounds") {
    const auto value = number(1);
    if (!value) return bad_value(one, "1 to 1000000");
    options.rdma.rounds = static_cast<std::uint64_t>(*value);
  } else if (std::string* const text = text_option(one.name, options)) {
    if (one.value.empty()) return Mistake{fmt::format("--{} needs a value", one.name), "", false};
    *text = one.value;
  } else {
    return Mistake{fmt::format("--{} takes no value", one.name), "", false};
  }
  return std::nullopt;
}

const Form* form_of(const std::string& noun, const std::string& verb) {
  const auto found = std::find_if(forms().begin(), forms().end(),
                                  [&](const Form& one) { return one.noun == noun && one.verb == verb; });
  return found == forms().end() ? nullptr : &*found;
}

// Stores the options among the words in `options` and the other words in `rest`.
std::optional<Mistake> take_options(const Words& words, Options& options, Words& rest) {
  bool literal = false;  // the words after "--" are no options
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    const bool field =
        word.size() > 1 && (word[0] == '+' || (word[0] == '-' && word[1] != '-' && word != "-h"));
    if (literal) {
      rest.push_back(word);
    } else if (word == "--") {
      literal = true;
    } else if (word == "--nbd") {
      options.map.nbd = "auto";
    } else if (word == "--rdma" || word == "--listen") {
      (word == "--rdma" ? options.rdma.wanted : options.rdma.listens) = true;
    } else if (take_switch(word, options)) {
      continue;
    } else if (word.rfind("--", 0) == 0) {
      if (auto wrong = take_option(words, at, options)) return wrong;
    } else if (field || word == "all") {
      options.fields.push_back(word);
    } else {
      rest.push_back(word);
    }
  }
  return std::nullopt;
}

// Checks that the command supports the options that were given.
std::optional<Mistake> check_options(const Command& command) {
  if (command.options.formats > 1)
    return Mistake{"--json and --csv are both given", "leave one of them out", false};
  const bool goes_on = command.verb == "top" || command.verb == "monitor";
  if (command.options.count != 0 && !goes_on) return Mistake{"--count is for top and monitor", "", false};
  const RdmaOptions& rdma = command.options.rdma;
  const bool probes = command.verb == "doctor" && rdma.wanted;
  if (!probes && rdma != RdmaOptions{})
    return Mistake{"--rdma, --listen, --rdma-device and --rounds are for \"urtrs doctor --rdma\"",
                   "write --rdma too", false};
  const bool other = rdma.listens || !command.arguments.empty();
  if (probes && other && !rdma.device.empty())
    return Mistake{"--rdma-device is for a test without a peer", "the address already selects the device",
                   false};
  if (command.verb == "doctor" && !probes && !command.arguments.empty())
    return Mistake{"an address is for \"urtrs doctor --rdma\"", "", false};
  MapOptions map = command.options.map;
  if (probes && other) map.parameters.erase("port");
  if (map != MapOptions{} && (command.verb != "map" || is_client(command.noun)))
    return Mistake{
        "--run, --nbd, --nbd-wait, --port, --fabric, --session, --idempotent and the tls and auth options "
        "are for \"urtrs map\"",
        "", false};
  return std::nullopt;
}

tl::expected<Command, Mistake> parse_words(const Words& rest, Options options) {
  Command command;
  command.options = std::move(options);
  const bool sided = !rest.empty() && (rest[0] == kServer || rest[0] == kClient);
  const std::string side = sided && rest[0] == kClient ? kClient : "";
  std::size_t at = sided ? 1 : 0;
  if (at == rest.size()) {
    command.noun = side;
    command.options.help = true;
    return command;
  }
  const Words nouns = admin::nouns(side);
  const Words plain = unique_of(&Form::verb, side);
  // A verb that needs no noun has precedence over nouns, so a new noun never changes an old command.
  const Match verb = match(rest[at], plain);
  const Match noun = match(rest[at], nouns);
  if (verb.word == rest[at] || noun.word.empty()) {
    if (verb.word.empty()) {
      if (!verb.could_be.empty() || !noun.could_be.empty()) {
        const Words could_be = joined(noun.could_be, verb.could_be);
        return mistake(fmt::format("\"{}\" is ambiguous: {}", rest[at], fmt::join(could_be, ", ")));
      }
      return unknown_here(side, {}, rest[at], joined(nouns, plain));
    }
    command.noun = side;
    command.verb = verb.word;
    ++at;
  } else {
    if (!verb.word.empty())
      return mistake(fmt::format("\"{}\" is ambiguous: {}, {}", rest[at], noun.word, verb.word));
    command.noun = noun_of(side, noun.word);
    if (++at == rest.size()) {
      command.verb = command.options.help ? "" : "list";
    } else {
      const Words verbs = unique_of(&Form::verb, command.noun);
      const Match found = match(rest[at], verbs);
      if (found.word.empty() && !found.could_be.empty())
        return mistake(fmt::format("\"{}\" is ambiguous: {}", rest[at], fmt::join(found.could_be, ", ")));
      if (found.word.empty()) return unknown_here(side, noun.word, rest[at], verbs);
      command.verb = found.word;
      ++at;
    }
  }
  command.arguments.assign(rest.begin() + static_cast<std::ptrdiff_t>(at), rest.end());
  if (command.options.help) return command;
  if (auto wrong = check_options(command)) return tl::unexpected(std::move(*wrong));
  const Form& form = *form_of(command.noun, command.verb);
  const std::size_t count = command.arguments.size();
  if (count < form.least || count > form.most) {
    const std::string name = fmt::format("urtrs {}{}{}", form.noun, *form.noun != '\0' ? " " : "", form.verb);
    return mistake(
        fmt::format("{} takes {}, not {} argument{}", name,
                    *form.arguments != '\0' ? form.arguments : "no argument", count, count == 1 ? "" : "s"),
        "see " + name + " --help");
  }
  const Words& levels = log_levels();
  if (command.verb == "log" && std::find(levels.begin(), levels.end(), command.arguments[0]) == levels.end())
    return unknown("log level", command.arguments[0], levels);
  return command;
}

}  // namespace

bool is_client(const std::string& noun) {
  return noun == kClient || noun.rfind(std::string(kClient) + " ", 0) == 0;
}

std::string noun_of(const std::string& side, const std::string& word) {
  return side.empty() || word.empty() ? side + word : side + " " + word;
}

std::vector<std::string> nouns(const std::string& side) {
  Words words;
  for (const std::string& noun : unique_of(&Form::noun, {})) {
    if (is_client(noun) != is_client(side) || noun == kClient) continue;
    words.push_back(side.empty() ? noun : noun.substr(side.size() + 1));
  }
  return words;
}

std::vector<std::string> verbs(const std::string& noun) {
  return unique_of(&Form::verb, noun);
}

std::string meant(const std::string& word, const std::vector<std::string>& candidates) {
  return match(word, candidates).word;
}

const std::vector<std::string>& log_levels() {
  static const Words all{"trace", "debug", "info", "warn", "error"};
  return all;
}

tl::expected<Command, Mistake> parse(const Words& words) {
  Options options;
  Words rest;
  // The output format must be known before anything is parsed, because errors are printed in this format too.
  const auto end = std::find(words.begin(), words.end(), "--");
  const bool json =
      std::find(words.begin(), end, "--json") != end || std::find(words.begin(), end, "json") != end;
  if (std::find(words.begin(), words.end(), "--version") != words.end()) {
    Command command;
    command.verb = "version";
    if (json) command.options.format = Format::json;
    return command;
  }
  auto result = [&]() -> tl::expected<Command, Mistake> {
    if (auto wrong = take_options(words, options, rest)) return tl::unexpected(std::move(*wrong));
    return parse_words(rest, options);
  }();
  if (!result) result.error().json = json;
  return result;
}

}  // namespace rtrs::admin
