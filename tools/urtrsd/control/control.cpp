#include "tools/urtrsd/control/control.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "tools/lib/control/attributes/node_json.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

using nlohmann::json;
using rpc::Code;

namespace {
struct Asked {
  Controlled& target;
  const json& params;
};
using Answer = tl::expected<json, rpc::Error>;

struct Method {
  const char* name;
  bool changes;  // the caller needs rpc::Caller::may_change
  std::vector<std::string_view> parameters;
  Answer (*serve)(const Asked&);  // null: serve_later() handles the method
};

Answer refuse(Code code, std::string message, std::string hint = {}, int error = 0) {
  return tl::unexpected(rpc::Error{code, std::move(message), std::move(hint), error});
}

Answer outcome(int error, const std::string& what) {
  if (error == 0) return json::object();
  return refuse(error == ENOENT ? Code::no_such_thing : Code::failed,
                fmt::format("{}: {}", what, std::strerror(error)), {}, error);
}

std::string text_of(const Asked& asked, const char* key) {
  const auto found = asked.params.find(key);
  return found != asked.params.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Answer missing(const char* key, const char* form) {
  return refuse(Code::invalid_params, fmt::format("\"{}\" is missing: {}", key, form));
}

Answer show(const Asked& asked) {
  json answer = to_json(asked.target.model(), asked.target.now(), text_of(asked, "buckets") == "true");
  answer["exports"] = to_json(asked.target.exports(), asked.target.lost_nbd(), asked.target.missing());
  answer["missing"] = to_json(asked.target.missing(), asked.target.now());
  answer["stats"] = to_json(asked.target.transport_stats(), asked.target.block_stats());
  answer["limits"] = to_json(asked.target.limits());
  answer.update({{"version", URTRS_VERSION}, {"pid", ::getpid()}});
  answer["fabric"] = asked.target.fabric_name();
  answer.update(asked.target.credentials());
  answer["uptime_s"] = static_cast<double>(asked.target.now() - asked.target.started()) / 1e9;
  return answer;
}

const ServerSessionStatus* session_of(const attributes::ServerModel& model, const std::string& name) {
  const auto found = std::find_if(model.sessions.begin(), model.sessions.end(),
                                  [&](const ServerSessionStatus& one) { return one.name == name; });
  return found == model.sessions.end() ? nullptr : &*found;
}

Answer no_session(const attributes::ServerModel& model, const std::string& name) {
  std::vector<std::string> names;
  for (const ServerSessionStatus& one : model.sessions) names.push_back(one.name);
  const std::string near = tools::nearest_word(name, names);
  return refuse(Code::no_such_thing, fmt::format("no session named \"{}\"", name),
                near.empty() ? "\"urtrs session list\" shows all" : fmt::format("did you mean \"{}\"?", near),
                ENOENT);
}

Answer session_disconnect(const Asked& asked) {
  const std::string name = text_of(asked, "session");
  if (name.empty()) return missing("session", "the name of a session");
  const attributes::ServerModel model = asked.target.model();
  const ServerSessionStatus* session = session_of(model, name);
  if (session == nullptr) return no_session(model, name);
  return outcome(asked.target.close_session(session->session), "closing the session");
}

bool means(const ServerPathStatus& path, const std::string& name) {
  const attributes::PathEnds ends = attributes::path_ends(path.peer);
  return name == ends.source + "@" + ends.destination || name == ends.source || name == path.device.name ||
         name == std::to_string(path.path);
}

// Calls `act` for the path that the parameter "path" selects. Fails unless it selects exactly one path.
template <class Act>
Answer at_path(const Asked& asked, const char* doing, Act act) {
  const std::string name = text_of(asked, "session");
  const std::string which = text_of(asked, "path");
  if (name.empty()) return missing("session", "the name of a session");
  if (which.empty()) return missing("path", "SRC@DST, SRC, a device, or the index of a path");
  const attributes::ServerModel model = asked.target.model();
  const ServerSessionStatus* session = session_of(model, name);
  if (session == nullptr) return no_session(model, name);
  std::vector<unsigned> found;
  for (const ServerPathStatus& path : session->paths)
    if (means(path, which)) found.push_back(path.path);
  if (found.empty())
    return refuse(Code::no_such_thing, fmt::format("session \"{}\" has no path \"{}\"", name, which),
                  "\"urtrs path list\" shows all", ENOENT);
  if (found.size() > 1)
    return refuse(Code::failed,
                  fmt::format("\"{}\" means {} paths of session \"{}\"", which, found.size(), name),
                  "say SRC@DST");
  return outcome(act(session->session, found.front()), doing);
}

Answer path_disconnect(const Asked& asked) {
  return at_path(asked, "disconnecting the path", [&](std::uint16_t session, unsigned path) {
    return asked.target.disconnect_path(session, path);
  });
}

Answer stats_reset(const Asked& asked) {
  if (!text_of(asked, "path").empty())
    return at_path(asked, "resetting", [&](std::uint16_t session, unsigned path) {
      return asked.target.reset_traffic(session, path);
    });
  const std::string name = text_of(asked, "session");
  const attributes::ServerModel model = asked.target.model();
  if (!name.empty() && session_of(model, name) == nullptr) return no_session(model, name);
  for (const ServerSessionStatus& session : model.sessions) {
    if (!name.empty() && session.name != name) continue;
    for (const ServerPathStatus& path : session.paths) asked.target.reset_traffic(session.session, path.path);
  }
  return json::object();
}

// True if the client may be a kernel client: at least one path is connected, and no connected path uses an
// extension of urtrs.
bool may_be_kernel(const ServerSessionStatus& session) {
  const auto connected = [](const ServerPathStatus& path) { return path.state == PathState::connected; };
  return std::any_of(session.paths.begin(), session.paths.end(), connected) &&
         std::none_of(session.paths.begin(), session.paths.end(), [&](const ServerPathStatus& path) {
           return connected(path) && path.extensions != wire::Extensions::none;
         });
}

// The kernel client fails all IO to a closed device until its session reconnects.
Answer fails_for_kernel(const std::string& session, const std::string& device) {
  return refuse(
      Code::failed,
      fmt::format("session \"{}\" uses no extension of urtrs, so its client may be the Linux client, which "
                  "then fails all IO to \"{}\" until it has lost all its paths and one has reconnected",
                  session, device),
      "a larger disk: write its 512-byte sectors to /sys/block/rnbdN/rnbd/resize at the client; "
      "add \"force\" to close it anyway",
      EBUSY);
}

Answer device_close(const Asked& asked) {
  const std::string device = text_of(asked, "device");
  const std::string session = text_of(asked, "session");
  if (device.empty())
    return missing("device", "a device as the client mapped it, or the file that is exported");
  const bool force = text_of(asked, "force") == "true";
  const attributes::ServerModel model = asked.target.model();
  std::vector<std::uint64_t> handles;
  for (const attributes::OpenDevice& one : model.devices) {
    for (const attributes::OpenDevice::Use& use : one.uses) {
      if ((use.mapping_path != device && one.backing != device) ||
          (!session.empty() && use.session != session))
        continue;
      const ServerSessionStatus* of = session_of(model, use.session);
      if (!force && of != nullptr && may_be_kernel(*of)) return fails_for_kernel(use.session, device);
      handles.push_back(use.handle);
    }
  }
  const auto closed = std::count_if(handles.begin(), handles.end(), [&](std::uint64_t handle) {
    return asked.target.force_close(handle) == 0;
  });
  if (closed == 0)
    return refuse(Code::no_such_thing,
                  fmt::format("no session{} has a device \"{}\" open",
                              session.empty() ? "" : " \"" + session + "\"", device),
                  "\"urtrs device list\" shows all", ENOENT);
  return json{{"closed", closed}};
}

// Rejects relative paths, because the caller does not know the working directory of urtrsd.
std::optional<rpc::Error> relative_path_error(const std::string& file) {
  constexpr const char* kHint = "give an absolute path, which begins with /";
  if (file.empty()) return rpc::Error{Code::invalid_params, "\"file\" is missing", kHint, EINVAL};
  if (file.front() == '/') return std::nullopt;
  return rpc::Error{Code::invalid_params,
                    fmt::format("\"{}\" is a relative path, but urtrsd runs in another folder", file), kHint,
                    EINVAL};
}

Answer trace_start(const Asked& asked) {
  const std::string file = text_of(asked, "file");
  if (auto wrong = relative_path_error(file)) return tl::unexpected(std::move(*wrong));
  const std::string refused = asked.target.start_trace(file);
  return refused.empty() ? Answer(json{{"file", file}}) : refuse(Code::failed, refused);
}

Answer trace_stop(const Asked& asked) {
  const std::string refused = asked.target.stop_trace();
  return refused.empty() ? Answer(json::object()) : refuse(Code::failed, refused);
}

Answer trace_dump(const Asked& asked) {
  const std::string file = text_of(asked, "file");
  if (auto wrong = relative_path_error(file)) return tl::unexpected(std::move(*wrong));
  const std::string refused = asked.target.dump_trace(file);
  return refused.empty() ? Answer(json{{"file", file}}) : refuse(Code::failed, refused);
}

Answer export_remove(const Asked& asked) {
  const std::string name = text_of(asked, "name");
  if (name.empty()) return missing("name", "the name of an export");
  const std::string refused = asked.target.remove_export(name, text_of(asked, "force") == "true");
  return refused.empty() ? Answer(json::object()) : refuse(Code::failed, refused);
}

Answer debug_dump(const Asked& asked) {
  json answer = asked.target.debug_dump(text_of(asked, "from"));
  if (answer.is_null())
    return refuse(Code::invalid_params, "\"from\" must be the \"next\" of the previous page", {}, EINVAL);
  return answer;
}

Answer log_level(const Asked& asked) {
  const std::string level = text_of(asked, "level");
  if (!asked.target.set_log_level(level))
    return refuse(Code::invalid_params, fmt::format("unknown log level \"{}\"", level),
                  "trace, debug, info, warn or error", EINVAL);
  return json::object();
}

attributes::Node tree_of(const Asked& asked) {
  return attributes::server_tree(std::make_shared<attributes::ServerModel>(asked.target.model()),
                                 asked.target);
}

Answer attribute_look(const Asked& asked) {
  return attributes::look(tree_of(asked), text_of(asked, "path"));
}

Answer attribute_read(const Asked& asked) {
  return attributes::read(tree_of(asked), text_of(asked, "path"));
}

Answer attribute_write(const Asked& asked) {
  const auto file = attributes::file_at(tree_of(asked), text_of(asked, "path"));
  if (!file) return tl::unexpected(file.error());
  return outcome(file->write(text_of(asked, "text")), "writing");
}

const std::vector<Method>& methods() {
  static const std::vector<Method> all{
      {"server.show", false, {"buckets"}, show},
      {"session.disconnect", true, {"session"}, session_disconnect},
      {"path.disconnect", true, {"session", "path"}, path_disconnect},
      {"device.close", true, {"device", "session", "force"}, device_close},
      {"export.remove", true, {"name", "force"}, export_remove},
      {"export.add", true, {"export"}, nullptr},
      {"config.reload", true, {}, nullptr},
      {"stats.reset", true, {"session", "path"}, stats_reset},
      {"trace.start", true, {"file"}, trace_start},
      {"trace.stop", true, {}, trace_stop},
      {"trace.dump", true, {"file"}, trace_dump},
      {"log.level", true, {"level"}, log_level},
      {"debug.dump", false, {"from"}, debug_dump},
      {"attribute.look", false, {"path"}, attribute_look},
      {"attribute.read", false, {"path"}, attribute_read},
      {"attribute.write", true, {"path", "text"}, attribute_write},
  };
  return all;
}

// Rejects unknown parameters, because otherwise a misspelt optional parameter would be ignored silently.
Answer checked(const Method& method, const Asked& asked) {
  for (const auto& [key, value] : asked.params.items()) {
    if (std::find(method.parameters.begin(), method.parameters.end(), key) == method.parameters.end())
      return refuse(Code::invalid_params, fmt::format("{} has no parameter \"{}\"", method.name, key));
    if (value.is_string() && value.get_ref<const std::string&>().find('\0') != std::string::npos)
      return refuse(Code::invalid_params,
                    fmt::format("parameter \"{}\" of {} has a zero byte", key, method.name));
    if (!value.is_string())
      return refuse(Code::invalid_params,
                    fmt::format("parameter \"{}\" of {} must be a string", key, method.name));
  }
  return method.serve != nullptr ? method.serve(asked) : json();
}

json with_version(json answer) {
  answer["schema_version"] = Control::kSchemaVersion;
  return answer;
}

// Serves the methods that reply asynchronously.
void serve_later(const std::string& method, const Asked& asked, const rpc::Reply& reply) {
  if (method == "config.reload")
    return asked.target.reload([reply](const Controlled::Reloaded& done) {
      if (!done.problems.empty())
        return reply.error({Code::failed, done.problems.front(),
                            "nothing was changed; urtrsd --check-config lists all errors", EINVAL});
      reply.result(with_version({{"changed", done.changed}, {"kept", done.kept}}));
    });
  const auto spec = parse_export(text_of(asked, "export"));
  if (!spec) return reply.error({Code::invalid_params, spec.error(), {}, EINVAL});
  asked.target.add_export(*spec, [reply](const Controlled::Added& added) {
    if (!added.refused.empty()) return reply.error({Code::failed, added.refused, {}, 0});
    json answer = json::object();
    if (!added.warnings.empty()) answer["warning"] = fmt::format("{}", fmt::join(added.warnings, "; "));
    reply.result(with_version(std::move(answer)));
  });
}

}  // namespace

tl::expected<std::unique_ptr<Control>, std::string> Control::open(boost::asio::io_context& context,
                                                                  const std::string& socket,
                                                                  const std::string& group,
                                                                  Controlled& target) {
  auto control = std::unique_ptr<Control>(new Control(target));
  rpc::ServerOptions options;
  options.path = socket;
  options.group = group;
  options.trouble = [](const std::string& sentence) { spdlog::warn("{}", sentence); };
  if (socket == "auto") {
    auto chosen = rpc::make_socket_path("urtrsd");
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

void Control::handle(const rpc::Caller& caller, const rpc::Request& request, const rpc::Reply& reply) {
  if (request.method == "events.watch") {
    reply.subscribe();
    return reply.result({{"schema_version", kSchemaVersion}});
  }
  const auto& all = methods();
  const auto method =
      std::find_if(all.begin(), all.end(), [&](const Method& one) { return one.name == request.method; });
  if (method == all.end()) {
    std::vector<std::string> names;
    for (const Method& one : all) names.emplace_back(one.name);
    const std::string near = tools::nearest_word(request.method, names);
    return reply.error({Code::no_such_method, fmt::format("unknown method \"{}\"", request.method),
                        near.empty() ? "" : fmt::format("did you mean \"{}\"?", near), 0});
  }
  if (method->changes) {
    if (!caller.may_change)
      return reply.error(
          {Code::not_permitted,
           fmt::format("{} is not permitted for user {}, who may only read", method->name, caller.uid),
           "run this as root, as the user of urtrsd, or as a member of the group of the socket", EPERM});
    spdlog::info("control: {} {} requested by process {} of user {}", method->name,
                 tools::json_text(request.params), caller.pid, caller.uid);
  }
  const Asked asked{target_, request.params};
  Answer answer = checked(*method, asked);
  if (!answer) return reply.error(answer.error());
  if (method->serve == nullptr) return serve_later(request.method, asked, reply);
  reply.result(with_version(std::move(*answer)));
}

void Control::tell(const PathEvent& news) {
  if (server_->has_subscribers()) tell("path", to_json(news));
}

void Control::tell(const std::string& what, const json& fields) {
  if (!server_->has_subscribers()) return;
  json event = fields;
  if (!event.contains("what")) event["what"] = what;
  event["serial"] = ++events_;
  event["unix_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
  event["schema_version"] = kSchemaVersion;
  server_->broadcast("event", event);
}

}  // namespace rtrs::daemon
