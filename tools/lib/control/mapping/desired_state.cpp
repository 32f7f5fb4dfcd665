#include "tools/lib/control/mapping/desired_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "backends/bindings/asio/path_syntax.hpp"
#include "core/proto/limits.hpp"
#include "core/record/format.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/control/plugin/settings.hpp"

namespace rtrs::mapping {

namespace {

std::optional<Refusal> refuse(int error, std::string why, std::string member = {}) {
  return Refusal{error, std::move(why), std::move(member)};
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '@';
}

}  // namespace

std::optional<Refusal> check_session_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxSessionName)
    return refuse(EINVAL,
                  fmt::format("a session name has 1 to {} characters, not {}", kMaxSessionName, name.size()));
  if (!std::all_of(name.begin(), name.end(), is_plain))
    return refuse(
        EINVAL,
        fmt::format("\"{}\" is not a valid session name: allowed are letters, digits, _, - and @", name));
  // nbdkit would interpret such a name as an option.
  if (name.front() == '-') return refuse(EINVAL, "a session name must not begin with \"-\"");
  return std::nullopt;
}

std::optional<Refusal> check_device_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxDeviceName)
    return refuse(EINVAL,
                  fmt::format("a device name has 1 to {} bytes, not {}", kMaxDeviceName, name.size()));
  const bool control = std::any_of(name.begin(), name.end(), [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < 0x20 || code == 0x7f;
  });
  if (control) return refuse(EINVAL, "a device name must not contain control characters");
  if (!trace::is_utf8(name)) return refuse(EINVAL, "a device name must be valid UTF-8");
  return std::nullopt;
}

