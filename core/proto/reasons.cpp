#include "core/proto/reasons.hpp"

#include <array>

#include "core/proto/limits.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

namespace {

using namespace wire::linux_errno;
using Kind = ReasonKind;

struct Row {
  Reason reason;
  ReasonText text;
};

constexpr const char* kNothing = "nothing: this was requested";
constexpr const char* kWait = "nothing: the client retries automatically";
constexpr const char* kNetwork =
    "check the network between the two addresses for packet loss, cables, switches and firewalls, and check "
    "whether the peer hangs";
constexpr const char* kPeerBug =
    "compare the versions of both ends; a trace (urtrs-replay) shows the message";
constexpr const char* kLimits =
    "close unused sessions, or raise max_sessions or max_host_sessions of urtrsd; urtrs limits shows the "
    "settings and their use";
// Two of the sentences below contain these numbers.
static_assert(kMaxPaths == 128 && kMaxCons == 4096);

constexpr std::array<Row, kReasonCount> kTable{{
    {Reason::none, {"none", "no reason", "", 0, Kind::wanted}},
    {Reason::requested, {"requested", "requested by an operator", kNothing, kEconnreset, Kind::wanted}},
    {Reason::session_closed, {"session_closed", "the session is closed", kNothing, kEshutdown, Kind::wanted}},
    {Reason::path_removed, {"path_removed", "the path was removed", kNothing, kEshutdown, Kind::wanted}},
    {Reason::address_unresolved,
     {"address_unresolved", "no route to the address",
      "check the routes of this host (ip route get ADDRESS), and that the link to the address is up",
      kEhostunreach, Kind::broken}},
    {Reason::connect_refused,
     {"connect_refused", "connection refused",
      "check that the server is running and that address and port are correct", kEconnrefused, Kind::broken}},
    {Reason::connect_timeout,
     {"connect_timeout", "no answer to the connect request",
      "check the address, that an RTRS server listens on it, and that firewalls allow its port", kEtimedout,
      Kind::broken}},
    {Reason::rejected,
     {"rejected", "rejected by the server", "see the server's log for the reason", kEconnrefused,
      Kind::refused}},
    {Reason::rejected_busy,
     {"rejected_busy", "the server is still closing the previous connection of this path", kWait, kEbusy,
      Kind::ordinary}},
    {Reason::bad_conn_rsp,
     {"bad_conn_rsp", "the answer to the connect request is not a valid RTRS message",
      "check that an RTRS server listens on this address and port, that both ends use the same fabric (tcp, "
      "libfabric, verbs), and the version of the server",
      kEconnreset, Kind::broken}},
    {Reason::info_timeout,
     {"info_timeout", "the server did not complete the path in time",
      "see the server's log: the session name may belong to another client; otherwise check the load of the "
      "server",
      kEtimedout, Kind::broken}},
    {Reason::bad_info_rsp,
     {"bad_info_rsp", "the server sent an invalid description of its buffers", kPeerBug, kEconnreset,
      Kind::broken}},
    {Reason::depth_changed,
     {"depth_changed", "the queue depth or chunk size of the server changed",
      "restore sess_queue_depth and max_chunk_size of the server, or close the session and open a new one",
      kEinval, Kind::refused}},
    {Reason::heartbeat_lost,
     {"heartbeat_lost", "nothing received for the dead-peer time", kNetwork, kEtimedout, Kind::broken}},
    {Reason::peer_closed,
     {"peer_closed", "disconnected by the peer",
      "see the peer's log for the reason, unless the peer was stopped", kEconnreset, Kind::ordinary}},
    {Reason::transport_error, {"transport_error", "the transport failed", kNetwork, kEio, Kind::broken}},
    {Reason::post_failed,
     {"post_failed", "the fabric rejected a work request",
      "check the kernel log and the state of the RDMA device", kEio, Kind::broken}},
    {Reason::protocol_violation,
     {"protocol_violation", "the peer violated the protocol", kPeerBug, kEconnreset, Kind::broken}},
    {Reason::handshake_timeout,
     {"handshake_timeout", "the client did not complete the path in time", kNetwork, kEtimedout,
      Kind::broken}},
    {Reason::superseded,
     {"superseded", "the client connected this path again", kWait, kEconnaborted, Kind::ordinary}},
    {Reason::fenced,
     {"fenced", "the client requested over another path that this one be closed", kWait, kEconnaborted,
      Kind::ordinary}},
    {Reason::stale_attempt,
     {"stale_attempt", "the connect request belongs to an older attempt", kWait, kEconnreset,
      Kind::ordinary}},
    {Reason::duplicate_connection,
     {"duplicate_connection", "the path already has this connection", kWait, kEconnreset, Kind::ordinary}},
    {Reason::duplicate_address,
     {"duplicate_address", "another path of the session has the same two addresses",
      "give each path of the client different addresses", kEexist, Kind::refused}},
    {Reason::unknown_session,
     {"unknown_session", "the session of this path does not exist",
      "nothing if the server was restarted: the client opens the session again; otherwise connect a first "
      "path",
      kEnxio, Kind::ordinary}},
    {Reason::too_many_paths,
     {"too_many_paths", "the session has 128 paths, the maximum of the protocol",
      "configure fewer paths at the client", kEconnreset, Kind::refused}},
    {Reason::too_many_sessions,
     {"too_many_sessions", "max_sessions or max_host_sessions is reached", kLimits, kEnomem, Kind::refused}},
    {Reason::too_many_connections,
     {"too_many_connections", "the path has more than 4096 connections, the maximum of the protocol",
      "configure fewer connections for each path at the client", kEconnreset, Kind::refused}},
    {Reason::name_refused,
     {"name_refused", "the session name is malformed or belongs to another session",
      "give each client a different session name; a client that disappeared keeps its name for the dead-peer "
      "time",
      kEperm, Kind::refused}},
    {Reason::attempts_exhausted,
     {"attempts_exhausted", "all reconnect attempts failed",
      "fix the cause of the failures, then reconnect the path, or raise max_reconnect_attempts", kEtimedout,
      Kind::broken}},
    {Reason::no_resources,
     {"no_resources", "out of memory or of fabric resources",
      "raise connection_memory_mb of urtrsd and the limits of locked memory and file descriptors (ulimit -l, "
      "ulimit -n), or lower sess_queue_depth and max_sessions; urtrs limits shows the settings and their use",
      kEnomem, Kind::broken}},
    {Reason::fabric_gone,
     {"fabric_gone", "the RDMA device was removed", "check the kernel log for the removal of the device",
      kEnodev, Kind::broken}},
    {Reason::other_path_leads,
     {"other_path_leads", "another path creates the session; this path joins it afterwards", kWait, kEalready,
      Kind::ordinary}},
    {Reason::connection_silent,
     {"connection_silent", "one connection delivered nothing for the dead-peer time",
      "compare the MTU of both hosts and of the switches between them, because small packets may pass where "
      "large ones are dropped; then check firewalls and whether the peer hangs",
      kEtimedout, Kind::broken}},
    {Reason::request_timeout,
     {"request_timeout", "a request was not answered in time",
      "check the storage of the server, or raise request_timeout", kEtimedout, Kind::broken}},
    {Reason::name_unresolved,
     {"name_unresolved", "the name or address does not resolve to a host",
      "check the spelling and the output of getent ahosts NAME", kEhostunreach, Kind::broken}},
    {Reason::source_unavailable,
     {"source_unavailable", "the source address does not belong to this host",
      "use an address of this host (see ip address) of the same family as the server's address, or omit the "
      "source",
      kEaddrnotavail, Kind::broken}},
    {Reason::unanswered,
     {"unanswered", "the connection ended before the connect request was answered",
      "check that an RTRS server listens on this address and port, that both ends use the same fabric (tcp, "
      "libfabric, verbs) and both or neither use tls, and whether the server exited",
      kEconnreset, Kind::broken}},
    {Reason::tls_failed,
     {"tls_failed", "TLS: one end rejected the other",
      "see the logs of both ends for the reason; compare tls, keys and certificates", kEacces,
      Kind::refused}},
    {Reason::other_identity,
     {"other_identity", "the session belongs to a client with another identity",
      "use the same key or certificate for all paths of a session", kEperm, Kind::refused}},
    {Reason::not_allowed,
     {"not_allowed", "no access rule of the server admits the client",
      "add its address, identity or session name to the allow lists of the server", kEacces, Kind::refused}},
    {Reason::challenged,
     {"challenged", "the server requests a proof of the shared key", kWait, kEacces, Kind::ordinary}},
    {Reason::key_refused,
     {"key_refused", "one end did not prove that it has the shared key",
      "give both ends the same line in their key files (auth_keys, --auth-keys), or no key at both ends",
      kEacces, Kind::refused}},
}};

// Compares character by character, because the code in this folder calls no C library function.
bool is_word(std::string_view text, const char* word) noexcept {
  for (const char c : text) {
    if (*word == '\0' || *word != c) return false;
    ++word;
  }
  return *word == '\0';
}

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<std::size_t>(kTable[i].reason) != i) return false;
  return true;
}
static_assert(is_in_order(), "a row for each reason, in the order of the enumeration");

