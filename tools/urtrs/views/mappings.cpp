#include "tools/urtrs/views/mappings.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tools/lib/control/mapping/mapping_facts.hpp"
#include "tools/lib/control/rpc/client.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/urtrs/command/map_words.hpp"
#include "tools/urtrs/views/fact_tables.hpp"
#include "tools/urtrs/views/kernel_nbd.hpp"
#include "tools/urtrs/views/output.hpp"
#include "tools/urtrs/views/run_command.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {

using nlohmann::json;

namespace {

// Must be longer than 75 s, the time after which a server releases the name of a previous session.
constexpr std::chrono::seconds kMapPatience{150};
constexpr std::chrono::seconds kDetachPatience{5};

bool as_json(const Options& options) {
  return options.format == Format::json;
}

tl::expected<rpc::Client, rpc::Error> connect(const Options& options) {
  const auto socket = options.socket.empty() ? rpc::only_socket("urtrs-mapd")
                                             : tl::expected<std::string, rpc::Error>(options.socket);
  if (!socket && socket.error().error == ENOENT)
    return tl::unexpected(
        rpc::Error{rpc::Code::failed, socket.error().message,
                   "start it with \"systemctl start urtrs-mapd\", or run urtrs-mapd as this user", ENOENT});
  if (!socket) return tl::unexpected(socket.error());
  auto client = rpc::Client::connect(*socket);
  if (!client && (client.error().error == ENOENT || client.error().error == ECONNREFUSED))
    client.error().hint = "is urtrs-mapd running? use --socket for another socket";
  return client;
}

// Reports that urtrs-mapd cannot be reached.
int say_absent(const rpc::Error& error, const Options& options) {
  return error.error == EINVAL ? fail(error, as_json(options)) : say_no_daemon(error, as_json(options));
}

json parameters_of(const MapWords& words, const MapOptions& options) {
  json parameters{{"device", words.device}};
  if (options.session.empty())
    parameters["from"] = words.from;
  else
    parameters["session"] = options.session;
  if (!words.paths.empty())
    parameters["paths"] = fmt::format("{}", fmt::join(words.paths, " "));
  else if (!options.session.empty() && words.from != options.session)
    parameters["paths"] = words.from;
  if (!words.mode.empty()) parameters["access_mode"] = words.mode;
  // Makes file names absolute, because nbdkit runs in a different directory.
  for (const auto& [key, value] : options.parameters) {
    const bool file = mapping::session_parameter(key)->rule.kind == options::Kind::file;
    parameters[key] = file ? std::filesystem::absolute(value).string() : value;
  }
  if (options.idempotent) parameters["again"] = "true";
  return parameters;
}

std::optional<rpc::Error> unmap(rpc::Client& client, const std::string& device, const std::string& session,
                                bool force) {
  json parameters{{"device", device}};
  if (!session.empty()) parameters["session"] = session;
  if (force) parameters["force"] = "true";
  auto answer = client.call("device.unmap", parameters, kMapPatience);
  if (!answer) return answer.error();
  expected_answer(*answer);
  return std::nullopt;
}

// Cancels the mapping after a signal that arrived before the reply. urtrs-mapd would otherwise continue the
// mapping.
int take_back(rpc::Client& client, const MapWords& words, const Options& options) {
  const auto left =
      unmap(client, words.device, options.map.session.empty() ? words.from : options.map.session, true);
  const bool never_begun = left && left->code == rpc::Code::no_such_thing;
  if (left && !never_begun)
    fmt::print(stderr, "urtrs: urtrs-mapd continues to map \"{}\"; stop it with \"urtrs unmap {}\"\n",
               printable(words.device), printable(words.device));
  return fail(rpc::Error{rpc::Code::failed, "", "", EINTR}, as_json(options));
}

// Runs the command of --run, then unmaps the device if this program mapped it for the command.
int run_with(rpc::Client& client, const Command& command, const json& mapped) {
  const std::string device = mapped.value("device", "");
  const int code = run_command(command.options.map.run, {{"uri", mapped.value("uri", "")},
                                                         {"unixsocket", mapped.value("socket", "")}});
  if (!mapped.value("mapped", true)) return code;
  // Uses force, because only child processes of the command can still use the device after the command has
  // ended.
  if (const auto error = unmap(client, device, mapped.value("session", ""), true))
    return code != 0 ? (fail(*error, as_json(command.options)), code)
                     : fail(*error, as_json(command.options));
  return code;
}

int map(const Command& command) {
  const Options& options = command.options;
  auto words = map_words(command.arguments);
  if (!words) return fail(words.error(), as_json(options));
  if (const auto wrong = wrong_map_options(options.map)) return fail(*wrong, as_json(options));
  const bool runs = !options.map.run.empty();
  if (runs && !options.map.nbd.empty())
    return fail(Mistake{"--run and --nbd are both given", "leave one of them out", false}, as_json(options));
  const NbdHost host;
  NbdWish wish{options.map.nbd, kernel_nbd::kWaitSeconds, words->device, options.map.idempotent};
  if (options.map.nbd_wait != 0) wish.wait = options.map.nbd_wait;
  if (options.map.nbd_wait != 0 && options.map.nbd.empty())
    return fail(Mistake{"--nbd-wait is given without --nbd", "", false}, as_json(options));
  if (!options.map.nbd.empty())
    if (const auto missing = check_kernel_nbd(host, wish)) return fail(*missing, as_json(options));
  auto client = connect(options);
  if (!client && runs && options.socket.empty() && client.error().error == ENOENT)
    return run_nbdkit(*words, options);
  if (!client) return say_absent(client.error(), options);
  const auto answer = client->call("device.map", parameters_of(*words, options.map), kMapPatience);
  if (!answer && answer.error().error == EINTR && interrupted() != 0)
    return take_back(*client, *words, options);
  if (!answer) return fail(answer.error(), as_json(options));
  expected_answer(*answer);
  if (runs) return run_with(*client, command, *answer);
  json mapped{{"schema_version", kSchemaVersion},
              {"sessname", answer->value("session", "")},
              {"mapping_path", answer->value("device", "")},
              {"uri", answer->value("uri", "")},
              {"mapped", answer->value("mapped", true)}};
  if (!options.map.nbd.empty()) {
    const auto attached = attach_kernel_nbd(host, wish, answer->value("socket", ""));
    if (!attached) {
      if (answer->value("mapped", true)) unmap(*client, words->device, answer->value("session", ""), false);
      return fail(attached.error(), as_json(options));
    }
    mapped["devpath"] = *attached;
  }
  if (as_json(options)) {
    print(mapped);
  } else {
    std::puts(printable(mapped.value("uri", "")).c_str());
    if (mapped.contains("devpath")) std::puts(printable(mapped.value("devpath", "")).c_str());
  }
  return done;
}

int change(const Command& command) {
  const Options& options = command.options;
  const auto words = unmap_words(command.verb, command.arguments);
  if (!words) return fail(words.error(), as_json(options));
  auto client = connect(options);
  if (!client) return say_absent(client.error(), options);
  if (command.verb == "unmap") {
    const auto listed = client->call("device.list", json::object());
    if (!listed) return fail(listed.error(), as_json(options));
    bool detached = false;
    for (const Row& row : mappings(expected_answer(*listed), words->session).rows) {
      if (row.values.value("mapping_path", "") != words->device) continue;
      const auto any =
          detach_kernel_nbd(NbdHost(), row.values.value("socket", ""), words->device, words->force);
      if (!any) return fail(any.error(), as_json(options));
      detached = detached || *any;
    }
    const auto end = std::chrono::steady_clock::now() + kDetachPatience;
    auto error = unmap(*client, words->device, words->session, words->force);
    // Retries, because nbdkit may not have noticed yet that the kernel has disconnected.
    while (detached && error && error->error == EBUSY && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      error = unmap(*client, words->device, words->session, words->force);
    }
    if (error) return fail(*error, as_json(options));
  } else {
    json parameters{{"device", words->device}};
    if (!words->session.empty()) parameters["session"] = words->session;
    const auto answer = client->call("device.remap", parameters, kMapPatience);
    if (!answer) return fail(answer.error(), as_json(options));
    expected_answer(*answer);
  }
  if (as_json(options)) print(json{{"schema_version", kSchemaVersion}});
  return done;
}

int look(const Command& command) {
  const Options& options = command.options;
  auto client = connect(options);
  if (!client) return say_absent(client.error(), options);
  const auto listed = client->call("device.list", json::object());
  if (!listed) return fail(listed.error(), as_json(options));
  const std::string first = command.arguments.empty() ? "" : command.arguments[0];
  const bool one = command.verb == "show";
  const Table table = mappings(expected_answer(*listed), one ? "" : first);
  if (!one) return print(table, options);
  const std::string text = show(table, "mapping_path", first, options);
  if (!text.empty()) return std::fputs(text.c_str(), stdout) < 0 ? failed : done;
  std::vector<std::string> known;
  for (const Row& row : table.rows) known.push_back(row.values.value("mapping_path", ""));
  const std::string near = tools::nearest_word(first, known);
  return fail(rpc::Error{rpc::Code::no_such_thing, fmt::format("no device \"{}\" is mapped", first),
                         near.empty() ? "\"urtrs mapping list\" shows all"
                                      : fmt::format("did you mean \"{}\"?", near),
                         ENOENT},
              as_json(options));
}

}  // namespace

bool is_mapping(const Command& command) {
  return command.noun == "mapping" ||
         (command.noun.empty() &&
          (command.verb == "map" || command.verb == "unmap" || command.verb == "remap"));
}

int run_mapping(const Command& command) {
  if (command.noun == "mapping") return look(command);
  return command.verb == "map" ? map(command) : change(command);
}

Table mappings(const json& listed, const std::string& session) {
  return object_table("mappings", tools::fields_of(mapping::mapped_device_facts()), listed.at("devices"),
                      session);
}

}  // namespace rtrs::admin
