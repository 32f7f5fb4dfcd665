// Desired state of urtrs-mapd: the sessions to keep connected, with their paths, and the devices to map.
// Contains data types and checks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/rnbd/client_devices.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/control/mapping/credentials.hpp"

namespace rtrs::mapping {

inline constexpr std::size_t kMostSessions = 64;
inline constexpr std::size_t kMaxDevices = rnbd::kMaxClientDevices;  // maximum number of devices per session
// Maximum length of names in bytes. The session name is part of the names of files and sockets.
inline constexpr std::size_t kMaxSessionName = 48;
inline constexpr std::size_t kMaxDeviceName = 254;

struct DeviceWish {
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
  bool operator==(const DeviceWish&) const = default;
};

struct SessionWish {
  // Session name at the server, accepted by valid_session_name(). If empty, the key of the session in
  // `Wishes` is used.
  std::string name;
  std::vector<std::string> paths;  // "[SRC@]DST", 1 to kMaxPaths
  std::uint16_t port = 1234;       // port of the server, for paths without a port
  std::string fabric = "tcp";      // tcp, libfabric or verbs
  Credentials credentials;         // empty: the default credentials of urtrs-mapd
  std::map<std::string, DeviceWish> devices;
  bool operator==(const SessionWish&) const = default;
};

using Wishes = std::map<std::string, SessionWish>;  // key: name of the session on this host

struct Refusal {
  int error = 0;    // Linux errno, positive
  std::string why;  // human-readable; quotes untrusted names unchanged, so use printable() to show it
  // Member of the session that is invalid; empty if the error does not concern a single member.
  std::string member{};
};

// The check functions return nullopt if the argument is valid. A session name has 1 to 48 characters A-Z a-z
// 0-9 _ - @ and does not begin with '-'. A device name has 1 to 254 bytes of UTF-8 without control
// characters.
std::optional<Refusal> check_session_name(std::string_view name);
std::optional<Refusal> check_device_name(std::string_view name);
// Checks the session name at the server, the paths, port, fabric and credentials. Does not read the
// credential files.
std::optional<Refusal> check_session(const SessionWish&);
// Checks all sessions and devices, and their numbers.
std::optional<Refusal> check(const Wishes&);

// Accepts "ro", "rw" and "migration".
std::optional<wire::rnbd::AccessMode> parse_mode(std::string_view text);

// Returns the default name of a session on this host: "HOST@SERVER", with _ for dots and - for colons. A name
// that would be too long or have other characters is cut, and ends with a checksum of `host` and `server`.
std::string session_name(std::string_view host, std::string_view server);

// Returns the index of the path in SessionWish::paths. Different spellings of an address count as equal.
std::optional<std::size_t> find_path(const SessionWish&, std::string_view path);

// Returns true if both sessions have the same fabric and the same paths, in any order and spelling.
bool same_paths(const SessionWish&, const SessionWish&);
// Returns an empty string if same_paths() is true. Otherwise returns the end of a sentence about `there` that
// describes the difference.
std::string describe_difference(const SessionWish& asked, const SessionWish& there);

}  // namespace rtrs::mapping
