#include "tools/urtrs-mapd/control_requests.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "backends/bindings/asio/path_syntax.hpp"
#include "core/proto/limits.hpp"
#include "tools/lib/text/session_name.hpp"
#include "tools/urtrs-mapd/parameters.hpp"

namespace rtrs::mapd {

using namespace mapping;
using nlohmann::json;
using rpc::Code;

namespace {

constexpr int kSchemaVersion = 1;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

std::string words_of(const Credentials& credentials) {
  std::string text;
  for (const auto& [key, value] : credentials)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text.empty() ? "the credentials of urtrs-mapd" : text;
}

// Returns the name of the session that the parameter "session" or "from" selects.
std::string session_of(const Asked& asked) {
  const auto& sessions = asked.keeper.machine().sessions();
  const std::string session = asked["session"];
  const std::string from = asked["from"];
  if (!session.empty()) return session;
  if (sessions.contains(from) || from.find('@') != std::string::npos) return from;
  return session_name(host_name(), from);
}

tl::expected<std::uint16_t, Refusal> port_in(const std::string& text) {
  options::Value port;
  if (std::string why = options::parse(options::kServerPort.rule, "port", text, port); !why.empty())
    return tl::unexpected(Refusal{EINVAL, std::move(why)});
  return static_cast<std::uint16_t>(port.number);
}

// Returns the requested path as "[SRC@]DST". The port is included only if it differs from the port of the
// session.
tl::expected<std::string, Refusal> path_in(const Asked& asked, std::uint16_t port_of_session) {
  std::uint16_t port = port_of_session;
  if (const std::string given = asked["port"]; !given.empty()) {
    const auto number = port_in(given);
    if (!number) return tl::unexpected(number.error());
    port = *number;
  }
  const auto path = asio::parse_path(asked["path"], port);
  if (!path) return tl::unexpected(Refusal{EINVAL, path.error()});
  if (port == port_of_session) return asio::to_text(*path);
  if (path->destination.starts_with("gid:"))
    return tl::unexpected(Refusal{
        EINVAL, fmt::format("a path to a GID must use the port of its session, {}", port_of_session)});
  return (path->source.empty() ? "" : path->source + "@") + asio::endpoint_text(*path);
}

// Returns the name that a new session will have at its server. If a session with the same settings has just
// failed, its name is used again, so that its process can be reused.
std::string new_name(const Asked& asked, const SessionWish& wish, const std::string& session) {
  const auto& sessions = asked.keeper.machine().sessions();
  if (const auto known = sessions.find(session); known != sessions.end()) {
    SessionWish same = wish;
    same.name = known->second.wish.name;
    if (same == known->second.wish) return same.name;
  }
  return tools::default_session_name(identity_at_server(wish, asked.options.parameters), asked["from"],
                                     tools::random_part());
}

}  // namespace

json with_version(json answer) {
  answer["schema_version"] = kSchemaVersion;
  return answer;
}

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return "host";
  const std::string whole = host.data();
  return whole.substr(0, whole.find('.'));
}

tl::expected<Wanted, Refusal> wanted(const Asked& asked) {
  const auto refuse = [](std::string why, int error = EINVAL) {
    return tl::unexpected(Refusal{error, std::move(why)});
  };
  if (asked["session"].empty() == asked["from"].empty())
    return refuse("exactly one of \"session\" and \"from\" is required");
  Wanted one{session_of(asked), {}};
  if (auto wrong = check_session_name(one.session)) {
    if (asked["from"].find('@') != std::string::npos)
      wrong->why += fmt::format("; write a path after a name for the server: \"urtrs map {} from NAME {}\"",
                                asked["device"], asked["from"]);
    return tl::unexpected(std::move(*wrong));
  }
  const auto& sessions = asked.keeper.machine().sessions();
  const auto known = sessions.find(one.session);
  const bool there = known != sessions.end() && known->second.in_use();
  if (there) one.wish = known->second.wish;
  if (const std::vector<std::string> paths = words_of(asked["paths"]); !paths.empty()) one.wish.paths = paths;
  if (!there && one.wish.paths.empty() && asked["from"] != one.session)
    one.wish.paths = words_of(asked["from"]);
  if (one.wish.paths.empty())
    return refuse(fmt::format("no session named \"{}\", and no path is given for a new one", one.session),
                  ENOENT);
  if (const std::string given = asked["port"]; !given.empty()) {
    const auto port = port_in(given);
    if (!port) return tl::unexpected(port.error());
    one.wish.port = *port;
  }
  if (const std::string fabric = asked["fabric"]; !fabric.empty()) one.wish.fabric = fabric;
  Credentials credentials;
  for (const std::string_view key : credential_names())
    if (std::string value = asked[std::string(key).c_str()]; !value.empty())
      credentials.emplace(key, std::move(value));
  if (!credentials.empty()) one.wish.credentials = credentials;
  if (auto wrong = check_session(one.wish)) return tl::unexpected(std::move(*wrong));
  // If the user chose a session name, the server receives it unchanged. Other sessions get a generated name.
  if (!there && asked["session"].empty() && asked["from"] != one.session)
    one.wish.name = new_name(asked, one.wish, one.session);
  if (there)
    if (std::string other = describe_difference(one.wish, known->second.wish); !other.empty())
      return refuse(fmt::format("the session \"{}\" {}", one.session, other), EEXIST);
  if (there && one.wish.credentials != known->second.wish.credentials)
    return refuse(
        fmt::format(
            "the session \"{}\" is mapped with {}; unmap its devices first, or give the server another "
            "name",
            one.session, words_of(known->second.wish.credentials)),
        EBUSY);
  return one;
}

std::string hint_of(const Asked& asked, const Refusal& refusal) {
  if (refusal.error == ENOENT) return "[SRC@]DST, the address of the server";
  if (refusal.error != EEXIST) return "";
  std::string hint = "use another name for the server to create a separate session";
  const std::string session = session_of(asked);
  const auto known = asked.keeper.machine().sessions().find(session);
  for (const std::string& path : words_of(asked["paths"]))
    if (known != asked.keeper.machine().sessions().end() && !find_path(known->second.wish, path))
      hint += fmt::format("; \"urtrs client path add {} {}\" adds the path to this one", session, path);
  return hint;
}

Keeper::Then answer_of(const Asked& asked) {
  return [reply = asked.reply](const std::optional<rpc::Error>& error) {
    if (error) return reply.error(*error);
    reply.result(with_version(json::object()));
  };
}

void path_add(const Asked& asked) {
  const std::string session = asked["session"];
  const auto& sessions = asked.keeper.machine().sessions();
  const auto known = sessions.find(session);
  if (known == sessions.end())
    return asked.refuse(Code::no_such_thing, fmt::format("no session named \"{}\"", session),
                        "\"urtrs mapping list\" shows all", ENOENT);
  SessionWish wish = known->second.wish;
  auto path = path_in(asked, wish.port);
  if (!path) return asked.refuse(Code::invalid_params, path.error().why);
  if (!find_path(wish, *path) && wish.paths.size() < kMaxPaths) {
    wish.paths.push_back(*path);
    if (auto wrong = check_session(wish)) return asked.refuse(Code::invalid_params, wrong->why);
  }
  asked.keeper.change_path({session, std::move(*path), true, false, 0}, answer_of(asked));
}

void path_remove(const Asked& asked) {
  if (asked["path"].empty())
    return asked.refuse(Code::invalid_params, "\"path\" is missing", "SRC@DST, SRC, DST or an index");
  asked.keeper.change_path({asked["session"], asked["path"], false, asked["force"] == "true", 0},
                           answer_of(asked));
}

}  // namespace rtrs::mapd