constexpr ReasonText kUnknown{"unknown", "this version does not have this reason",
                              "compare the versions of both ends", kEio, Kind::broken};

// Hint for a client whose connect request was rejected with EACCES. On tcp the TLS handshake precedes the
// connect request, so only an allow list rejects it.
const char* hint_of_denial(std::string_view fabric) noexcept {
  if (is_word(fabric, "tcp"))
    return "the allow lists of the server exclude this client: add its address or identity to them, or use "
           "the key (tls_keys) or certificate (tls_cert) of an allowed identity; the server's log shows the "
           "address and identity of this client";
  if (fabric.empty())
    return "the allow lists of the server exclude this client, or on verbs and libfabric it requires a "
           "shared key (auth_keys or --auth-keys): its log says which";
  return "the server requires a shared key, or its allow lists exclude this client: its log says which; pass "
         "a key with auth_keys or --auth-keys";
}

}  // namespace

const ReasonText& text_of(Reason reason) noexcept {
  const auto index = static_cast<std::size_t>(reason);
  return index < kTable.size() ? kTable[index].text : kUnknown;
}

ReasonText words_of(Reason reason, std::uint16_t peer_errno, std::string_view fabric) noexcept {
  ReasonText text = text_of(reason);
  if (reason == Reason::key_refused)
    text.hint =
        "give both ends the same line in their key files (auth_keys, --auth-keys), or no key at both ends; "
        "see the server's log for the key that it refused";
  if (reason == Reason::name_refused) {
    text.sentence = "the server closed the connection after it received the session name";
    text.hint =
        "another client has this name, or allow_sessions of the server excludes it: the server's log says "
        "which, with the address of the other client; give this client another session name. The name of a "
        "client that disappeared is free again after the dead-peer time of the server";
  }
  if (reason != Reason::rejected) return text;
  if (peer_errno == kEacces) text.hint = hint_of_denial(fabric);
  if (peer_errno == kEnomem) {
    text.sentence = "the server reached its limit of sessions, connections or memory";
    text.hint =
        "close unused sessions, or raise max_sessions, max_host_sessions or connection_memory_mb of urtrsd: "
        "its log says which, and urtrs limits on its host shows the settings and their use";
  }
  if (peer_errno == kEexist) {
    text.sentence = text_of(Reason::duplicate_address).sentence;
    text.hint = text_of(Reason::duplicate_address).hint;
  }
  return text;
}

const ReasonText* text_of(std::string_view code) noexcept {
  for (const Row& row : kTable)
    if (is_word(code, row.text.code)) return &row.text;
  return nullptr;
}

const char* to_string(ReasonKind kind) noexcept {
  switch (kind) {
    case ReasonKind::wanted:
      return "wanted";
    case ReasonKind::ordinary:
      return "ordinary";
    case ReasonKind::refused:
      return "refused";
    case ReasonKind::broken:
      return "broken";
  }
  return "unknown";
}

const char* to_string(Reason reason) noexcept {
  return text_of(reason).code;
}

}  // namespace rtrs
