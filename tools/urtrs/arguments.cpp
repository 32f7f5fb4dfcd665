#include "tools/urtrs/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tools/lib/text/nearest_word.hpp"

namespace rtrs::admin {

namespace {

using Words = std::vector<std::string>;

constexpr const char* kServer = "server";
constexpr const char* kClient = "client";

// The candidate that `word` is, is the plural of, or begins; or which ones it could be.
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
  return mistake(fmt::format("there is no {} \"{}\"", kind, word),
                 near.empty() ? fmt::format("it is one of {}", fmt::join(candidates, ", "))
                              : fmt::format("did you mean \"{}\"?", near));
}

// Clients have commands that the server has not, and the other way round: the one of the other side that has
// these very words comes before one that is only spelt like them.
std::string at_other_side(const std::string& side, const std::string& noun, const std::string& word) {
  const std::string other = noun_of(side.empty() ? kClient : "", noun);
  const Words theirs =
      noun.empty() ? joined(nouns(other), unique_of(&Form::verb, other)) : unique_of(&Form::verb, other);
  const std::string found = match(word, theirs).word;
  return found.empty()
             ? ""
             : fmt::format("did you mean \"urtrs {}{}{}\"?", other, other.empty() ? "" : " ", found);
}

tl::unexpected<Mistake> unknown_here(const std::string& side, const std::string& noun,
                                     const std::string& word, const Words& candidates) {
  const std::string kind = noun.empty() ? "command" : "command of " + noun_of(side, noun);
  const std::string hint = at_other_side(side, noun, word);
  return hint.empty() ? unknown(kind.c_str(), word, candidates)
                      : mistake(fmt::format("there is no {} \"{}\"", kind, word), hint);
}

// A word that steers the output, as rnbd has it, or the same as an option. False: it is none.
bool take_switch(std::string word, Options& options) {
  if (word.rfind("--", 0) == 0) word.erase(0, 2);
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
  else if (word == "help" || word == "-h")
    options.help = true;
  else if (word.size() == 1 && kUnits.find(word) != std::string_view::npos)
    options.unit = word[0];
  else
    return false;
  return true;
}

// "--name=value" or "--name value"; the value of `at`, which may move on.
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

std::optional<Mistake> take_option(const Words& words, std::size_t& at, Options& options) {
  static const Words kNames{"json",    "csv",    "no-headers", "no-tree", "no-totals", "help",
                            "version", "socket", "fields",     "unit",    "interval",  "count"};
  const std::string given = words[at];
  const Valued one = split(words, at);
  const auto number = [&one](double least) -> std::optional<double> {
    char* end = nullptr;
    const double value = std::strtod(one.value.c_str(), &end);
    return !one.value.empty() && *end == '\0' && value >= least && value <= 1e6 ? std::optional(value)
                                                                                : std::nullopt;
  };
  if (std::find(kNames.begin(), kNames.end(), one.name) == kNames.end()) {
    const std::string near = tools::nearest_word(one.name, kNames);
    return Mistake{fmt::format("there is no option \"{}\"", given),
                   near.empty() ? "" : fmt::format("did you mean \"--{}\"?", near), false};
  }
  if (!one.has_value) return Mistake{fmt::format("--{} needs a value", one.name), "", false};
  if (one.name == "socket") {
    options.socket = one.value;
  } else if (one.name == "fields") {
    if (one.value.empty()) return Mistake{"--fields names none", "for example --fields=state,+reads", false};
    std::string field;
    for (const char c : one.value + ",") {
      if (c != ',')
        field += c;
      else if (!field.empty())
        options.fields.push_back(std::exchange(field, {}));
    }
  } else if (one.name == "unit") {
    if (one.value.size() != 1 || kUnits.find(one.value) == std::string::npos)
      return Mistake{fmt::format("--unit is one of B, K, M, G, T, P, E, not \"{}\"", one.value), "", false};
    options.unit = one.value[0];
  } else if (one.name == "interval") {
    const auto value = number(0.1);
    if (!value)
      return Mistake{fmt::format("--interval is seconds, 0.1 or more, not \"{}\"", one.value), "", false};
    options.interval = *value;
  } else if (one.name == "count") {
    const auto value = number(1);
    if (!value) return Mistake{fmt::format("--count is 1 or more, not \"{}\"", one.value), "", false};
    options.count = static_cast<unsigned>(*value);
  } else {
    return Mistake{fmt::format("--{} has no value", one.name), "", false};
  }
  return std::nullopt;
}

const Form* form_of(const std::string& noun, const std::string& verb) {
  const auto found = std::find_if(forms().begin(), forms().end(),
                                  [&](const Form& one) { return one.noun == noun && one.verb == verb; });
  return found == forms().end() ? nullptr : &*found;
}

// Splits `words` into what steers the output and what is left.
std::optional<Mistake> take_options(const Words& words, Options& options, Words& rest) {
  bool literal = false;  // behind "--"
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    const bool field =
        word.size() > 1 && (word[0] == '+' || (word[0] == '-' && word[1] != '-' && word != "-h"));
    if (literal) {
      rest.push_back(word);
    } else if (word == "--") {
      literal = true;
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
  // A word that is a verb without a noun is taken for it first, so that it never changes its meaning.
  const Match verb = match(rest[at], plain);
  const Match noun = match(rest[at], nouns);
  if (verb.word == rest[at] || noun.word.empty()) {
    if (verb.word.empty()) {
      if (!verb.could_be.empty() || !noun.could_be.empty()) {
        const Words could_be = joined(noun.could_be, verb.could_be);
        return mistake(fmt::format("\"{}\" could be {}", rest[at], fmt::join(could_be, ", ")));
      }
      return unknown_here(side, {}, rest[at], joined(nouns, plain));
    }
    command.noun = side;
    command.verb = verb.word;
    ++at;
  } else {
    if (!verb.word.empty())
      return mistake(fmt::format("\"{}\" could be {}, {}", rest[at], noun.word, verb.word));
    command.noun = noun_of(side, noun.word);
    if (++at == rest.size()) {
      command.verb = command.options.help ? "" : "list";
    } else {
      const Words verbs = unique_of(&Form::verb, command.noun);
      const Match found = match(rest[at], verbs);
      if (found.word.empty() && !found.could_be.empty())
        return mistake(fmt::format("\"{}\" could be {}", rest[at], fmt::join(found.could_be, ", ")));
      if (found.word.empty()) return unknown_here(side, noun.word, rest[at], verbs);
      command.verb = found.word;
      ++at;
    }
  }
  command.arguments.assign(rest.begin() + static_cast<std::ptrdiff_t>(at), rest.end());
  if (command.options.help) return command;
  if (command.options.formats > 1) return mistake("--json and --csv are both given", "leave one of them out");
  const bool goes_on = command.verb == "top" || command.verb == "monitor";
  if (command.options.count != 0 && !goes_on) return mistake("--count is for top and monitor");
  const Form& form = *form_of(command.noun, command.verb);
  const std::size_t count = command.arguments.size();
  if (count < form.least || count > form.most)
    return mistake(fmt::format(
        "urtrs {}{}{} takes {}, not {} argument{}", form.noun, *form.noun != '\0' ? " " : "", form.verb,
        *form.arguments != '\0' ? form.arguments : "no argument", count, count == 1 ? "" : "s"));
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

const std::vector<Form>& forms() {
  static const std::vector<Form> all{
      {"session", "list", "", 0, 0, "sessions of clients, each with its paths"},
      {"session", "show", "SESSION", 1, 1, "all that is known of one session"},
      {"session", "disconnect", "SESSION", 1, 1, "close a session; its client connects again by itself"},
      {"path", "list", "[SESSION]", 0, 1, "paths of all sessions, or of one"},
      {"path", "show", "SESSION PATH", 2, 2, "all that is known of one path"},
      {"path", "disconnect", "SESSION PATH", 2, 2,
       "close one path; IO goes on over the others, and the client connects it again"},
      {"device", "list", "[SESSION]", 0, 1, "devices that sessions have open"},
      {"device", "show", "DEVICE", 1, 1, "all that is known of one device"},
      {"device", "close", "DEVICE [SESSION]", 1, 2,
       "take a device away from its session; its client has to open it again"},
      {"export", "list", "", 0, 0, "what clients can map by name"},
      {"export", "add", "NAME=SOURCE[,ro]", 1, 1,
       "export one more file, block device or mem:SIZE, until the end or a reload"},
      {"export", "remove", "NAME [force]", 1, 2,
       "export it no longer; force: take it from the sessions that have it open"},
      {"client session", "list", "", 0, 0, "sessions of the clients of this host, each with its paths"},
      {"client session", "show", "SESSION", 1, 1, "all that is known of one session"},
      {"client session", "policy", "SESSION POLICY", 2, 2, "which path a request takes"},
      {"client session", "recover", "[SESSION]", 0, 1, "connect at once each path that is down"},
      {"client path", "list", "[SESSION]", 0, 1, "paths of all clients, or of one session"},
      {"client path", "show", "SESSION PATH", 2, 2, "all that is known of one path"},
      {"client path", "add", "SESSION ADDRESS [PORT]", 2, 3, "one more path to the server"},
      {"client path", "remove", "SESSION PATH [force]", 2, 3,
       "do without a path; IO goes on over the others; force: also without the last one"},
      {"client path", "delete", "SESSION PATH [force]", 2, 3, "the same as remove"},
      {"client path", "disconnect", "SESSION PATH", 2, 2, "close a path until it is reconnected"},
      {"client path", "reconnect", "SESSION PATH", 2, 2, "connect a path anew"},
      {"client device", "list", "[SESSION]", 0, 1, "devices of all clients, or of one session"},
      {"client device", "show", "DEVICE", 1, 1, "all that is known of one device"},
      {"client device", "map", "DEVICE SESSION [MODE]", 2, 3,
       "open one more device of the server, and keep it open"},
      {"client device", "unmap", "DEVICE [SESSION] [force]", 1, 3,
       "close a device; force: also while NBD connections have it"},
      {"client device", "remap", "DEVICE [SESSION]", 1, 2,
       "try at once to open a device that the server refused"},
      {"client", "stats", "", 0, 0, "counters of each client"},
      {"client", "reset", "[SESSION [PATH]]", 0, 2, "set the counters of paths to 0"},
      {"client", "top", "", 0, 0, "IO of each path, again every second"},
      {"client", "monitor", "[SESSION]", 0, 1, "events of a client as they happen, a line each"},
      {"client", "debug", "dump", 1, 1, "what every path and the oldest request wait for, and since when"},
      {"reason", "list", "", 0, 0, "why paths end and connect requests are refused; no daemon is asked"},
      {"reason", "show", "CODE", 1, 1, "one of them, and what to do"},
      {"", "reload", "", 0, 0,
       "read the configuration again: exports and log level change, the rest is named"},
      {"", "stats", "", 0, 0, "counters of the whole server"},
      {"", "reset", "[SESSION [PATH]]", 0, 2, "set the traffic counters of paths to 0"},
      {"", "top", "", 0, 0, "IO of each path, again every second"},
      {"", "monitor", "", 0, 0, "events as they happen, a line each"},
      {"", "trace", "start FILE | stop | dump FILE", 1, 2, "record what happens, or write the last records"},
      {"", "debug", "dump", 1, 1, "what every request, path and device waits for, and since when"},
      {"", "log", "LEVEL", 1, 1, "least severe message to log: trace, debug, info, warn, error"},
      {"", "doctor", "", 0, 0, "what of this host is not in order, and what mends it"},
      {"", "daemons", "", 0, 0, "the daemons of this host that can be asked"},
      {"", "version", "", 0, 0, "of this command"},
  };
  return all;
}

tl::expected<Command, Mistake> parse(const Words& words) {
  Options options;
  Words rest;
  // Known first, because a mistake is told in this format too.
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
