// The program urtrs shows and changes a running urtrsd through its control socket.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/urtrs/clients.hpp"
#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/command/export_words.hpp"
#include "tools/urtrs/doctor/doctor_host.hpp"
#include "tools/urtrs/doctor/doctor_rdma.hpp"
#include "tools/urtrs/live_names.hpp"
#include "tools/urtrs/views/keys.hpp"
#include "tools/urtrs/views/limit_table.hpp"
#include "tools/urtrs/views/mappings.hpp"
#include "tools/urtrs/views/output.hpp"
#include "tools/urtrs/views/views.hpp"
#include "tools/urtrs/views/watch.hpp"

namespace {

using namespace rtrs;
using namespace rtrs::admin;
using nlohmann::json;

int print_one(const Table& table, const char* field, const std::string& value, const Options& options,
              const char* kind) {
  const std::string text = show(table, field, value, options);
  if (text.empty()) {
    std::vector<std::string> known;
    for (const Row& row : table.rows) known.push_back(row.values.value(field, ""));
    const std::string near = tools::nearest_word(value, known);
    return fail(rpc::Error{rpc::Code::no_such_thing, fmt::format("no {} named \"{}\"", kind, value),
                           near.empty() ? fmt::format("\"urtrs {} list\" shows all", kind)
                                        : fmt::format("did you mean \"{}\"?", near),
                           ENOENT},
                options.format == Format::json);
  }
  std::fputs(text.c_str(), stdout);
  return done;
}

// A method that changes something, for a noun and a verb. `parameters` are the names for the arguments, in
// order.
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
  expected_answer(*answer);
  if (options.format == Format::json) {
    print(*answer);
    return done;
  }
  // The reply to "export add" may contain a warning.
  if (const std::string warning = answer->value("warning", ""); !warning.empty())
    std::fprintf(stderr, "urtrs: warning: %s\n", printable(warning).c_str());
  // The reply to "reload" contains lists of changes.
  for (const char* key : {"changed", "kept"})
    for (const json& one : answer->value(key, json::array()))
      std::puts(printable(one.is_string() ? one.get<std::string>() : one.dump()).c_str());
  return done;
}

// Returns the working directory, with which file names are made absolute for urtrsd; empty if it was removed.
std::string this_folder() {
  char* here = ::get_current_dir_name();
  std::string folder = here != nullptr ? here : "";
  std::free(here);
  return folder;
}

int change(rpc::Client& client, const Command& command, const Change& how) {
  json parameters = json::object();
  for (std::size_t i = 0; i < command.arguments.size(); ++i)
    parameters[how.parameters[i]] = command.arguments[i];
  if (command.noun == "export")
    parameters["export"] = with_absolute_source(command.arguments[0], this_folder());
  return call(client, how.method, parameters, command.options);
}

int remove_export(rpc::Client& client, const Command& command) {
  json parameters{{"name", command.arguments[0]}};
  if (command.arguments.size() == 2) parameters["force"] = "true";
  return call(client, "export.remove", parameters, command.options);
}

int close_device(rpc::Client& client, const Command& command) {
  const auto& words = command.arguments;
  json parameters{{"device", words[0]}};
  const bool force = words.size() > 1 && words.back() == "force";
  if (force) parameters["force"] = "true";
  if (words.size() - (force ? 1 : 0) > 1) parameters["session"] = words[1];
  return call(client, "device.close", parameters, command.options);
}

// Finds errors in the arguments that can be detected without a daemon.
std::optional<Mistake> wrong_words(const Command& command) {
  const auto& words = command.arguments;
  if (command.verb == "debug" && words[0] != "dump")
    return Mistake{fmt::format("unknown command \"urtrs debug {}\"", words[0]), "expected dump", false};
  if (command.noun == "export" && command.verb == "remove")
    if (words.size() == 2 && words[1] != "force")
      return Mistake{fmt::format("only \"force\" may follow the name, not \"{}\"", words[1]), "", false};
  if (command.noun == "device" && command.verb == "close")
    if (words.size() == 3 && words[2] != "force")
      return Mistake{fmt::format("only \"force\" may follow the session, not \"{}\"", words[2]), "", false};
  if (command.verb != "trace") return std::nullopt;
  const bool takes_file = words[0] == "start" || words[0] == "dump";
  if (!takes_file && words[0] != "stop")
    return Mistake{fmt::format("unknown command \"urtrs trace {}\"", words[0]),
                   "expected start, stop or dump", false};
  if (takes_file != (words.size() == 2))
    return Mistake{
        fmt::format("urtrs trace {} takes {}", words[0], takes_file ? "the name of a file" : "no argument"),
        "", false};
  return std::nullopt;
}

int trace(rpc::Client& client, const Command& command) {
  const std::string& what = command.arguments[0];
  json parameters = json::object();
  if (command.arguments.size() == 2) {
    const std::string& file = command.arguments[1];
    const bool relative = !file.empty() && file.front() != '/';
    parameters["file"] = relative ? this_folder() + "/" + file : file;
  }
  return call(client, "trace." + what, parameters, command.options);
}

