#include "tools/lib/control/plugin/settings.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "backends/bindings/asio/path_syntax.hpp"
#include "core/record/format.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/geometry.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/control/client/client_control.hpp"
#include "tools/lib/text/nearest_word.hpp"
#include "tools/lib/text/session_name.hpp"

namespace rtrs::plugin {
namespace {

using Done = tl::expected<void, std::string>;

Done refuse(std::string_view key, std::string_view value, const std::string& why) {
  return tl::unexpected(std::string(key) + "=" + std::string(value) + ": " + why);
}

// Refuses the same file for two outputs, because each replaces the existing file, even a trace that is being
// written.
Done check_outputs(const Settings& given) {
  const auto real = [](const std::string& path) {
    std::error_code error;
    auto result = std::filesystem::weakly_canonical(path, error);
    return error ? std::filesystem::path(path) : result;
  };
  const std::pair<const char*, const std::string*> files[] = {
      {"trace", &given.trace}, {"trace_dump", &given.trace_dump}, {"status", &given.status}};
  for (const auto& one : files)
    for (const auto& other : files)
      if (&one < &other && !one.second->empty() && real(*one.second) == real(*other.second))
        return refuse(other.first, *other.second,
                      std::string("is the file of ") + one.first + "= too; use another file");
  return {};
}

Done refuse_key(std::string_view key) {
  std::vector<std::string_view> known;
  for (const auto& one : plugin_options()) known.push_back(one.name);
  for (const auto& one : options::connection_options()) known.push_back(one.name);
  const std::string meant = tools::nearest_word(key, known);
  return tl::unexpected("unknown parameter '" + std::string(key) + "'; " +
                        (meant.empty() ? "" : "did you mean " + meant + "=? ") +
                        "nbdkit-urtrs --help lists them all");
}

// Checks a value for conditions that the rules of the table cannot express.
Done check_value(std::string_view key, std::string_view value, std::uint16_t port) {
  if (key == "path") {
    if (const auto path = asio::parse_path(value, port); !path) return tl::unexpected(path.error());
  }
  if (key == "tls" && value == "allow")
    return refuse(key, value, "it is for servers; a client uses require or off");
  return {};
}

// Converts the spellings that Linux accepts for mpath_policy (numbers and upper case) to a word of the table.
std::string policy_word(std::string_view value) {
  if (value == "0") return "rr";
  if (value == "1") return "mi";
  if (value == "2") return "ml";
  std::string word(value);
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return word;
}

Done check_name(std::string_view key, const std::string& name) {
  if (name.empty() || name.size() > 254) return refuse(key, name, "expected 1 to 254 characters");
  return {};
}

// Refuses two paths with the same pair of addresses, because the server would never accept the second path.
Done check_paths(const std::vector<std::string>& paths, std::uint16_t port) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const auto one = asio::parse_path(paths[k], port);
      const auto other = asio::parse_path(paths[i], port);
      if (!one || !other || !asio::same_path(*one, *other)) continue;
      const std::string as = paths[k] == paths[i] ? "is given twice" : "is the same path as path=" + paths[k];
      return refuse("path", paths[i], as + "; each path needs a different pair of addresses");
    }
  }
  return {};
}

// Checks the devices: their number, their names, and that no name occurs twice.
Done check_devices(const std::vector<std::string>& devices) {
  if (devices.size() > rnbd::kMaxClientDevices)
    return tl::unexpected("more than " + std::to_string(rnbd::kMaxClientDevices) + " devices are given");
  for (auto one = devices.begin(); one != devices.end(); ++one) {
    if (const Done done = check_name("device", *one); !done) return done;
    if (std::find(devices.begin(), one, *one) != one) return refuse("device", *one, "is given twice");
  }
  return {};
}

std::string absolute(const std::string& file, const std::string& directory) {
  return file.empty() || file.front() == '/' ? file : directory + "/" + file;
}

