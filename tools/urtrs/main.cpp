// urtrs: shows and changes a running urtrsd through its control socket.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <thread>

#include "tools/lib/rpc/client.hpp"
#include "tools/lib/rpc/socket_path.hpp"
#include "tools/lib/version/version.hpp"
#include "tools/urtrs/arguments.hpp"
#include "tools/urtrs/top.hpp"
#include "tools/urtrs/views.hpp"

namespace {

using namespace rtrs;
using namespace rtrs::admin;
using nlohmann::json;

enum ExitCode : int { done = 0, failed = 1, usage = 2, no_daemon = 3, timed_out = 4 };

volatile std::sig_atomic_t interrupted = 0;

void say_error(bool as_json, const char* code, const std::string& message, const std::string& hint,
               int error) {
  if (!as_json) {
    std::fprintf(stderr, "urtrs: %s%s%s\n", printable(message).c_str(), hint.empty() ? "" : "; ",
                 printable(hint).c_str());
    return;
  }
  json object{{"code", code}, {"message", message}};
  if (!hint.empty()) object["hint"] = hint;
  if (error != 0) object["errno"] = error;
  const json all{{"schema_version", kSchemaVersion}, {"error", std::move(object)}};
  std::puts(all.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

int fail(const Mistake& wrong, bool as_json) {
  say_error(as_json, "usage", wrong.message, wrong.hint.empty() ? "see urtrs --help" : wrong.hint, 0);
  return usage;
}

int fail(const rpc::Error& error, bool as_json) {
  const bool absent = error.error == ENOENT || error.error == ECONNREFUSED || error.error == EACCES;
  const bool unreachable =
      error.code == rpc::Code::failed && absent && error.message.find("control socket") != std::string::npos;
  if (error.error == ETIMEDOUT) {
    say_error(as_json, "timeout", error.message, error.hint, error.error);
    return timed_out;
  }
  say_error(as_json, unreachable ? "no_daemon" : "failed", error.message, error.hint, error.error);
  return unreachable ? no_daemon : failed;
}

int print(const Table& table, const Options& options) {
  const auto text = render(table, options, kSchemaVersion);
  if (!text) return fail(text.error(), options.format == Format::json);
  std::fputs(text->c_str(), stdout);
  return done;
}

int print_one(const Table& table, const char* field, const std::string& value, const Options& options,
              const char* kind) {
  const std::string text = show(table, field, value, options);
  if (text.empty())
    return fail(rpc::Error{rpc::Code::no_such_thing, fmt::format("there is no {} \"{}\"", kind, value),
                           fmt::format("\"urtrs {} list\" shows all", kind), ENOENT},
                options.format == Format::json);
  std::fputs(text.c_str(), stdout);
  return done;
}

// The methods that change something, by noun and verb, and the names of their parameters in order.
struct Change {
  const char* noun;
  const char* verb;
  const char* method;
  std::vector<const char*> parameters;
};

const Change* change_of(const Command& command) {
  static const std::vector<Change> all{
      {"session", "disconnect", "session.disconnect", {"session"}},
      {"path", "disconnect", "path.disconnect", {"session", "path"}},
      {"device", "close", "device.close", {"device", "session"}},
      {"export", "add", "export.add", {"export"}},
      {"", "reload", "config.reload", {}},
      {"", "reset", "stats.reset", {"session", "path"}},
      {"", "log", "log.level", {"level"}},
  };
  for (const Change& one : all)
    if (command.noun == one.noun && command.verb == one.verb) return &one;
  return nullptr;
}

int call(rpc::Client& client, const std::string& method, const json& parameters, const Options& options) {
  const auto answer = client.call(method, parameters);
  if (!answer) return fail(answer.error(), options.format == Format::json);
  if (options.format == Format::json) {
    std::puts(answer->dump(2, ' ', false, json::error_handler_t::replace).c_str());
    return done;
  }
  // Of a reload.
  for (const char* key : {"changed", "kept"})
    for (const json& one : answer->value(key, json::array()))
      std::puts(printable(one.is_string() ? one.get<std::string>() : one.dump()).c_str());
  return done;
}

int change(rpc::Client& client, const Command& command, const Change& how) {
  json parameters = json::object();
  for (std::size_t i = 0; i < command.arguments.size(); ++i)
    parameters[how.parameters[i]] = command.arguments[i];
  return call(client, how.method, parameters, command.options);
}

int remove_export(rpc::Client& client, const Command& command) {
  json parameters{{"name", command.arguments[0]}};
  if (command.arguments.size() == 2) {
    if (command.arguments[1] != "force")
      return fail(Mistake{fmt::format("behind the name there is \"force\" or nothing, not \"{}\"",
                                      command.arguments[1]),
                          "", false},
                  command.options.format == Format::json);
    parameters["force"] = "true";
  }
  return call(client, "export.remove", parameters, command.options);
}

int trace(rpc::Client& client, const Command& command) {
  const std::string& what = command.arguments[0];
  const bool takes_file = what == "start" || what == "dump";
  if (!takes_file && what != "stop")
    return fail(
        Mistake{fmt::format("there is no \"urtrs trace {}\"", what), "it is start, stop or dump", false},
        command.options.format == Format::json);
  if (takes_file != (command.arguments.size() == 2))
    return fail(Mistake{fmt::format("urtrs trace {} takes {}", what,
                                    takes_file ? "the name of a file" : "no argument"),
                        "", false},
                command.options.format == Format::json);
  json parameters = json::object();
  if (takes_file) {
    // urtrsd has a folder of its own.
    std::string file = command.arguments[1];
    if (!file.empty() && file.front() != '/') {
      char* here = ::get_current_dir_name();
      if (here != nullptr) file = std::string(here) + "/" + file;
      std::free(here);
    }
    parameters["file"] = file;
  }
  return call(client, "trace." + what, parameters, command.options);
}

// All pages as one. A server that is busy changes between two pages.
constexpr unsigned kMostPages = 200;

int debug(rpc::Client& client, const Command& command) {
  const Options& options = command.options;
  const bool as_json = options.format == Format::json;
  if (command.arguments[0] != "dump")
    return fail(
        Mistake{fmt::format("there is no \"urtrs debug {}\"", command.arguments[0]), "it is dump", false},
        as_json);
  json all;
  std::string next;
  for (unsigned page = 0; page < kMostPages; ++page) {
    auto answer = client.call("debug.dump", {{"from", next}});
    if (!answer) return fail(answer.error(), as_json);
    next = answer->value("next", "");
    if (page == 0)
      all = std::move(*answer);
    else
      for (json& one : (*answer)["requests"]) all["requests"].push_back(std::move(one));
    if (next.empty()) break;
  }
  all["next"] = next;
  if (as_json && options.fields.empty()) {
    std::puts(all.dump(2, ' ', false, json::error_handler_t::replace).c_str());
    return done;
  }
  if (options.format == Format::table) std::fputs(waits_text(all).c_str(), stdout);
  return print(in_flight(all), options);
}

// Waits, but for a signal.
void rest(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (interrupted == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

int top(rpc::Client& client, const Options& options) {
  const bool screen = ::isatty(STDOUT_FILENO) == 1 && options.format == Format::table;
  auto before = client.call("server.show", {{"buckets", "true"}});
  auto at = std::chrono::steady_clock::now();
  for (unsigned shown = 0; before && interrupted == 0 && (options.count == 0 || shown < options.count);
       ++shown) {
    rest(options.interval);
    if (interrupted != 0) break;
    auto now = client.call("server.show", {{"buckets", "true"}});
    const auto then = std::exchange(at, std::chrono::steady_clock::now());
    if (!now) return fail(now.error(), options.format == Format::json);
    // From the top left, and what was below is cleared.
    if (screen) std::fputs("\x1b[H\x1b[J", stdout);
    if (const int code =
            print(rates(*before, *now, std::chrono::duration<double>(at - then).count()), options))
      return code;
    std::fflush(stdout);
    before = std::move(now);
  }
  return before ? done : fail(before.error(), options.format == Format::json);
}

std::string words_of(const json& event) {
  const auto ms = event.value("unix_ms", std::int64_t{0});
  const std::time_t time = ms / 1000;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::string line = fmt::format("{:02}:{:02}:{:02}.{:03}Z {}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                                 ms % 1000, event.value("what", "?"));
  for (const auto& [key, value] : event.items()) {
    if (key == "unix_ms" || key == "what" || key == "serial" || key == "schema_version") continue;
    line += fmt::format(" {}={}", key,
                        value.is_string() ? value.get<std::string>()
                                          : value.dump(-1, ' ', true, json::error_handler_t::replace));
  }
  return printable(line);
}

int monitor(rpc::Client& client, const Options& options) {
  if (const auto begun = client.call("events.watch", json::object()); !begun)
    return fail(begun.error(), options.format == Format::json);
  for (unsigned shown = 0; interrupted == 0 && (options.count == 0 || shown < options.count);) {
    const auto event = client.next(std::chrono::milliseconds(-1));
    if (!event) {
      if (event.error().error == EINTR) continue;
      return fail(event.error(), options.format == Format::json);
    }
    std::puts(options.format == Format::json
                  ? event->params.dump(-1, ' ', false, json::error_handler_t::replace).c_str()
                  : words_of(event->params).c_str());
    std::fflush(stdout);
    ++shown;
  }
  return done;
}

int daemons(const Options& options) {
  Table table{"daemons",
              {{"socket", "Socket", "of the daemon"},
               {"pid", "Process", "", Field::Kind::number},
               {"fabric", "Fabric", ""},
               {"sessions", "Sessions", "", Field::Kind::number}},
              {}};
  for (const std::string& socket : rpc::live_sockets("urtrsd")) {
    Row row{{{"socket", socket}}, {}};
    if (auto client = rpc::Client::connect(socket)) {
      if (const auto answer = client->call("server.show", json::object(), std::chrono::seconds(3))) {
        row.values["pid"] = answer->value("pid", 0);
        row.values["fabric"] = answer->value("fabric", "");
        row.values["sessions"] = answer->value("sessions", json::array()).size();
      }
    }
    table.rows.push_back(std::move(row));
  }
  return print(table, options);
}

// What `path disconnect` takes: SRC@DST, SRC, a device, or the index.
int show_path(const Table& table, const std::string& which, const Options& options) {
  for (const Row& row : table.rows) {
    const json& path = row.values;
    if (which == path.value("src_addr", "") || which == path.value("hca_name", "") ||
        which == std::to_string(number(path, "path")))
      return print_one(table, "pathname", path.value("pathname", ""), options, "path");
  }
  return print_one(table, "pathname", which, options, "path");
}

// Rows of one session; a session that is not there is a mistake, one without rows is not.
int print_of(const Table& table, const json& shown, const std::string& session, const Options& options) {
  if (session.empty() || !show(sessions(shown), "sessname", session, options).empty())
    return print(table, options);
  return print_one(sessions(shown), "sessname", session, options, "session");
}

int look(rpc::Client& client, const Command& command) {
  const Options& options = command.options;
  const auto answer = client.call("server.show", json::object());
  if (!answer) return fail(answer.error(), options.format == Format::json);
  const std::string first = command.arguments.empty() ? "" : command.arguments[0];
  const bool one = command.verb == "show";
  if (command.noun == "session")
    return one ? print_one(sessions(*answer), "sessname", first, options, "session")
               : print(sessions(*answer), options);
  if (command.noun == "path")
    return one ? show_path(paths(*answer, first), command.arguments[1], options)
               : print_of(paths(*answer, first), *answer, first, options);
  if (command.noun == "device")
    return one ? print_one(devices(*answer, {}), "mapping_path", first, options, "device")
               : print_of(devices(*answer, first), *answer, first, options);
  if (command.noun == "export") return print(exports(*answer), options);
  return print(statistics(*answer), options);
}

int run(const Command& command) {
  const Options& options = command.options;
  if (options.help || command.verb.empty()) {
    std::fputs(help(command).c_str(), stdout);
    return done;
  }
  if (command.verb == "version") {
    const std::string text = tools::version_text("urtrs");
    if (options.format == Format::json)
      std::puts(json{{"schema_version", kSchemaVersion}, {"version", text}}.dump(2).c_str());
    else
      std::puts(text.c_str());
    return done;
  }
  if (command.verb == "daemons") return daemons(options);
  if (command.noun == "reason")
    return command.verb == "list" ? print(reasons(), options)
                                  : print_one(reasons(), "code", command.arguments[0], options, "reason");
  const auto socket = options.socket.empty() ? rpc::only_socket("urtrsd")
                                             : tl::expected<std::string, rpc::Error>(options.socket);
  if (!socket) {
    say_error(options.format == Format::json, "no_daemon", socket.error().message, socket.error().hint,
              socket.error().error);
    return no_daemon;
  }
  auto client = rpc::Client::connect(*socket);
  if (!client) return fail(client.error(), options.format == Format::json);
  if (command.verb == "top") return top(*client, options);
  if (command.verb == "monitor") return monitor(*client, options);
  if (command.verb == "trace") return trace(*client, command);
  if (command.verb == "debug") return debug(*client, command);
  if (command.noun == "export" && command.verb == "remove") return remove_export(*client, command);
  if (const Change* how = change_of(command)) return change(*client, command, *how);
  return look(*client, command);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction stop {};
  stop.sa_handler = [](int) { interrupted = 1; };
  ::sigaction(SIGINT, &stop, nullptr);  // without SA_RESTART: it ends what waits
  ::sigaction(SIGTERM, &stop, nullptr);
  try {
    const auto command = parse({argv + 1, argv + argc});
    if (!command) return fail(command.error(), command.error().json);
    return run(*command);
  } catch (const nlohmann::json::exception& failure) {
    std::fprintf(stderr, "urtrs: the answer is not that of an urtrsd of this version: %s\n",
                 printable(failure.what()).c_str());
    return failed;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "urtrs: %s\n", failure.what());
    return failed;
  }
}
