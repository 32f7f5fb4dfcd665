#include "tools/urtrs/clients.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "backends/options/quantity.hpp"
#include "tools/lib/control/rpc/client.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/terminal/terminal.hpp"
#include "tools/urtrs/views/client_metrics.hpp"
#include "tools/urtrs/views/client_views.hpp"
#include "tools/urtrs/views/fact_tables.hpp"
#include "tools/urtrs/views/output.hpp"
#include "tools/urtrs/views/views.hpp"
#include "tools/urtrs/views/watch.hpp"

namespace rtrs::admin {

using nlohmann::json;

namespace {

// kPatience limits the time for all clients together, so that a client that does not answer delays the others
// only briefly. After kPatience, each further client gets kMinPatience.
constexpr std::chrono::milliseconds kPatience{3000};
constexpr std::chrono::milliseconds kMinPatience{300};

struct One {
  std::string socket;
  rpc::Client client;
  json shown;
  std::string session;
};
using All = std::vector<One>;

// Asks all clients. Returns those that answer, or an error if none does. If `tells`, reports the clients that
// do not answer on standard error.
tl::expected<All, rpc::Error> clients(const Options& options, bool tells = false) {
  const std::vector<std::string> sockets =
      options.socket.empty() ? rpc::live_sockets("client") : std::vector<std::string>{options.socket};
  rpc::Error error{rpc::Code::failed,
                   fmt::format("no client has a control socket in {}", rpc::runtime_folder()),
                   "start nbdkit-urtrs, or name its socket with --socket", ENOENT};
  All all;
  std::vector<std::string> silent;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const auto left = [&end] {
    const auto time =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    return std::max(time, kMinPatience);
  };
  for (const std::string& socket : sockets) {
    auto client = rpc::Client::connect(socket, left());
    if (!client) {
      error = client.error();
      if (error.error == ETIMEDOUT) silent.push_back(socket);
      continue;
    }
    auto shown = client->call("client.show", json::object(), left());
    if (!shown) {
      error = shown.error();
      if (error.error == ETIMEDOUT) silent.push_back(socket);
      continue;
    }
    expected_answer(*shown).at("sessions");
    for (json& session : (*shown)["sessions"]) session["stats"] = shown->value("stats", json::object());
    const json& sessions = shown->at("sessions");
    const std::string name = sessions.empty() ? "" : sessname_of(sessions.at(0));
    all.push_back({socket, std::move(*client), std::move(*shown), name});
  }
  if (all.empty()) return tl::unexpected(std::move(error));
  for (const std::string& socket : silent)
    if (tells) std::fprintf(stderr, "urtrs: skipped, because it does not answer: %s\n", socket.c_str());
  return all;
}

json merged(const All& all) {
  json shown{{"sessions", json::array()}, {"devices", json::array()}};
  for (const One& one : all)
    for (const char* key : {"sessions", "devices"})
      for (const json& item : one.shown.value(key, json::array())) shown[key].push_back(item);
  return shown;
}

rpc::Error no_session(const All& all, const std::string& session) {
  std::vector<std::string> names;
  for (const One& one : all) names.push_back(one.session);
  const std::string near = tools::nearest_word(session, names);
  return {
      rpc::Code::no_such_thing, fmt::format("no client session named \"{}\"", session),
      near.empty() ? "\"urtrs client session list\" shows all" : fmt::format("did you mean \"{}\"?", near),
      ENOENT};
}

// Returns the client with this session, or an error if two clients use the session name at different servers.
tl::expected<One*, rpc::Error> of_session(All& all, const std::string& session) {
  One* found = nullptr;
  for (One& one : all) {
    if (one.session != session) continue;
    if (found != nullptr)
      return tl::unexpected(rpc::Error{rpc::Code::failed,
                                       fmt::format("two clients have a session \"{}\"", session),
                                       "choose one with --socket", EINVAL});
    found = &one;
  }
  if (found == nullptr) return tl::unexpected(no_session(all, session));
  return found;
}

tl::expected<One*, rpc::Error> of_device(All& all, const std::string& device, const std::string& session) {
  One* found = nullptr;
  for (One& one : all) {
    if (!session.empty() && one.session != session) continue;
    for (const json& item : one.shown.value("devices", json::array())) {
      if (item.value("mapping_path", "") != device || item.value("state", "") == "idle") continue;
      if (found != nullptr)
        return tl::unexpected(rpc::Error{rpc::Code::failed,
                                         fmt::format("two sessions have a device \"{}\"", device),
                                         "choose one with --socket", EINVAL});
      found = &one;
    }
  }
  if (found == nullptr)
    return tl::unexpected(rpc::Error{rpc::Code::no_such_thing,
                                     fmt::format("no client has a device \"{}\" mapped", device),
                                     "\"urtrs client device list\" shows all", ENOENT});
  return found;
}

int print_one(const Table& table, const char* field, const std::string& value, const Options& options,
              const char* kind) {
  const std::string text = show(table, field, value, options);
  if (text.empty())
    return fail(rpc::Error{rpc::Code::no_such_thing, fmt::format("no {} named \"{}\"", kind, value),
                           fmt::format("\"urtrs client {} list\" shows all", kind), ENOENT},
                options.format == Format::json);
  std::fputs(text.c_str(), stdout);
  return done;
}

int show_path(const Table& table, const std::string& which, const Options& options) {
  for (const Row& row : table.rows) {
    const json& path = row.values;
    bool same = which == std::to_string(number(path, "path"));
    for (const char* key : {"src_addr", "dst_addr", "hca_name"}) same = same || path.value(key, "") == which;
    if (same) return print_one(table, "pathname", path.value("pathname", ""), options, "path");
  }
  return print_one(table, "pathname", which, options, "path");
}

int print_metrics(const All& all, const Options& options) {
  json shown = json::array();
  for (const One& one : all) shown.push_back(one.shown);
  const std::string text = client_metrics_text(shown);
  if (options.format == Format::json)
    print(json{{"schema_version", kSchemaVersion}, {"text", text}});
  else
    std::fputs(text.c_str(), stdout);
  return done;
}

int look(const Command& command, All& all) {
  const Options& options = command.options;
  for (const One& one : all) print_warnings(one.shown, options);
  const json shown = merged(all);
  const std::string first = command.arguments.empty() ? "" : command.arguments[0];
  const bool one = command.verb == "show";
  if (command.noun == "client" && command.verb == "stats") return print(client_statistics(shown), options);
  if (command.verb == "metrics") return print_metrics(all, options);
  if (command.noun == "client session")
    return one ? print_one(client_sessions(shown), "sessname", first, options, "session")
               : print(client_sessions(shown), options);
  if (command.noun == "client device" && one)
    return print_one(client_devices(shown, {}), "mapping_path", first, options, "device");
  if (!first.empty())
    if (const auto found = of_session(all, first); !found)
      return fail(found.error(), options.format == Format::json);
  if (command.verb == "timers") return print(client_timers(shown, first), options);
  if (command.noun == "client device") return print(client_devices(shown, first), options);
  const Table table = client_paths(shown, first);
  return one ? show_path(table, command.arguments[1], options) : print(table, options);
}

int call(One& one, const std::string& method, const json& parameters, const Options& options) {
  auto answer = one.client.call(method, parameters);
  if (!answer) return fail(answer.error(), options.format == Format::json);
  expected_answer(*answer);
  answer->erase("address");  // the address is only for urtrs-mapd
  if (options.format == Format::json) print(*answer);
  return done;
}

// Calls a method with the arguments of the command. `names` are the parameter names of the arguments; the
// first argument is the session.
int change(const Command& command, All& all, const char* method, const std::vector<const char*>& names) {
  const bool as_json = command.options.format == Format::json;
  json parameters = json::object();
  for (std::size_t i = 0; i < command.arguments.size(); ++i) parameters[names[i]] = command.arguments[i];
  // The last argument may be the word "force".
  if (const auto force = parameters.find("force"); force != parameters.end()) {
    if (*force != "force")
      return fail(Mistake{fmt::format("unknown argument \"{}\" of {}; only \"force\" may follow",
                                      force->get<std::string>(), command.verb),
                          "", false},
                  as_json);
    *force = "true";
  }
  if (!command.arguments.empty()) {
    const auto one = of_session(all, command.arguments[0]);
    return one ? call(**one, method, parameters, command.options) : fail(one.error(), as_json);
  }
  if (all.size() == 1) return call(all.front(), method, parameters, command.options);
  return fail(Mistake{fmt::format("there are {} client sessions; name one", all.size()), "", false}, as_json);
}

// Parses a size such as "64M" and sets "sectors" in `parameters`. Returns nullopt, or the error.
std::optional<Mistake> take_size(const std::string& text, json& parameters) {
  constexpr std::uint64_t kSector = 512;
  const auto size = options::parse_size(text);
  if (!size) return Mistake{size.error(), "", false};
  if (*size % kSector != 0)
    return Mistake{fmt::format("\"{}\" is not a valid device size", text),
                   "it must be a multiple of 512 bytes", false};
  parameters["sectors"] = std::to_string(*size / kSector);
  return std::nullopt;
}

int change_device(const Command& command, All& all) {
  const bool as_json = command.options.format == Format::json;
  auto words = command.arguments;
  json parameters{{"device", words[0]}};
  if (command.verb == "map") {
    if (words.size() == 3) parameters["access_mode"] = words[2];
    const auto one = of_session(all, words[1]);
    return one ? call(**one, "device.map", parameters, command.options) : fail(one.error(), as_json);
  }
  if (command.verb == "resize") {
    if (const auto mistake = take_size(words[1], parameters)) return fail(*mistake, as_json);
    words.erase(words.begin() + 1);
  }
  std::string session;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (command.verb == "unmap" && i + 1 == words.size() && words[i] == "force")
      parameters["force"] = "true";
    else if (i == 1)
      session = words[i];
    else
      return fail(
          Mistake{fmt::format("\"{}\" is not an argument of unmap; the last may be \"force\"", words[i]), "",
                  false},
          as_json);
  }
  const auto one = of_device(all, words[0], session);
  return one ? call(**one, "device." + command.verb, parameters, command.options)
             : fail(one.error(), as_json);
}

int dump(const Command& command, All& all) {
  const bool as_json = command.options.format == Format::json;
  if (command.arguments[0] != "dump")
    return fail(Mistake{fmt::format("unknown command \"urtrs client debug {}\"", command.arguments[0]),
                        "expected dump", false},
                as_json);
  json sessions = json::array();
  for (One& one : all) {
    auto answer = one.client.call("debug.dump", json::object());
    if (!answer) return fail(answer.error(), as_json);
    for (const json& session : expected_answer(*answer).at("sessions")) sessions.push_back(session);
  }
  const json everything{{"schema_version", kSchemaVersion}, {"sessions", std::move(sessions)}};
  if (as_json)
    print(everything);
  else
    std::fputs(client_waits_text(everything).c_str(), stdout);
  return done;
}

int top(const Options& given) {
  Options options = given;
  const bool screen = ::isatty(STDOUT_FILENO) == 1 && options.format == Format::table;
  if (screen) options.width = tools::columns_of(stdout);
  auto before = clients(options);
  auto at = std::chrono::steady_clock::now();
  for (unsigned shown = 0; before && (options.count == 0 || shown < options.count); ++shown) {
    rest(options.interval);
    if (interrupted() != 0) return done;
    auto now = clients(options);
    const auto then = std::exchange(at, std::chrono::steady_clock::now());
    if (!now) return interrupted() != 0 ? done : fail(now.error(), options.format == Format::json);
    // These sequences move the cursor to the top left and clear the screen.
    if (screen) std::fputs("\x1b[H\x1b[J", stdout);
    const double seconds = std::chrono::duration<double>(at - then).count();
    if (const int code = print(client_rates(merged(*before), merged(*now), seconds), options)) return code;
    std::fflush(stdout);
    before = std::move(now);
  }
  return before ? done : say_no_daemon(before.error(), options.format == Format::json);
}

json paths_in(const json& shown) {
  const json& sessions = shown.at("sessions");
  return sessions.empty() ? json::array() : sessions.at(0).at("paths");
}

bool has_path(const json& paths, const json& path) {
  return std::any_of(paths.begin(), paths.end(),
                     [&path](const json& one) { return one.at("path") == path.at("path"); });
}

// Returns the name that urtrs-mapd uses for the session whose nbdkit has this control socket; at the server
// the session may have a different name. Empty if the socket does not belong to urtrs-mapd.
std::string mapping_of(const std::string& socket) {
  constexpr std::string_view kBegin = "client-map-", kEnd = ".sock";
  const std::string name = std::filesystem::path(socket).filename().string();
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return {};
  return name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
}

// If the session belongs to urtrs-mapd, lets urtrs-mapd add or remove the path, because it saves the change.
// Returns nullopt for other sessions.
std::optional<int> change_kept_path(const Command& command, All& all) {
  constexpr std::chrono::milliseconds kKeepPatience{150'000};
  const std::string method = command.verb == "add" ? "path.add" : "path.remove";
  const auto one = of_session(all, command.arguments[0]);
  const std::string session = one ? mapping_of((*one)->socket) : "";
  if (session.empty()) return std::nullopt;
  const auto socket = rpc::only_socket("urtrs-mapd");
  auto mapd = socket ? rpc::Client::connect(*socket) : tl::unexpected(socket.error());
  if (!mapd) {
    std::fprintf(
        stderr,
        "urtrs: urtrs-mapd does not answer, so this change is lost when the nbdkit of the session ends\n");
    return std::nullopt;
  }
  json parameters{{"session", session}, {"path", command.arguments[1]}};
  const std::string last = command.arguments.size() == 3 ? command.arguments[2] : "";
  if (command.verb == "add" && !last.empty()) parameters["port"] = last;
  if (command.verb != "add" && !last.empty() && last != "force")
    return std::nullopt;  // the client reports the wrong argument
  if (command.verb != "add" && !last.empty()) parameters["force"] = "true";
  auto answer = mapd->call(method, parameters, kKeepPatience);
  if (!answer) return fail(answer.error(), command.options.format == Format::json);
  expected_answer(*answer);
  if (command.options.format != Format::json) return done;
  const auto now = (*one)->client.call("client.show", json::object());
  for (const json& path : now ? paths_in(*now) : json::array())
    if (command.verb == "add" && !has_path(paths_in((*one)->shown), path))
      (*answer)["path"] = path.at("path");
  print(*answer);
  return done;
}

}  // namespace

int run_client(const Command& given) {
  Command command = given;
  const bool as_json = command.options.format == Format::json;
  if (command.verb == "top") return top(command.options);
  auto all = clients(command.options, true);
  if (!all) return say_no_daemon(all.error(), as_json);
  auto& words = command.arguments;
  // The user may also give the name that urtrs-mapd uses for a session. The session is the first argument,
  // except for "client device", where the first argument is a device unless the verb is "list".
  const std::size_t at = command.noun == "client device" && command.verb != "list" ? 1 : 0;
  if (at < words.size() && !words[at].empty())
    for (const One& one : *all)
      if (words[at] == mapping_of(one.socket)) words[at] = one.session;
  if (command.verb == "monitor") {
    if (words.empty() && all->size() > 1)
      return fail(Mistake{fmt::format("there are {} client sessions; name one", all->size()), "", false},
                  as_json);
    const auto one =
        words.empty() ? tl::expected<One*, rpc::Error>(&all->front()) : of_session(*all, words[0]);
    return one ? monitor((*one)->client, command.options) : fail(one.error(), as_json);
  }
  if (command.verb == "debug") return dump(command, *all);
  if (command.verb == "reset") return change(command, *all, "stats.reset", {"session", "path"});
  if (command.verb == "list" || command.verb == "show" || command.verb == "stats" ||
      command.verb == "timers" || command.verb == "metrics")
    return look(command, *all);
  if (command.noun == "client device") return change_device(command, *all);
  if (command.verb == "policy") return change(command, *all, "session.policy", {"session", "policy"});
  if (command.verb == "recover") return change(command, *all, "session.recover", {"session"});
  const bool removes = command.verb == "remove" || command.verb == "delete";
  if (command.noun == "client path" && (removes || command.verb == "add"))
    if (const auto code = change_kept_path(command, *all)) return *code;
  if (removes) return change(command, *all, "path.remove", {"session", "path", "force"});
  return change(command, *all, ("path." + command.verb).c_str(), {"session", "path", "port"});
}

}  // namespace rtrs::admin