// Refuses parameters that have no effect in combination with the other parameters.
Done check_company(const Settings& settings) {
  const auto is_given = [&settings](std::string_view key) {
    return std::any_of(settings.given.begin(), settings.given.end(),
                       [key](const std::string& one) { return one.compare(0, one.find('='), key) == 0; });
  };
  for (const char* key : {"trace_detail", "trace_size", "trace_files"})
    if (is_given(key) && settings.trace.empty())
      return tl::unexpected(std::string(key) + "= requires trace=FILE");
  if (is_given("exports") && !settings.devices.empty())
    return tl::unexpected<std::string>("exports= and device= exclude each other; remove one of them");
  for (const auto& row : options::connection_options())
    if (row.name.starts_with("rdma_") && is_given(row.name) && settings.fabric.fabric != "verbs")
      return tl::unexpected(std::string(row.name) + "= requires fabric=verbs");
  if (is_given("crc") && settings.fabric.fabric != "tcp")
    return tl::unexpected<std::string>("crc= requires fabric=tcp");
  for (const std::string& why :
       {tools::foreign_option_error(settings.fabric), tools::contradiction(settings.fabric.tls),
        tools::contradiction(settings.fabric.auth)})
    if (!why.empty()) return tl::unexpected(tools::with_underscores(why));
  return {};
}

}  // namespace

Nanos Settings::name_in_use_timeout() const {
  const Nanos dead = std::max(dead_peer_time(protocol.heartbeat), dead_peer_time(HeartbeatConfig{}));
  return std::max(connect_timeout, dead + seconds(10) + protocol.reconnect_max);
}

Done Settings::set(std::string_view key, std::string_view value) {
  given.push_back(std::string(key) + "=" + std::string(value));
  if (Done done = check_value(key, value, port); !done) return done;
  const auto* own = options::find(plugin_options(), key);
  const auto* shared = options::find(options::connection_options(), key);
  if (own == nullptr && shared == nullptr) return refuse_key(key);
  const std::string word = key == "policy" ? policy_word(value) : std::string(value);
  const std::string error = own != nullptr
                                ? options::set(*own, this, word)
                                : options::set(*shared, options::Connection{fabric, protocol}, word);
  if (!error.empty()) return tl::unexpected(error);
  access_mode_given |= key == "access_mode";
  reconnect_min_given |= key == "reconnect_min";
  return {};
}

Done Settings::complete(const std::string& who, std::uint32_t random, const std::string& working_directory) {
  if (paths.empty())
    return tl::unexpected<std::string>(
        "path= is missing: the address of the server, for example path=10.0.0.2");
  if (paths.size() > kMaxPaths)
    return tl::unexpected("more than " + std::to_string(kMaxPaths) + " paths are given");
  if (const Done done = check_paths(paths, port); !done) return done;
  if (session.empty()) session = tools::default_session_name(who, program, random);
  if (const Done done = check_name("session", session); !done) return done;
  if (session.find_first_of("/.") != std::string::npos)
    return refuse("session", session, "'/' and '.' are not allowed");
  if (!trace::is_utf8(session))
    return refuse("session", trace::clean_text(session), "expected text in UTF-8");
  if (!wire::valid_session_name(session))
    return refuse("session", session, "control characters are not allowed");
  if (const Done done = check_devices(devices); !done) return done;
  if (read_only_asked && access_mode_given && rnbd::is_writable(access_mode))
    return refuse("access_mode", wire::rnbd::to_string(access_mode),
                  "nbdkit -r makes the device read-only; remove one of the two");
  if (read_only_asked) access_mode = wire::rnbd::AccessMode::read_only;
  if (!reconnect_min_given) protocol.reconnect_min = std::min(protocol.reconnect_min, protocol.reconnect_max);
  if (protocol.reconnect_min > protocol.reconnect_max)
    return tl::unexpected<std::string>("reconnect_min is longer than reconnect_max");
  if (const Done done = check_company(*this); !done) return done;
  tls::Credentials& files = fabric.tls.credentials;
  for (std::string* file : {&files.keys, &files.cert, &files.key, &files.ca, &files.crl, &fabric.auth.keys})
    *file = absolute(*file, working_directory);
  trace = absolute(trace, working_directory);
  trace_dump = absolute(trace_dump, working_directory);
  directory = working_directory;
  status = absolute(status, working_directory);
  if (control != "auto") control = absolute(control, working_directory);
  return check_outputs(*this);
}

}  // namespace rtrs::plugin
