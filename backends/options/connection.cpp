#include "backends/options/connection.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <vector>

#include "core/proto/limits.hpp"

namespace rtrs::options {
namespace {

using C = const Connection&;
using V = const Value&;
using Entry = Option<Connection>;

constexpr std::array kTable{
    Entry{{"fabric", words("tcp|libfabric|verbs"), "tcp",
           "transport, the same at both ends; verbs is RDMA hardware and soft-RoCE"},
          [](C c) { return &c.fabric.fabric; }},
    Entry{{"provider", text("NAME"), "tcp", "libfabric: provider"}, [](C c) { return &c.fabric.provider; }},
    Entry{{"crc", toggle(), "off", "tcp: checksum after each frame; enabled if either end requests it"},
          [](C c) { return &c.fabric.crc; }},
    Entry{{"rdma_device", text("NAME"), "", "verbs: device; by default the one that has the address"},
          [](C c) { return &c.fabric.device; }},
    Entry{{"rdma_retry_count", number(0, 7), "6",
           "verbs: number of retransmissions before the connection is lost; 7 means no limit on "
           "soft-RoCE"},
          [](C c) { return &c.fabric.retry_count; }},
    Entry{{"rdma_ack_timeout", number(0, 31), "0",
           "verbs: retransmit after 4.096 us x 2^N; 0: negotiated, usually 17 (0.5 s)"},
          [](C c) { return &c.fabric.ack_timeout; }},
    Entry{{"rdma_tos", number(0, 255), "0",
           "verbs: type of service of the packets of both ends (DSCP x 4); 0: the value of the client, else "
           "the default of the host"},
          [](C c) { return &c.fabric.tos; }},
    Entry{{"rdma_relaxed_ordering", toggle(), "off",
           "verbs: the device may write to memory in any order before the completion; faster on "
           "some hosts"},
          [](C c) { return &c.fabric.relaxed_ordering; }},
    Entry{{"rdma_thread_domains", toggle(), "off",
           "verbs: queue pairs take no locks if the device has thread domains, as mlx5 does"},
          [](C c) { return &c.fabric.thread_domains; }},
    Entry{{"rdma_post", words("auto|wr|send"), "send",
           "verbs: auto and wr post with ibv_wr_*() if the provider library supports it, else with "
           "ibv_post_send(), as send does; wr warns about the fallback"},
          [](C c) { return &c.fabric.post; }},
    Entry{{"rdma_invalidation", words("auto|windows|registration"), "auto",
           "verbs: how a key is invalidated if each IO has a separate key", Side::server},
          [](C c) { return &c.fabric.invalidation; }},
    Entry{{"tls", words("off|allow|require"), "",
           "tcp: TLS 1.3. allow is for servers and accepts clients without TLS too; a client never falls "
           "back to plain text. By default require if tls_keys or tls_cert is given, else off"},
          [](C c) { return &c.fabric.tls.mode; }},
    Entry{{"tls_keys", file(), "",
           "tcp: pre-shared keys, IDENTITY:HEX per line (urtrs key new), not readable by other users. Key "
           "files "
           "are read again if they changed: before a path connects, by urtrsd on SIGHUP"},
          [](C c) { return &c.fabric.tls.credentials.keys; }},
    Entry{{"tls_identity", text("NAME"), "", "key of tls_keys to use if the file has several", Side::client},
          [](C c) { return &c.fabric.tls.credentials.identity; }},
    Entry{{"tls_cert", file(), "", "tcp: certificate of this end with the chain to its CA, PEM"},
          [](C c) { return &c.fabric.tls.credentials.cert; }},
    Entry{{"tls_key", file(), "", "private key of tls_cert, PEM; must not be readable by other users"},
          [](C c) { return &c.fabric.tls.credentials.key; }},
    Entry{{"tls_ca", file(), "",
           "CA of the certificates of peers, PEM. A server knows a client by the common name of its "
           "certificate"},
          [](C c) { return &c.fabric.tls.credentials.ca; }},
    Entry{{"tls_crl", file(), "", "revocation list of tls_ca, PEM"},
          [](C c) { return &c.fabric.tls.credentials.crl; }},
    Entry{{"tls_server_name", text("NAME"), "",
           "name in the server's certificate; by default the address of the path", Side::client},
          [](C c) { return &c.fabric.tls.credentials.server_name; }},
    Entry{{"tls_kernel", toggle(), "off", "tcp: let the kernel encrypt if it can"},
          [](C c) { return &c.fabric.tls.credentials.kernel; }},
    Entry{{"auth", words("off|allow|require"), "",
           "verbs, libfabric: proof of a shared key. allow accepts clients without a proof too, such as "
           "those of the kernel. By default require if auth_keys is given, else off",
           Side::server},
          [](C c) { return &c.fabric.auth.mode; }},
    Entry{{"auth_keys", file(), "",
           "verbs, libfabric: keys that both ends prove to each other, in the format of tls_keys; data is "
           "not encrypted. A client never connects without the proof of the server"},
          [](C c) { return &c.fabric.auth.keys; }},
    Entry{
        {"auth_identity", text("NAME"), "", "key of auth_keys to use if the file has several", Side::client},
        [](C c) { return &c.fabric.auth.identity; }},
    Entry{{"policy",
           words("round-robin|min-inflight|min-latency|rr|mi|ml",
                 "rr (round-robin), mi (min-inflight) or ml (min-latency)"),
           "min-inflight",
           "path of a request: round-robin, fewest requests in flight, or lowest heartbeat latency",
           Side::client},
          [](C c, V v) {
            c.client->policy = v.text.starts_with("r")                      ? MultipathPolicy::round_robin
                               : v.text == "mi" || v.text == "min-inflight" ? MultipathPolicy::min_inflight
                                                                            : MultipathPolicy::min_latency;
          }},
    Entry{{"connections", number(1, kMaxCons - 1), "2", "IO connections per path", Side::client},
          [](C c, V v) { c.client->con_num = static_cast<std::uint16_t>(v.number + 1); }},
    Entry{
        {"queue_depth", number(1, kMaxPermits), "512", "maximum number of requests in flight", Side::client},
        [](C c, V v) {
          c.client->max_depth = static_cast<std::uint16_t>(v.number);
          // Two entries per request; at least 64, so that the session's own messages have room at depth 1.
          c.client->send_depth = static_cast<std::uint16_t>(std::max<std::int64_t>(64, 2 * v.number));
        }},
    Entry{{"heartbeat_interval", interval(milliseconds(10)), "5s",
           "time between two heartbeats of this end, 10ms to 1h"},
          [](C c) { return &c.heartbeat.interval; }},
    Entry{{"heartbeat_missed", number(1, 1000), "5",
           "missed heartbeats before a path is lost, which takes N + 1 to N + 2 heartbeat intervals of "
           "silence"},
          [](C c) { return &c.heartbeat.missed_max; }},
    Entry{{"reconnect_min", interval(milliseconds(1)), "500ms",
           "shortest pause between connection attempts, 1ms to 1h; a shorter reconnect_max lowers it",
           Side::client},
          [](C c) { return &c.client->reconnect_min; }},
    Entry{{"reconnect_max", interval(milliseconds(1)), "30s",
           "longest pause between connection attempts, 1ms to 1h", Side::client},
          [](C c) { return &c.client->reconnect_max; }},
    Entry{{"reconnect_jitter", interval(milliseconds(1)), "2s",
           "upper bound of the random time added to a pause, at most the pause itself; 1ms to 1h",
           Side::client},
          [](C c) { return &c.client->reconnect_jitter; }},
    Entry{{"max_reconnect_attempts", number(-1, std::numeric_limits<std::int32_t>::max()), "-1",
           "failed attempts in a row before a path is given up; -1: no limit, 0: no reconnect", Side::client},
          [](C c) { return &c.client->max_reconnect_attempts; }},
    Entry{{"queue_timeout", time_or_never(), "2m",
           "how long a request waits without a connected path, or while the server does not open the device. "
           "A refusal with EPERM, EROFS or EINVAL fails it at once",
           Side::client},
          [](C c) { return &c.client->queue_timeout; }},
    Entry{{"request_timeout", time_or_never(), "never",
           "how long the server may take to answer a request. A later answer closes the path; the request "
           "fails with ETIMEDOUT and may still execute. A request that loses its path later than both "
           "timeouts together after it was sent fails too",
           Side::client},
          [](C c) { return &c.client->request_timeout; }},
    Entry{{"extensions", toggle(), "on",
           "use the fence, generations, the probe, keys_stay and data_with_answer with peers that have them. "
           "off: after a failover a delayed copy of an old write may overwrite newer data, as with a kernel "
           "server"},
          [](C c, V v) { c.extensions = v.on ? c.all_extensions : wire::Extensions::none; },
          [](C c) -> std::string { return c.extensions == wire::Extensions::none ? "off" : "on"; }},
    Entry{{"offer_invalidation", toggle(), "off",
           "use one-time keys for READs if the fabric supports invalidation", Side::client},
          [](C c) { return &c.client->offer_invalidation; }},
};

std::vector<Entry> all_but(Side side) {
  std::vector<Entry> rows;
  std::copy_if(kTable.begin(), kTable.end(), std::back_inserter(rows),
               [side](const Entry& row) { return row.side != side; });
  return rows;
}

}  // namespace

std::span<const Option<Connection>> all_options() {
  return kTable;
}

std::span<const Option<Connection>> connection_options() {
  static const std::vector<Entry> rows = all_but(Side::server);
  return rows;
}

std::span<const Option<Connection>> server_options() {
  static const std::vector<Entry> rows = all_but(Side::client);
  return rows;
}

}  // namespace rtrs::options