namespace {

// Checks the credentials by the rules of the plugin's parameters, because they are passed to the plugin.
std::optional<Refusal> check_credentials(const SessionWish& one) {
  constexpr std::size_t kMaxValue = 4096;
  plugin::Settings settings;
  std::string why;
  const auto take = [&](const std::string& key, const std::string& value) {
    if (const auto taken = settings.set(key, value); why.empty() && !taken) why = taken.error();
  };
  for (const auto& [key, value] : one.credentials) {
    if (!is_credential(key))
      return refuse(EINVAL, fmt::format("\"{}\" is not one of {}", key, fmt::join(credential_names(), ", ")),
                    "credentials");
    const bool odd = std::any_of(value.begin(), value.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
    if (odd || value.size() > kMaxValue || !trace::is_utf8(value))
      return refuse(
          EINVAL,
          fmt::format("{} must have at most {} bytes of UTF-8, without control characters", key, kMaxValue),
          "credentials");
    if (is_credential_file(key) && !value.starts_with('/'))
      return refuse(EINVAL, fmt::format("{}={}: the file name must begin with \"/\"", key, value),
                    "credentials");
    take(key, value);
  }
  take("fabric", one.fabric);
  for (const std::string& path : one.paths) take("path", path);
  if (why.empty())
    if (const auto whole = settings.complete("host", 1, "/"); !whole) why = whole.error();
  return why.empty() ? std::nullopt : refuse(EINVAL, why, "credentials");
}

}  // namespace

std::optional<Refusal> check_session(const SessionWish& one) {
  if (one.paths.empty())
    return refuse(EINVAL, "no path given: [SRC@]DST, the address of the server", "paths");
  if (one.paths.size() > kMaxPaths)
    return refuse(EINVAL, fmt::format("a session has at most {} paths, not {}", kMaxPaths, one.paths.size()),
                  "paths");
  if (!one.name.empty() && (!wire::valid_session_name(one.name) || !trace::is_utf8(one.name)))
    return refuse(EINVAL,
                  "the name of a session at its server must have 1 to 254 bytes of UTF-8, without / or . or "
                  "control characters",
                  "name");
  if (one.port == 0) return refuse(EINVAL, "0 is not a valid port (1 to 65535)", "port");
  options::Value checked;
  if (std::string why = options::parse(session_parameter("fabric")->rule, "fabric", one.fabric, checked);
      !why.empty())
    return refuse(EINVAL, std::move(why), "fabric");
  std::vector<PathAddress> known;
  for (const std::string& text : one.paths) {
    const auto path = asio::parse_path(text, one.port);
    if (!path) return refuse(EINVAL, path.error(), "paths");
    for (const PathAddress& other : known)
      if (asio::same_path(other, *path))
        return refuse(
            EINVAL, fmt::format("duplicate path \"{}\"; each path needs a different pair of addresses", text),
            "paths");
    known.push_back(*path);
  }
  return one.credentials.empty() ? std::nullopt : check_credentials(one);
}

std::optional<Refusal> check(const Wishes& wishes) {
  if (wishes.size() > kMostSessions)
    return refuse(ENOSPC, fmt::format("{} sessions exceed the limit of {}", wishes.size(), kMostSessions));
  for (const auto& [name, session] : wishes) {
    if (auto wrong = check_session_name(name)) return wrong;
    if (auto wrong = check_session(session))
      return refuse(wrong->error, fmt::format("session \"{}\": {}", name, wrong->why));
    if (session.devices.size() > kMaxDevices)
      return refuse(ENOSPC, fmt::format("session \"{}\": {} devices exceed the limit of {}", name,
                                        session.devices.size(), kMaxDevices));
    for (const auto& device : session.devices)
      if (auto wrong = check_device_name(device.first))
        return refuse(wrong->error, fmt::format("session \"{}\": {}", name, wrong->why));
  }
  return std::nullopt;
}

std::optional<wire::rnbd::AccessMode> parse_mode(std::string_view text) {
  using wire::rnbd::AccessMode;
  for (const AccessMode one : {AccessMode::read_only, AccessMode::read_write, AccessMode::migration})
    if (text == wire::rnbd::to_string(one)) return one;
  return std::nullopt;
}

std::string session_name(std::string_view host, std::string_view server) {
  constexpr std::size_t kMaxHost = 15;  // short, because the rest of the name distinguishes the sessions
  bool exact = host.size() <= kMaxHost;
  const auto part = [&exact](std::string_view text) {
    std::string plain(text);
    for (char& c : plain) {
      exact = exact && (is_plain(c) || c == '.' || c == ':') && c != '_' && c != '@';
      c = c == ':' ? '-' : is_plain(c) && c != '@' ? c : '_';
    }
    return plain;
  };
  std::string name = part(host.substr(0, kMaxHost)) + "@" + part(server);
  if (name.front() == '-') name.front() = '_';
  if (exact && name.size() <= kMaxSessionName) return name;
  // The checksum distinguishes shortened names of different servers.
  const std::string whole = std::string(host) + "@" + std::string(server);
  std::uint32_t sum = 2166136261U;  // FNV-1a hash
  for (const char c : whole) sum = (sum ^ static_cast<unsigned char>(c)) * 16777619U;
  const std::string tail = fmt::format("-{:08x}", sum);
  return name.substr(0, kMaxSessionName - tail.size()) + tail;
}

std::optional<std::size_t> find_path(const SessionWish& session, std::string_view path) {
  const auto asked = asio::parse_path(path, session.port);
  for (std::size_t i = 0; asked && i < session.paths.size(); ++i) {
    const auto there = asio::parse_path(session.paths[i], session.port);
    if (there && asio::same_path(*asked, *there)) return i;
  }
  return std::nullopt;
}

bool same_paths(const SessionWish& one, const SessionWish& other) {
  if (one.paths.size() != other.paths.size() || one.fabric != other.fabric) return false;
  return std::all_of(one.paths.begin(), one.paths.end(), [&](const std::string& text) {
    const auto path = asio::parse_path(text, one.port);
    return path && std::any_of(other.paths.begin(), other.paths.end(), [&](const std::string& candidate) {
             const auto there = asio::parse_path(candidate, other.port);
             return there && asio::same_path(*path, *there);
           });
  });
}

std::string describe_difference(const SessionWish& asked, const SessionWish& there) {
  if (same_paths(asked, there)) return {};
  if (asked.fabric != there.fabric)
    return fmt::format("uses the fabric {}, not {}", there.fabric, asked.fabric);
  SessionWish at_its_port = asked;
  at_its_port.port = there.port;
  if (same_paths(at_its_port, there)) return fmt::format("uses port {}, not {}", there.port, asked.port);
  return fmt::format("has other paths: {}", fmt::join(there.paths, " "));
}

}  // namespace rtrs::mapping
