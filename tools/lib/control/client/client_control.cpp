#include "tools/lib/control/client/client_control.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/bindings/asio/path_syntax.hpp"
#include "backends/options/connection.hpp"
#include "core/proto/reasons.hpp"
#include "tools/lib/control/attributes/written_values.hpp"
#include "tools/lib/control/client/client_tree.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/printable.hpp"

namespace rtrs::control {

using nlohmann::json;
using rpc::Code;

namespace {

struct Asked {
  ControlledClient& target;
  const json& params;
};
using Answer = tl::expected<json, rpc::Error>;

struct Method {
  const char* name;
  bool changes;  // true: the caller needs the permission rpc::Caller::may_change
  std::vector<std::string_view> parameters;
  Answer (*serve)(const Asked&);  // nullptr: handled in handle(), because the response is sent later
};

Answer refuse(Code code, std::string message, std::string hint = {}, int error = 0) {
  return tl::unexpected(rpc::Error{code, std::move(message), std::move(hint), error});
}

Answer outcome(int error, const std::string& what, const std::string& hint = {}) {
  if (error == 0) return json::object();
  return refuse(error == ENOENT ? Code::no_such_thing : Code::failed,
                fmt::format("{}: {}", what, std::strerror(error)), hint, error);
}

std::string text_of(const Asked& asked, const char* key) {
  const auto found = asked.params.find(key);
  return found != asked.params.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Answer missing(const char* key, const char* form) {
  return refuse(Code::invalid_params, fmt::format("\"{}\" is missing: {}", key, form), {}, EINVAL);
}

// Returns an error if the request names another session than the only one of the client.
std::optional<rpc::Error> wrong_session(const Asked& asked, const ClientModel& model) {
  const std::string name = text_of(asked, "session");
  if (name.empty() || name == model.session) return std::nullopt;
  return rpc::Error{Code::no_such_thing, fmt::format("no session named \"{}\"", name),
                    fmt::format("the session of this client is \"{}\"", model.session), ENOENT};
}

Answer show(const Asked& asked) {
  const ClientModel model = asked.target.model();
  json answer = to_json(model, asked.target.now());
  answer["stats"] = to_json(model.stats);
  answer["version"] = URTRS_VERSION;
  answer["pid"] = ::getpid();
  answer["fabric"] = asked.target.fabric_name();
  answer.update(asked.target.credentials());
  answer["uptime_s"] = static_cast<double>(asked.target.now() - asked.target.started()) / 1e9;
  return answer;
}

Answer stats(const Asked& asked) {
  return json{{"stats", to_json(asked.target.model().stats)}};
}

Answer devices(const Asked& asked) {
  return json{{"devices", to_json(asked.target.model(), asked.target.now())["devices"]}};
}

bool means(const ClientPathModel& path, const std::string& name) {
  return name == pathname_of(path) || name == source_of(path) || name == destination_of(path) ||
         name == path.device.name || name == std::to_string(path.path) || name == asio::to_text(path.address);
}

// Calls `act` with the path that the parameter "path" names. The name must match exactly one path.
template <class Act>
Answer at_path(const Asked& asked, const char* doing, Act act) {
  const std::string which = text_of(asked, "path");
  if (which.empty()) return missing("path", "SRC@DST, SRC, DST, a device, or the index of a path");
  const ClientModel model = asked.target.model();
  if (auto wrong = wrong_session(asked, model)) return tl::unexpected(std::move(*wrong));
  std::vector<unsigned> found;
  for (const ClientPathModel& path : model.paths)
    if (path.status.state != PathState::absent && means(path, which)) found.push_back(path.path);
  if (found.empty())
    return refuse(Code::no_such_thing, fmt::format("session \"{}\" has no path \"{}\"", model.session, which),
                  "\"urtrs client path list\" shows all", ENOENT);
  if (found.size() > 1)
    return refuse(Code::failed,
                  fmt::format("\"{}\" means {} paths of session \"{}\"", which, found.size(), model.session),
                  "use SRC@DST, or the index of the path", EINVAL);
  return outcome(act(found.front()), doing);
}

Answer path_add(const Asked& asked) {
  const std::string text = text_of(asked, "path");
  if (text.empty()) return missing("path", "[SRC@]DST");
  const ClientModel model = asked.target.model();
  if (auto wrong = wrong_session(asked, model)) return tl::unexpected(std::move(*wrong));
  options::Value port{.text = {}, .number = asked.target.default_port()};
  if (const std::string given = text_of(asked, "port"); !given.empty())
    if (std::string why = options::parse(options::kServerPort.rule, "port", given, port); !why.empty())
      return refuse(Code::invalid_params, std::move(why), {}, EINVAL);
  const auto address = asio::parse_path(text, static_cast<std::uint16_t>(port.number));
  if (!address) return refuse(Code::invalid_params, address.error(), {}, EINVAL);
  for (const ClientPathModel& path : model.paths)
    if (path.status.state != PathState::absent && asio::same_path(path.address, *address))
      return refuse(Code::failed, fmt::format("the session already has the path \"{}\"", text),
                    "each path needs a different pair of addresses", EEXIST);
  unsigned index = 0;
  const int error = asked.target.add_path(*address, text, index);
  if (error == 0) return json{{"path", index}};
  for (const Reason one : {Reason::name_unresolved, Reason::source_unavailable}) {
    const ReasonText& why = rtrs::text_of(one);
    if (error == why.linux_errno)
      return refuse(Code::failed, fmt::format("adding the path: {}", why.sentence), why.hint, error);
  }
  return refuse(error == ENOSPC ? Code::busy : Code::failed,
                fmt::format("adding the path: {}", std::strerror(error)),
                error == ENOSPC ? fmt::format("a session has at most {} paths", kMaxPaths) : "", error);
}

// Returns true if IO would have no path without this path: no other path is connected, and this path is
// connected, is the only path that was ever connected, or is the only path.
bool is_last(const ClientModel& model, unsigned path) {
  bool connected = false, has_been = false;
  bool others = false, others_have_been = false;
  for (const ClientPathModel& one : model.paths) {
    const PathState state = one.status.state;
    if (one.path == path) {
      connected = state == PathState::connected;
      has_been = one.status.ever_connected;
      continue;
    }
    if (state == PathState::connected) return false;
    if (state == PathState::absent) continue;
    others = true;
    others_have_been = others_have_been || one.status.ever_connected;
  }
  return connected || (has_been && !others_have_been) || !others;
}

Answer path_remove(const Asked& asked) {
  bool refused = false;
  std::string address;
  const Answer answer = at_path(asked, "removing the path", [&](unsigned path) {
    const ClientModel model = asked.target.model();
    refused = text_of(asked, "force") != "true" && is_last(model, path);
    for (const ClientPathModel& one : model.paths)
      if (one.path == path) address = address_of(one);
    return refused ? EBUSY : asked.target.remove_path(path);
  });
  if (!refused && answer) return json{{"address", address}};
  if (!refused) return answer;
  return refuse(Code::failed, "IO would stop without this path: no other path is connected",
                "wait until another path is connected, add a path, or use \"force\"", EBUSY);
}

Answer path_disconnect(const Asked& asked) {
  return at_path(asked, "disconnecting the path",
                 [&](unsigned path) { return asked.target.disconnect_path(path); });
}

Answer path_reconnect(const Asked& asked) {
  return at_path(asked, "reconnecting the path",
                 [&](unsigned path) { return asked.target.reconnect_path(path); });
}

Answer session_policy(const Asked& asked) {
  if (auto wrong = wrong_session(asked, asked.target.model())) return tl::unexpected(std::move(*wrong));
  const std::string text = text_of(asked, "policy");
  const auto policy = parse_policy(text);
  if (!policy)
    return refuse(Code::invalid_params, fmt::format("unknown policy \"{}\"", text),
                  "rr (round-robin), mi (min-inflight) or ml (min-latency)", EINVAL);
  return outcome(asked.target.set_policy(*policy), "setting the policy");
}

Answer session_recover(const Asked& asked) {
  if (auto wrong = wrong_session(asked, asked.target.model())) return tl::unexpected(std::move(*wrong));
  return json{{"paths", asked.target.recover()}};
}

Answer stats_reset(const Asked& asked) {
  if (!text_of(asked, "path").empty())
    return at_path(asked, "resetting",
                   [&](unsigned path) { return asked.target.reset_statistics(path, PathStatistics::all); });
  const ClientModel model = asked.target.model();
  if (auto wrong = wrong_session(asked, model)) return tl::unexpected(std::move(*wrong));
  for (const ClientPathModel& path : model.paths)
    asked.target.reset_statistics(path.path, PathStatistics::all);
  return json::object();
}

Answer no_device(int error, const std::string& name, const char* doing) {
  return outcome(error, fmt::format("{} \"{}\"", doing, name),
                 error == EBUSY ? "the device is in use; \"force\" unmaps it anyway"
                                : "\"urtrs client device list\" shows all");
}

Answer device_unmap(const Asked& asked) {
  const std::string name = text_of(asked, "device");
  if (name.empty()) return missing("device", "as it was mapped");
  return no_device(asked.target.unmap_device(name, text_of(asked, "force") == "true"), name, "unmapping");
}

Answer device_remap(const Asked& asked) {
  const std::string name = text_of(asked, "device");
  if (name.empty()) return missing("device", "as it was mapped");
  return no_device(asked.target.remap_device(name), name, "opening again");
}

Answer device_resize(const Asked& asked) {
  const std::string name = text_of(asked, "device");
  if (name.empty()) return missing("device", "as it was mapped");
  const std::string text = text_of(asked, "sectors");
  const auto sectors = attributes::parse_sectors(text);
  if (!sectors)
    return refuse(Code::invalid_params, fmt::format("\"{}\" is not a number of sectors", text),
                  "sectors of 512 bytes; \"urtrs client device resize\" takes sizes such as 10G",
                  sectors.error());
  const int error = asked.target.resize_device(name, *sectors);
  return outcome(error, fmt::format("resizing \"{}\"", name),
                 error == EINVAL ? "a size is a whole number of the blocks of the device"
                                 : "\"urtrs client device list\" shows all");
}

Answer debug_dump(const Asked& asked) {
  return debug_json(asked.target.model(), asked.target.now());
}

Answer attribute_look(const Asked& asked) {
  return look_at_attribute(asked.target, text_of(asked, "path"));
}

Answer attribute_read(const Asked& asked) {
  return read_attribute(asked.target, text_of(asked, "path"));
}

const std::vector<Method>& methods() {
  static const std::vector<Method> all{
      {"client.show", false, {}, show},
      {"path.add", true, {"session", "path", "port"}, path_add},
      {"path.remove", true, {"session", "path", "force"}, path_remove},
      {"path.disconnect", true, {"session", "path"}, path_disconnect},
      {"path.reconnect", true, {"session", "path"}, path_reconnect},
      {"session.policy", true, {"session", "policy"}, session_policy},
      {"session.recover", true, {"session"}, session_recover},
      {"device.list", false, {}, devices},
      {"device.map", true, {"device", "access_mode"}, nullptr},
      {"device.unmap", true, {"device", "force"}, device_unmap},
      {"device.remap", true, {"device"}, device_remap},
      {"device.resize", true, {"device", "sectors"}, device_resize},
      {"stats", false, {}, stats},
      {"stats.reset", true, {"session", "path"}, stats_reset},
      {"debug.dump", false, {}, debug_dump},
      {"attribute.look", false, {"path"}, attribute_look},
      {"attribute.read", false, {"path"}, attribute_read},
      {"attribute.write", true, {"path", "text"}, nullptr},
  };
  return all;
}

tl::expected<const Method*, rpc::Error> method_of(const std::string& name) {
  const auto& all = methods();
  const auto method =
      std::find_if(all.begin(), all.end(), [&](const Method& one) { return one.name == name; });
  if (method != all.end()) return &*method;
  std::vector<std::string> names;
  for (const Method& one : all) names.emplace_back(one.name);
  const std::string near = tools::nearest_word(name, names);
  return tl::unexpected(rpc::Error{Code::no_such_method, fmt::format("unknown method \"{}\"", name),
                                   near.empty() ? "" : fmt::format("did you mean \"{}\"?", near), 0});
}

// Rejects unknown parameters, because a misspelt parameter would otherwise count as absent.
std::optional<rpc::Error> wrong_parameter(const Method& method, const json& params) {
  for (const auto& [key, value] : params.items()) {
    std::string why;
    if (std::find(method.parameters.begin(), method.parameters.end(), key) == method.parameters.end())
      why = fmt::format("{} has no parameter \"{}\"", method.name, key);
    else if (!value.is_string())
      why = fmt::format("parameter \"{}\" of {} must be a string", key, method.name);
    else if (value.get_ref<const std::string&>().find('\0') != std::string::npos)
      why = fmt::format("parameter \"{}\" of {} has a zero byte", key, method.name);
    if (!why.empty()) return rpc::Error{Code::invalid_params, std::move(why), {}, EINVAL};
  }
  return std::nullopt;
}

json with_version(json answer) {
  answer["schema_version"] = ClientControl::kSchemaVersion;
  return answer;
}

// Sends the response as soon as the server has opened the device or refused it.
void device_map(const Asked& asked, const rpc::Reply& reply) {
  using wire::rnbd::AccessMode;
  const std::string name = text_of(asked, "device");
  const std::string mode = text_of(asked, "access_mode");
  if (name.empty() || name.size() > 254)
    return reply.error({Code::invalid_params, "\"device\" must be a name of 1 to 254 bytes", {}, EINVAL});
  for (const AccessMode one : {AccessMode::read_write, AccessMode::read_only, AccessMode::migration}) {
    if (!mode.empty() && mode != wire::rnbd::to_string(one)) continue;
    return asked.target.map_device(name, one, [reply, name](int error, const std::string& why) {
      if (error == 0) return reply.result(with_version({{"device", name}}));
      reply.error({error == ENOENT ? Code::no_such_thing : Code::failed, why, {}, error});
    });
  }
  reply.error(
      {Code::invalid_params, fmt::format("unknown access mode \"{}\"", mode), "ro, rw or migration", EINVAL});
}

}  // namespace

tl::expected<std::unique_ptr<ClientControl>, std::string> ClientControl::open(
    boost::asio::io_context& context, const std::string& socket, const std::string& group,
    ControlledClient& target, Log log) {
  auto control = std::make_unique<ClientControl>(target, std::move(log));
  rpc::ServerOptions options;
  options.path = socket;
  options.group = group;
  options.trouble = [self = control.get()](const std::string& sentence) { self->log_(sentence); };
  if (socket == "auto") {
    auto chosen = rpc::make_socket_path("client");
    if (!chosen) return tl::unexpected(std::move(chosen.error()));
    options.path = *chosen;
  }
  control->path_ = options.path;
  auto server = rpc::Server::listen(
      context, std::move(options),
      [self = control.get()](const rpc::Caller& caller, const rpc::Request& request,
                             const rpc::Reply& reply) { self->handle(caller, request, reply); });
  if (!server) return tl::unexpected(std::move(server.error()));
  control->server_ = std::move(*server);
  return control;
}

std::optional<Answer> ClientControl::answer(const rpc::Caller& caller, const rpc::Request& request) {
  const auto method = method_of(request.method);
  if (!method) return tl::unexpected(method.error());
  const Method& one = **method;
  if (one.changes && !caller.may_change)
    return refuse(Code::not_permitted,
                  fmt::format("{} is not permitted for user {}, who may only read", one.name, caller.uid),
                  "run this as root, as the user of the client, or as a member of the group of the socket",
                  EPERM);
  if (auto wrong = wrong_parameter(one, request.params)) return tl::unexpected(std::move(*wrong));
  if (one.changes && log_)
    log_(tools::printable(fmt::format("control: {} {} requested by process {} of user {}", one.name,
                                      tools::json_text(request.params), caller.pid, caller.uid)));
  if (one.serve == nullptr) return std::nullopt;
  Answer result = one.serve({target_, request.params});
  if (result) *result = with_version(std::move(*result));
  return result;
}

void ClientControl::handle(const rpc::Caller& caller, const rpc::Request& request, const rpc::Reply& reply) {
  if (request.method == "events.watch") {
    reply.subscribe();
    return reply.result({{"schema_version", kSchemaVersion}});
  }
  const auto result = answer(caller, request);
  const Asked asked{target_, request.params};
  if (!result && request.method == "attribute.write")
    return write_attribute(text_of(asked, "path"), text_of(asked, "text"), [reply](const auto& written) {
      if (!written) return reply.error(written.error());
      reply.result(with_version(json::object()));
    });
  if (!result) return device_map(asked, reply);
  if (!*result) return reply.error(result->error());
  reply.result(**result);
}

}  // namespace rtrs::control
