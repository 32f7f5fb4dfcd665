#include "tools/urtrs-mapd/control.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/lib/control/mapping/mapping_facts.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/urtrs-mapd/control_requests.hpp"
#include "tools/urtrs-mapd/log.hpp"
#include "tools/urtrs-mapd/parameters.hpp"

namespace rtrs::mapd {

using namespace mapping;
using nlohmann::json;
using rpc::Code;

namespace {

struct Method {
  const char* name;
  bool changes;  // the caller needs the permission rpc::Caller::may_change
  std::vector<std::string_view> parameters;
  void (*serve)(const Asked&);
};

json place_of(const Asked& asked, const std::string& session, const std::string& device) {
  const std::string socket = asked.keeper.files_of(session).nbd;
  return {{"device", device}, {"session", session}, {"socket", socket}, {"uri", uri_of(device, socket)}};
}

void device_map(const Asked& asked) {
  const std::string device = asked["device"];
  if (auto wrong = check_device_name(device))
    return asked.refuse(Code::invalid_params, wrong->why, {}, wrong->error);
  const std::string mode_text = asked["access_mode"];
  const auto mode = parse_mode(mode_text.empty() ? "rw" : mode_text);
  if (!mode)
    return asked.refuse(Code::invalid_params, fmt::format("unknown access mode \"{}\"", mode_text),
                        "ro, rw or migration");
  const auto one = wanted(asked);
  if (!one)
    return asked.refuse(one.error().error == ENOENT   ? Code::no_such_thing
                        : one.error().error == EINVAL ? Code::invalid_params
                                                      : Code::failed,
                        one.error().why, hint_of(asked, one.error()), one.error().error);
  if (std::string wrong = wrong_parameters(one->wish, asked.options.parameters); !wrong.empty()) {
    std::string told = told_of(one->wish, asked.options.parameters, wrong);
    return asked.refuse(told == wrong ? Code::invalid_params : Code::failed, std::move(told));
  }
  json answer = place_of(asked, one->session, device);
  const auto& sessions = asked.keeper.machine().sessions();
  const auto known = sessions.find(one->session);
  if (asked["again"] == "true" && known != sessions.end()) {
    const auto there = known->second.devices.find(device);
    if (there != known->second.devices.end() && there->second.kept && there->second.wanted &&
        there->second.wish.mode == *mode) {
      answer["mapped"] = false;
      return asked.reply.result(with_version(std::move(answer)));
    }
  }
  answer["mapped"] = true;
  asked.keeper.map(one->session, one->wish, device, DeviceWish{*mode},
                   [reply = asked.reply, answer = std::move(answer)](const std::optional<rpc::Error>& error) {
                     if (error) return reply.error(*error);
                     reply.result(with_version(answer));
                   });
}

// Returns the session that has the device. If there is none, sends an error reply and returns nullopt.
std::optional<std::string> session_with(const Asked& asked, const std::string& device) {
  const auto& sessions = asked.keeper.machine().sessions();
  std::string session = asked["session"];
  // "urtrs map ... from NAME" creates the session HOST@NAME, so NAME is accepted for that session.
  if (const std::string whole = session_name(host_name(), session);
      !sessions.contains(session) && sessions.contains(whole))
    return whole;
  if (!session.empty()) return session;
  for (const auto& [name, one] : sessions) {
    if (!one.devices.contains(device)) continue;
    if (!session.empty()) {
      asked.refuse(Code::failed,
                   fmt::format("the sessions \"{}\" and \"{}\" have a device \"{}\"", session, name, device),
                   "name the session");
      return std::nullopt;
    }
    session = name;
  }
  if (!session.empty()) return session;
  asked.refuse(Code::no_such_thing, fmt::format("no device \"{}\" is mapped", device),
               "\"urtrs mapping list\" shows all", ENOENT);
  return std::nullopt;
}

void device_unmap(const Asked& asked) {
  const std::string device = asked["device"];
  if (const auto session = session_with(asked, device))
    asked.keeper.unmap(*session, device, asked["force"] == "true", answer_of(asked));
}

void device_remap(const Asked& asked) {
  const std::string device = asked["device"];
  if (const auto session = session_with(asked, device))
    asked.keeper.remap(*session, device, answer_of(asked));
}

const char* state_of(const Supervisor::Session& session, const Supervisor::Device& device) {
  if (!device.wanted) return "unmapping";
  if (device.mapped) return "mapped";
  return device.asked || session.state == Supervisor::State::starting ? "mapping" : "waiting";
}

void device_list(const Asked& asked) {
  const std::string only = asked["session"];
  json devices = json::array();
  for (const auto& [name, session] : asked.keeper.machine().sessions()) {
    if (!only.empty() && only != name) continue;
    for (const auto& [device, one] : session.devices) {
      const SeenDevice seen = asked.keeper.seen(name, device);
      const bool refused = one.wanted && one.mapped && seen.refused != 0;
      const std::string socket = asked.keeper.files_of(name).nbd;
      MappedDevice item{name,
                        session.wish.name.empty() ? name : session.wish.name,
                        device,
                        one.wish.mode,
                        state_of(session, one),
                        seen.size_bytes,
                        seen.users,
                        uri_of(device, socket),
                        socket,
                        refused ? seen.refused : one.error,
                        asked.keeper.trouble(name)};
      if (refused || (one.wanted && one.mapped && !item.sentence.empty())) item.state = "waiting";
      if (refused && item.sentence.empty())
        item.sentence = fmt::format("the server refuses it: {}", std::strerror(seen.refused));
      devices.push_back(tools::to_json(mapped_device_facts(), item));
    }
  }
  asked.reply.result(with_version({{"devices", std::move(devices)}}));
}

void session_list(const Asked& asked) {
  json sessions = json::array();
  for (const auto& [name, one] : asked.keeper.machine().sessions()) {
    const SessionFiles files = asked.keeper.files_of(name);
    sessions.push_back({{"session", name},
                        {"name", one.wish.name.empty() ? name : one.wish.name},
                        {"paths", one.wish.paths},
                        {"port", one.wish.port},
                        {"fabric", one.wish.fabric},
                        {"credentials", one.wish.credentials},
                        {"state", to_string(one.state)},
                        {"pid", asked.keeper.process_of(name)},
                        {"restarts", one.ended},
                        {"devices", one.devices.size()},
                        {"socket", files.nbd},
                        {"control", files.control},
                        {"sentence", asked.keeper.trouble(name)}});
  }
  asked.reply.result(with_version({{"sessions", std::move(sessions)},
                                   {"pid", ::getpid()},
                                   {"version", tools::version()},
                                   {"state_file", asked.options.state}}));
}

const std::vector<Method>& methods() {
  static const std::vector<std::string_view> of_map = [] {
    std::vector<std::string_view> names{"device",      "session", "from",   "paths",
                                        "access_mode", "port",    "fabric", "again"};
    const auto credentials = credential_names();
    names.insert(names.end(), credentials.begin(), credentials.end());
    return names;
  }();
  static const std::vector<Method> all{
      {"device.map", true, of_map, device_map},
      {"device.unmap", true, {"device", "session", "force"}, device_unmap},
      {"device.remap", true, {"device", "session"}, device_remap},
      {"path.add", true, {"session", "path", "port"}, path_add},
      {"path.remove", true, {"session", "path", "force"}, path_remove},
      {"device.list", false, {"session"}, device_list},
      {"session.list", false, {}, session_list},
  };
  return all;
}

// Rejects unknown parameters, because otherwise a misspelt optional parameter would be ignored silently.
std::string wrong_parameter(const Method& method, const json& params) {
  for (const auto& [key, value] : params.items()) {
    if (std::find(method.parameters.begin(), method.parameters.end(), key) == method.parameters.end())
      return fmt::format("{} has no parameter \"{}\"", method.name, key);
    if (!value.is_string()) return fmt::format("parameter \"{}\" of {} must be a string", key, method.name);
    if (value.get_ref<const std::string&>().find('\0') != std::string::npos)
      return fmt::format("parameter \"{}\" of {} has a zero byte", key, method.name);
  }
  return {};
}

void handle(Keeper& keeper, const Options& options, const rpc::Caller& caller, const rpc::Request& request,
            const rpc::Reply& reply) {
  const Asked asked{keeper, options, request.params, reply};
  const auto& all = methods();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Method& one) { return one.name == request.method; });
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const Method& one : all) names.emplace_back(one.name);
    const std::string near = tools::nearest_word(request.method, names);
    return asked.refuse(Code::no_such_method, fmt::format("unknown method \"{}\"", request.method),
                        near.empty() ? "" : fmt::format("did you mean \"{}\"?", near), 0);
  }
  if (found->changes && !caller.may_change)
    return asked.refuse(
        Code::not_permitted,
        fmt::format("{} is not permitted for user {}, who may only read", found->name, caller.uid),
        "run this as root, as the user of urtrs-mapd, or as a member of the group of the socket", EPERM);
  if (std::string wrong = wrong_parameter(*found, request.params); !wrong.empty())
    return asked.refuse(Code::invalid_params, std::move(wrong));
  if (found->changes)
    log(6, fmt::format("control: {} {} requested by process {} of user {}", found->name,
                       tools::json_text(request.params), caller.pid, caller.uid));
  found->serve(asked);
}

std::string escaped(const std::string& text) {
  constexpr std::string_view kPlain = "-_.~/";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos;
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

std::string uri_of(const std::string& device, const std::string& socket) {
  return fmt::format("nbd+unix:///{}?socket={}", escaped(device), escaped(socket));
}

tl::expected<std::unique_ptr<rpc::Server>, std::string> open_control(boost::asio::io_context& context,
                                                                     const Options& options, Keeper& keeper) {
  auto path = rpc::make_socket_path("urtrs-mapd");
  if (!path) return tl::unexpected(std::move(path.error()));
  rpc::ServerOptions how;
  how.path = std::move(*path);
  how.group = options.group;
  how.trouble = [](const std::string& sentence) { log(4, sentence); };
  return rpc::Server::listen(
      context, std::move(how),
      [&keeper, &options](const rpc::Caller& caller, const rpc::Request& request, const rpc::Reply& reply) {
        handle(keeper, options, caller, request, reply);
      });
}

}  // namespace rtrs::mapd