// Maximum number of pages that are merged into one dump. There is a limit, because on a busy server new
// requests keep arriving between two pages.
constexpr unsigned kMaxPages = 200;

int debug(rpc::Client& client, const Command& command) {
  const Options& options = command.options;
  const bool as_json = options.format == Format::json;
  json all;
  std::string next;
  for (unsigned page = 0; page < kMaxPages; ++page) {
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
    std::puts(tools::json_text(all, 2).c_str());
    return done;
  }
  if (options.format == Format::table) std::fputs(waits_text(all).c_str(), stdout);
  return print(in_flight(all), options);
}

// Prints a path. Like `path disconnect`, accepts SRC@DST, SRC, a device, or the index.
int show_path(const Table& table, const std::string& which, const Options& options) {
  for (const Row& row : table.rows) {
    const json& path = row.values;
    if (which == path.value("src_addr", "") || which == path.value("hca_name", "") ||
        which == std::to_string(number(path, "path")))
      return print_one(table, "pathname", path.value("pathname", ""), options, "path");
  }
  return print_one(table, "pathname", which, options, "path");
}

// Prints the rows of one session. If the session exists but has no rows, that is not an error.
int print_of(const Table& table, const json& shown, const std::string& session, const Options& options) {
  if (session.empty() || !show(sessions(shown), "sessname", session, options).empty())
    return print(table, options);
  return print_one(sessions(shown), "sessname", session, options, "session");
}

int look(rpc::Client& client, const Command& command) {
  const Options& options = command.options;
  const auto got = client.call("server.show", json::object());
  if (!got) return fail(got.error(), options.format == Format::json);
  const json* const answer = &expected_answer(*got);
  print_warnings(*answer, options);
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
  if (command.noun == "export") {
    for (const std::string& line : missing_beside_exports(*answer))
      std::fprintf(stderr, "urtrs: warning: %s\n", printable(line).c_str());
    return print(exports(*answer), options);
  }
  return print(statistics(*answer), options);
}

int doctor(const Command& command) {
  const Options& options = command.options;
  if (options.rdma.wanted) return doctor_rdma(command);
  const std::vector<Finding> all = examine(*this_host());
  const int code = print(findings(all), options);
  return code == done && any_failed(all) ? failed : code;
}

// Prints the suggestions for shell completion, one word per line, and ":files" if a file name is also
// possible.
int complete_words(std::vector<std::string> words) {
  const std::string current = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  LiveNames names(words);
  const Completion found = complete(words, current, names);
  for (const std::string& word : found.words) std::puts(word.c_str());
  if (found.files) std::puts(":files");
  return done;
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
      print(json{{"schema_version", kSchemaVersion}, {"version", text}});
    else
      std::puts(text.c_str());
    return done;
  }
  if (is_client(command.noun)) return run_client(command);
  if (is_mapping(command)) return run_mapping(command);
  if (command.verb == "daemons") return list_daemons(options);
  if (command.verb == "doctor") return doctor(command);
  if (command.verb == "limits") return show_limits(options);
  if (command.noun == "key") return run_key(command);
  if (command.noun == "reason")
    return command.verb == "list" ? print(reasons(), options)
                                  : print_one(reasons(), "code", command.arguments[0], options, "reason");
  if (const auto wrong = wrong_words(command)) return fail(*wrong, options.format == Format::json);
  const auto socket = options.socket.empty() ? rpc::only_socket("urtrsd")
                                             : tl::expected<std::string, rpc::Error>(options.socket);
  if (!socket) return say_no_daemon(socket.error(), options.format == Format::json);
  auto client = rpc::Client::connect(*socket);
  if (!client) return fail(client.error(), options.format == Format::json);
  if (command.verb == "top") return top(*client, options);
  if (command.verb == "monitor") return monitor(*client, options);
  if (command.verb == "trace") return trace(*client, command);
  if (command.verb == "debug") return debug(*client, command);
  if (command.noun == "export" && command.verb == "remove") return remove_export(*client, command);
  if (command.noun == "device" && command.verb == "close") return close_device(*client, command);
  if (const Change* how = change_of(command)) return change(*client, command, *how);
  return look(*client, command);
}

int answer(const std::vector<std::string>& words) {
  bool as_json = false;
  try {
    if (!words.empty() && words[0] == "complete") return complete_words({words.begin() + 1, words.end()});
    const auto command = parse(words);
    as_json = command ? command->options.format == Format::json : command.error().json;
    return command ? run(*command) : fail(command.error(), as_json);
  } catch (const UnexpectedAnswer& unexpected) {
    return say_unexpected(unexpected.what(), as_json);
  } catch (const nlohmann::json::exception& unexpected) {
    return say_unexpected(unexpected.what(), as_json);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "urtrs: %s\n", failure.what());
    return failed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  rtrs::tools::hold_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);
  catch_signals();
  return rtrs::tools::written("urtrs", answer({argv + 1, argv + argc}), failed);
}
