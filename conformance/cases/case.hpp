// A case: one rule of the protocol, and the check that a live peer follows it.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rtrs::conformance {

class ServerTester;
class ClientTester;

enum class Level : std::uint8_t {
  must,    // a peer that breaks the rule cannot interoperate or harms its peer
  should,  // required by the protocol, but peers interoperate without it
  quirk,   // behaviour of kernel peers that no rule requires; do not rely on it
};
enum class Role : std::uint8_t { server, client };  // role of the peer under test

const char* to_string(Level) noexcept;
const char* to_string(Role) noexcept;

struct Case {
  const char* id;      // "C012-connect-bad-magic"; the number never changes and is never reused
  const char* title;   // "group: what holds"
  const char* source;  // "protocol.md section 2.1"
  Level level = Level::must;
  bool slow = false;  // waits for heartbeats or other long deadlines
  void (*against_server)(ServerTester&) = nullptr;
  void (*against_client)(ClientTester&) = nullptr;

  Role role() const noexcept { return against_server != nullptr ? Role::server : Role::client; }
  std::string_view number() const noexcept { return std::string_view(id).substr(0, 4); }
};

// All cases against a peer of this role, sorted by number.
std::vector<const Case*> cases(Role);

// The cases of each source file.
std::span<const Case> connect_cases();
std::span<const Case> reconnect_cases();
std::span<const Case> info_cases();
std::span<const Case> request_cases();
std::span<const Case> bad_request_cases();
std::span<const Case> heartbeat_cases();
std::span<const Case> rnbd_message_cases();
std::span<const Case> rnbd_io_cases();
std::span<const Case> rnbd_write_cases();
std::span<const Case> client_handshake_cases();
std::span<const Case> client_traffic_cases();

}  // namespace rtrs::conformance
