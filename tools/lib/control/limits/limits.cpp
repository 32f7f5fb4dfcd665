#include "tools/lib/control/limits/limits.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "backends/platform/address/address_list.hpp"
#include "backends/platform/tls/identity.hpp"
#include "backends/platform/tls/keys_file.hpp"
#include "core/driver/client.hpp"
#include "core/proto/config.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/server_devices.hpp"
#include "core/tcp/tcp_options.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/control/limits/urtrsd.hpp"
#include "tools/lib/control/mapping/desired_state.hpp"
#include "tools/lib/control/rpc/server.hpp"

namespace rtrs::tools {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::uint32_t kMaxMebibytes = 1U << 20;
// Maximum number of paths in docs/protocol.md, section 1.
constexpr std::uint64_t kProtocolPaths = 128;
static_assert(kMaxPaths == kProtocolPaths && kMaxCons == wire::kMaxCidNum);

constexpr const char* kFixed = "";
constexpr const char* kDescriptors = "`LimitNOFILE=` of systemd, `ulimit -n`";

using Rows = std::vector<Limit>;

Limit fixed(const char* name, const char* what, std::uint64_t value, const char* unit, const char* beyond,
            std::uint64_t protocol = 0) {
  return {name, what, value, value, unit, protocol, kFixed, beyond};
}

Rows of_sessions() {
  const ServerConfig server;
  return {
      fixed("paths", "paths of one session", kMaxPaths, "",
            "the connect request is refused: `too_many_paths`, ECONNRESET (104)", kProtocolPaths),
      fixed("connections", "connections of one path", kMaxCons, "",
            "the connect request is refused, ECONNRESET (104)", wire::kMaxCidNum),
      {"requests", "requests in flight of one session", server.queue_depth, kMaxPermits, "",
       wire::kMaxQueueDepth, "`sess_queue_depth` of urtrsd, `queue_depth=` of a client",
       "requests wait at the client"},
      {"request_bytes", "buffer of one request, with 4096 bytes of headers", server.chunk_size, 1U << 28,
       "bytes", 0, "`max_chunk_size` of urtrsd", "a block device sends a larger IO in pieces"},
      {"queued_requests", "queued requests of one client session", ClientOptions{}.max_queued, UINT32_MAX, "",
       0, "`max_queued` of `ClientOptions`", "the request is refused: `queue_full`"},
      fixed("header_bytes", "header of an application in one request", kMaxUserHeader, "bytes",
            "the request is refused: `too_large`"),
      fixed("session_name_bytes", "name of a session", wire::kMaxNameBytes, "bytes",
            "the path is refused: `name_refused`", wire::kMaxNameBytes),
      fixed("identity_bytes", "identity of a key or certificate", tls::kMaxIdentityBytes, "bytes",
            "the file of keys, or the certificate, is refused"),
      fixed("devices", "devices that one session has open at urtrsd", rnbd::kMaxServerDevices, "",
            "the OPEN is answered with ENOSPC (28)"),
      fixed("storage_requests", "requests of one session that urtrsd has not answered",
            rnbd::kMaxServerOperations, "", "the request is answered with EBUSY (16)"),
      fixed("addresses", "addresses of one host name", net::kMaxAddresses, "", "the others are not tried"),
  };
}

Rows of_servers() {
  const ServerConfig server;
  const tcp::TcpOptions tcp;
  return {
      {"sessions", "sessions of urtrsd", server.max_sessions, kMaxSessions, "", 0, "`max_sessions`",
       "the connect request is refused: `too_many_sessions`, ENOMEM (12)"},
      {"host_sessions", "sessions of one client address", host_sessions_of(server), kMaxSessions, "", 0,
       "`max_host_sessions`", "the connect request is refused: `too_many_sessions`, ENOMEM (12)"},
      {"half_open", "sessions of one client address without INFO_REQ", half_open_of(server), kMaxSessions, "",
       0, "`max_half_open`", "the oldest of them is closed"},
      {"connection_memory", "memory for the connections of the fabric tcp", tcp.max_memory / kMebibyte,
       kMaxMebibytes, "MiB", 0, "`connection_memory_mb`",
       "the connect request is refused: `no_resources`, ENOMEM (12)"},
      {"server_connections", "connections of the fabric tcp: half of the file descriptors", 0, 0, "", 0,
       kDescriptors, "the connect request is refused: `no_resources`, ENOMEM (12)"},
      {"files", "files and block devices that clients have open: a quarter of the file descriptors", 0, 0, "",
       0, kDescriptors, "the OPEN is answered with EMFILE (24)"},
      fixed("connect_requests", "TCP connections without a whole connect request", tcp.max_handshakes, "",
            "the oldest connection of the address with the most connections is closed"),
      fixed("host_connect_requests", "of these, those of one client address", tcp.max_handshakes_per_host, "",
            "its oldest connection is closed"),
      fixed("storage_operations", "IOs in progress in storage", kStorageOperations, "", "IOs wait"),
      fixed("storage_threads", "of these, those without io_uring", kStorageThreads, "", "IOs wait"),
      fixed("config_bytes", "file of configuration", kMaxConfigFile, "bytes", "the file is refused"),
      fixed("config_line_bytes", "line of this file", kMaxConfigLine, "bytes", "the file is refused"),
      fixed("config_key_parts", "parts of a key in this file", kMaxConfigKeyParts, "", "the file is refused"),
  };
}

Rows of_hosts() {
  return {
      fixed("client_devices", "devices of one client session, as nbdkit-urtrs has it",
            rnbd::kMaxClientDevices, "", "the device is refused, ENOSPC (28)"),
      fixed("mapped_sessions", "sessions that urtrs-mapd keeps", mapping::kMostSessions, "",
            "`urtrs map` is refused, ENOSPC (28)"),
      fixed("mapped_devices", "devices of one of these sessions", mapping::kMaxDevices, "",
            "`urtrs map` is refused, ENOSPC (28)"),
      fixed("mapped_name_bytes", "name of one of these sessions", mapping::kMaxSessionName, "bytes",
            "`urtrs map` is refused, EINVAL (22)"),
      fixed("control_connections", "connections to one control socket", rpc::ServerOptions{}.most_connections,
            "", "the connection that is idle for longest is closed"),
      fixed("control_line_bytes", "line sent to a control socket", rpc::kMaxLineBytes, "bytes",
            "the line is refused"),
      fixed("keys", "keys in a file of keys", tls::kMaxKeys, "", "the file is refused"),
      fixed("key_file_bytes", "file of keys", tls::kMaxKeysFileBytes, "bytes", "the file is refused"),
      fixed("pem_file_bytes", "file of certificates or of a private key", tls::kMaxPemBytes, "bytes",
            "the file is refused"),
  };
}

}  // namespace

std::span<const Limit> limits() {
  static const Rows all = [] {
    Rows rows = of_sessions();
    for (const Rows& more : {of_servers(), of_hosts()}) rows.insert(rows.end(), more.begin(), more.end());
    return rows;
  }();
  return all;
}

const Limit* find_limit(std::string_view name) {
  const auto all = limits();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Limit& one) { return name == one.name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace rtrs::tools
