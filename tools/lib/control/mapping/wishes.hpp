// What is to be mapped: sessions with their paths, and the devices of each. Values, and which of them are
// taken.
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
inline constexpr std::size_t kMostDevices = rnbd::kMaxClientDevices;  // of a session
// Bytes. The name is part of the names of files and sockets.
inline constexpr std::size_t kMostSessionName = 48;
inline constexpr std::size_t kMostDeviceName = 254;

struct DeviceWish {
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
  bool operator==(const DeviceWish&) const = default;
};

struct SessionWish {
  // At the server: a name that valid_session_name() accepts. Empty: the key of the session in `Wishes`.
  std::string name;
  std::vector<std::string> paths;  // "[SRC@]DST", 1 to kMaxPaths
  std::uint16_t port = 1234;       // of the server, for paths without one
  std::string fabric = "tcp";      // tcp, libfabric or verbs
  Credentials credentials;         // none: those that urtrs-mapd has for all
  std::map<std::string, DeviceWish> devices;
  bool operator==(const SessionWish&) const = default;
};

using Wishes = std::map<std::string, SessionWish>;  // by the name that users of this host give

struct Refusal {
  int error = 0;         // Linux errno, positive
  std::string why;       // a sentence; names of others are quoted as they are, and may need printable()
  std::string member{};  // of the session, that is wrong; empty: none by itself
};

// Nothing: it is taken. A session has 1 to 48 of A-Z a-z 0-9 _ - and @, a device 1 to 254 bytes of UTF-8
// without control characters.
std::optional<Refusal> check_session_name(std::string_view name);
std::optional<Refusal> check_device_name(std::string_view name);
// Name at the server, paths, port, fabric and credentials, whose files are not looked at.
std::optional<Refusal> check_session(const SessionWish&);
// Everything, and how many there are.
std::optional<Refusal> check(const Wishes&);

// "ro", "rw" or "migration".
std::optional<wire::rnbd::AccessMode> parse_mode(std::string_view text);

// The name on this host of its session with a server, "HOST@SERVER", with _ for dots and - for colons. One
// that is too long, or has other characters, ends with a sum of what it was made of.
std::string session_name(std::string_view host, std::string_view server);

// Index of a path in SessionWish::paths; two spellings of an address are equal.
std::optional<std::size_t> find_path(const SessionWish&, std::string_view path);

// Whether both sessions go over the same paths, in whatever order and spelling.
bool same_paths(const SessionWish&, const SessionWish&);
// Empty where they do; else what differs in `there`, as the end of a sentence about it.
std::string other_than(const SessionWish& asked, const SessionWish& there);

}  // namespace rtrs::mapping
