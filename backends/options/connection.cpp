#include "backends/options/connection.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "core/proto/limits.hpp"

namespace rtrs::options {
namespace {

using C = const Connection&;
using V = const Value&;

constexpr std::array kTable{
    Option<Connection>{{"fabric", words("tcp|libfabric|verbs"), "tcp",
                        "transport, the same at both ends; verbs is RDMA hardware and soft-RoCE"},
                       [](C c, V v) { c.fabric.fabric = v.text; }},
    Option<Connection>{{"provider", text("NAME"), "tcp", "libfabric: provider"},
                       [](C c, V v) { c.fabric.provider = v.text; }},
    Option<Connection>{
        {"crc", toggle(), "off", "tcp: checksum behind each frame; one end that requests it is enough"},
        [](C c, V v) { c.fabric.crc = v.on; }},
    Option<Connection>{
        {"rdma_device", text("NAME"), "", "verbs: device; by default the one that has the address"},
        [](C c, V v) { c.fabric.device = v.text; }},
    Option<Connection>{{"rdma_retry_count", number(0, 7), "6",
                        "verbs: number of retransmissions before the connection is lost; 7 means no limit on "
                        "soft-RoCE"},
                       [](C c, V v) { c.fabric.retry_count = static_cast<unsigned>(v.number); }},
    Option<Connection>{{"rdma_ack_timeout", number(0, 31), "0",
                        "verbs: retransmit after 4.096 us x 2^N; 0: negotiated, usually 17 (0.5 s)"},
                       [](C c, V v) { c.fabric.ack_timeout = static_cast<unsigned>(v.number); }},
    Option<Connection>{
        {"rdma_tos", number(0, 255), "0",
         "verbs: type of service of the packets of both ends (DSCP x 4); 0: default of the host"},
        [](C c, V v) { c.fabric.tos = static_cast<unsigned>(v.number); }},
    Option<Connection>{{"rdma_relaxed_ordering", toggle(), "off",
                        "verbs: the device may write to memory in any order before the completion; faster on "
                        "some hosts"},
                       [](C c, V v) { c.fabric.relaxed_ordering = v.on; }},
    Option<Connection>{{"rdma_thread_domains", toggle(), "off",
                        "verbs: queue pairs take no locks if the device has thread domains, as mlx5 does"},
                       [](C c, V v) { c.fabric.thread_domains = v.on; }},
    Option<Connection>{
        {"rdma_post", words("auto|wr|send"), "send",
         "verbs: auto and wr post with ibv_wr_*() if the provider library supports it, else with "
         "ibv_post_send(), as send does; wr warns about the fallback"},
        [](C c, V v) { c.fabric.post = v.text; }},
    Option<Connection>{
        {"tls", words("require|off"), "",
         "tcp: TLS towards the server; by default require if tls_keys or tls_cert is given, else "
         "off. A client never falls back to plain text"},
        [](C c, V v) { c.fabric.tls.mode = v.text; }},
    Option<Connection>{
        {"tls_keys", file(), "",
         "tcp: pre-shared keys, IDENTITY:HEX per line; must not be readable by other users. Files "
         "of TLS and auth_keys are read again before a path connects if they changed"},
        [](C c, V v) { c.fabric.tls.credentials.keys = v.text; }},
    Option<Connection>{{"tls_identity", text("NAME"), "", "key of tls_keys to use if the file has several"},
                       [](C c, V v) { c.fabric.tls.credentials.identity = v.text; }},
    Option<Connection>{{"tls_cert", file(), "", "tcp: certificate of this end, PEM"},
                       [](C c, V v) { c.fabric.tls.credentials.cert = v.text; }},
    Option<Connection>{{"tls_key", file(), "", "private key of tls_cert, PEM"},
                       [](C c, V v) { c.fabric.tls.credentials.key = v.text; }},
    Option<Connection>{{"tls_ca", file(), "", "CA of the server's certificate, PEM"},
                       [](C c, V v) { c.fabric.tls.credentials.ca = v.text; }},
    Option<Connection>{{"tls_crl", file(), "", "revocation list of tls_ca, PEM"},
                       [](C c, V v) { c.fabric.tls.credentials.crl = v.text; }},
    Option<Connection>{{"tls_server_name", text("NAME"), "",
                        "name in the server's certificate; by default the address of the path"},
                       [](C c, V v) { c.fabric.tls.credentials.server_name = v.text; }},
    Option<Connection>{{"tls_kernel", toggle(), "off", "tcp: let the kernel encrypt if it can"},
                       [](C c, V v) { c.fabric.tls.credentials.kernel = v.on; }},
    Option<Connection>{
        {"auth_keys", file(), "",
         "verbs, libfabric: keys that both ends prove to each other, in the format of tls_keys; "
         "data is not encrypted. A client never connects without the server's proof"},
        [](C c, V v) { c.fabric.auth.keys = v.text; }},
    Option<Connection>{{"auth_identity", text("NAME"), "", "key of auth_keys to use if the file has several"},
                       [](C c, V v) { c.fabric.auth.identity = v.text; }},
    Option<Connection>{{"connections", number(1, kMaxCons - 1), "2", "IO connections per path"},
                       [](C c, V v) { c.protocol.con_num = static_cast<std::uint16_t>(v.number + 1); }},
    Option<Connection>{{"queue_depth", number(1, kMaxPermits), "512", "maximum number of requests in flight"},
                       [](C c, V v) {
                         c.protocol.max_depth = static_cast<std::uint16_t>(v.number);
                         // Two entries per request, and room for the messages of the session at depth 1.
                         c.protocol.send_depth =
                             static_cast<std::uint16_t>(std::max<std::int64_t>(64, 2 * v.number));
                       }},
    Option<Connection>{{"heartbeat_interval", interval(milliseconds(10)), "5s",
                        "time between two heartbeats of this end, 10ms to 1h"},
                       [](C c, V v) { c.protocol.heartbeat.interval = v.time; }},
    Option<Connection>{
        {"heartbeat_missed", number(1, 1000), "5",
         "missed heartbeats before a path is lost, which takes N + 1 to N + 2 heartbeat intervals of "
         "silence"},
        [](C c, V v) { c.protocol.heartbeat.missed_max = static_cast<std::uint32_t>(v.number); }},
    Option<Connection>{
        {"reconnect_min", interval(milliseconds(1)), "500ms",
         "shortest pause between connection attempts, 1ms to 1h; a shorter reconnect_max lowers "
         "it"},
        [](C c, V v) { c.protocol.reconnect_min = v.time; }},
    Option<Connection>{{"reconnect_max", interval(milliseconds(1)), "30s",
                        "longest pause between connection attempts, 1ms to 1h"},
                       [](C c, V v) { c.protocol.reconnect_max = v.time; }},
    Option<Connection>{
        {"reconnect_jitter", interval(milliseconds(1)), "2s",
         "upper bound of the random time added to a pause, at most the pause itself; 1ms to 1h"},
        [](C c, V v) { c.protocol.reconnect_jitter = v.time; }},
    Option<Connection>{
        {"max_reconnect_attempts", number(-1, std::numeric_limits<std::int32_t>::max()), "-1",
         "failed attempts in a row before a path is given up; -1: no limit, 0: no reconnect"},
        [](C c, V v) { c.protocol.max_reconnect_attempts = static_cast<std::int32_t>(v.number); }},
    Option<Connection>{
        {"queue_timeout", time_or_never(), "2m",
         "how long a request waits without a connected path, or while the server does not open the "
         "device. A refusal with EPERM, EROFS or EINVAL fails it at once"},
        [](C c, V v) { c.protocol.queue_timeout = v.time; }},
    Option<Connection>{
        {"request_timeout", time_or_never(), "never",
         "how long the server may take to answer a request. A later answer closes the path; the "
         "request fails with ETIMEDOUT and may still execute. A request that loses its path later "
         "than both timeouts together after it was sent fails too"},
        [](C c, V v) { c.protocol.request_timeout = v.time; }},
    Option<Connection>{
        {"extensions", toggle(), "on",
         "request the fence, generations, the probe, keys_stay and data_with_answer. off: after a "
         "failover a delayed copy of an old write may overwrite newer data, as with a kernel "
         "server"},
        [](C c, V v) { c.protocol.extensions = v.on ? ClientConfig{}.extensions : wire::Extensions::none; }},
    Option<Connection>{{"offer_invalidation", toggle(), "off",
                        "use one-time keys for READs if the fabric supports invalidation"},
                       [](C c, V v) { c.protocol.offer_invalidation = v.on; }},
};

}  // namespace

std::span<const Option<Connection>> connection_options() {
  return kTable;
}

}  // namespace rtrs::options
