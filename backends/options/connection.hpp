// Options of a connection: fabric, credentials and session. A new option is one row in connection.cpp.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "backends/options/option.hpp"
#include "backends/platform/tls/tls.hpp"
#include "core/proto/config.hpp"

namespace rtrs::options {

struct TlsChoice {
  // off, allow (servers: clients without TLS too) or require. Empty: require if credentials are given, else
  // off.
  std::string mode;
  tls::Credentials credentials;
  bool operator==(const TlsChoice&) const = default;
};

// Proof of a shared key on fabrics without TLS (core/keyed).
struct AuthChoice {
  std::string mode;      // off, allow or require; empty: require if keys are given, else off
  std::string keys;      // file of keys, one IDENTITY:HEX per line
  std::string identity;  // clients: the key to use; may be empty if the file has only one
  std::optional<std::uint32_t> checked_for{};  // see tls::Credentials::checked_for
  bool operator==(const AuthChoice&) const = default;
};

struct FabricOptions {
  std::string fabric = "tcp";
  std::string provider = "tcp";       // libfabric only
  bool crc = false;                   // tcp: requests a CRC-32C after each frame
  std::string device;                 // verbs: RDMA device; empty: the device that has the address
  unsigned retry_count = 6;           // verbs, 0 to 7
  std::string invalidation = "auto";  // verbs: auto, windows or registration; programs may set off
  unsigned ack_timeout = 0;           // verbs, 0 to 31; 0: negotiated while connecting
  unsigned tos = 0;                   // verbs, 0 to 255; 0: default of the host
  bool relaxed_ordering = false;      // verbs only
  bool thread_domains = false;        // verbs only
  std::string post = "send";          // verbs: auto, wr or send
  TlsChoice tls;                      // used by tcp only
  AuthChoice auth;                    // verbs and libfabric only
  bool operator==(const FabricOptions&) const = default;
};

// Settings of one end of a connection that its options can change.
struct Connection {
  FabricOptions& fabric;
  HeartbeatConfig& heartbeat;
  wire::Extensions& extensions;
  wire::Extensions all_extensions;  // extensions that `extensions = on` enables
  ClientConfig* client = nullptr;   // null for a server, which has no options of Side::client

  Connection(FabricOptions& options, ClientConfig& config)
      : fabric(options),
        heartbeat(config.heartbeat),
        extensions(config.extensions),
        all_extensions(ClientConfig{}.extensions),
        client(&config) {}
  Connection(FabricOptions& options, ServerConfig& config)
      : fabric(options),
        heartbeat(config.heartbeat),
        extensions(config.extensions),
        all_extensions(ServerConfig{}.extensions) {}
};

// Option of programs that connect. The port of a path takes precedence.
inline constexpr Row kServerPort{"port", number(1, 65535), "1234",
                                 "port of the server, for each path without one"};

std::span<const Option<Connection>> all_options();
std::span<const Option<Connection>> connection_options();  // all options except those of Side::server
std::span<const Option<Connection>> server_options();

}  // namespace rtrs::options
