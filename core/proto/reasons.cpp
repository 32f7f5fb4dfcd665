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

constexpr const char* kNothing = "nothing: this is as somebody wanted it";
constexpr const char* kWait = "nothing: the client tries again by itself";
constexpr const char* kNetwork =
    "look for lost packets, cables, switches and firewalls between the two addresses, and for a peer that "
    "hangs";
constexpr const char* kPeerBug =
    "compare the versions of both ends; a trace of urtrs-replay shows the message";
constexpr const char* kLimits =
    "end sessions that nobody needs, or raise max_sessions or max_host_sessions of urtrsd; urtrs limits "
    "shows "
    "what is set and used";
// Two sentences below contain these numbers.
static_assert(kMaxPaths == 128 && kMaxCons == 4096);

constexpr std::array<Row, kReasonCount> kTable{{
    {Reason::none, {"none", "no reason", "", 0, Kind::wanted}},
    {Reason::requested, {"requested", "an operator asked for it", kNothing, kEconnreset, Kind::wanted}},
    {Reason::session_closed, {"session_closed", "the session is closed", kNothing, kEshutdown, Kind::wanted}},
    {Reason::path_removed, {"path_removed", "the path was removed", kNothing, kEshutdown, Kind::wanted}},
    {Reason::address_unresolved,
     {"address_unresolved", "no route to the address",
      "check the routes of this host (ip route get ADDRESS), and that the link towards the address is up",
      kEhostunreach, Kind::broken}},
    {Reason::connect_refused,
     {"connect_refused", "connection refused", "is the server running, are address and port right?",
      kEconnrefused, Kind::broken}},
    {Reason::connect_timeout,
     {"connect_timeout", "no answer to the connect request",
      "check the address, that an RTRS server listens at it, and that a firewall lets its port through",
      kEtimedout, Kind::broken}},
    {Reason::rejected,
     {"rejected", "rejected by the server", "the log of the server says why", kEconnrefused, Kind::refused}},
    {Reason::rejected_busy,
     {"rejected_busy", "the server still closes the previous connection of this path", kWait, kEbusy,
      Kind::ordinary}},
    {Reason::bad_conn_rsp,
     {"bad_conn_rsp", "the connect request was not answered as RTRS does",
      "check that an RTRS server listens at this address and port, that both ends have the same fabric (tcp, "
      "libfabric, verbs), and its version",
      kEconnreset, Kind::broken}},
    {Reason::info_timeout,
     {"info_timeout", "the server did not complete the path in time",
      "the server may hold the session name for another client: its log says so; else look at its load",
      kEtimedout, Kind::broken}},
    {Reason::bad_info_rsp,
     {"bad_info_rsp", "the server described its buffers wrongly", kPeerBug, kEconnreset, Kind::broken}},
    {Reason::depth_changed,
     {"depth_changed", "the server's queue depth or chunk size differs from before",
      "set sess_queue_depth and max_chunk_size of the server to what they were, or end the session and begin "
      "it anew",
      kEinval, Kind::refused}},
    {Reason::heartbeat_lost,
     {"heartbeat_lost", "nothing received for the dead-peer time", kNetwork, kEtimedout, Kind::broken}},
    {Reason::peer_closed,
     {"peer_closed", "disconnected by the peer", "the log of the peer says why, unless it was ended",
      kEconnreset, Kind::ordinary}},
    {Reason::transport_error, {"transport_error", "the transport failed", kNetwork, kEio, Kind::broken}},
    {Reason::post_failed,
     {"post_failed", "the fabric did not take work",
      "look at the log of the kernel and at the state of the RDMA device", kEio, Kind::broken}},
    {Reason::protocol_violation,
     {"protocol_violation", "the peer broke the protocol", kPeerBug, kEconnreset, Kind::broken}},
    {Reason::handshake_timeout,
     {"handshake_timeout", "the client did not complete the path in time", kNetwork, kEtimedout,
      Kind::broken}},
    {Reason::superseded,
     {"superseded", "the client connected this path anew", kWait, kEconnaborted, Kind::ordinary}},
    {Reason::fenced,
     {"fenced", "the client asked over another path to close this one", kWait, kEconnaborted,
      Kind::ordinary}},
    {Reason::stale_attempt,
     {"stale_attempt", "a connect request of an older attempt", kWait, kEconnreset, Kind::ordinary}},
    {Reason::duplicate_connection,
     {"duplicate_connection", "the connection of this path is there already", kWait, kEconnreset,
      Kind::ordinary}},
    {Reason::duplicate_address,
     {"duplicate_address", "another path of the session has the same two addresses",
      "give each path of the client addresses of its own", kEexist, Kind::refused}},
    {Reason::unknown_session,
     {"unknown_session", "the session of this path is not there",
      "nothing if the server was restarted: the client opens the session again; else connect a first path",
      kEnxio, Kind::ordinary}},
    {Reason::too_many_paths,
     {"too_many_paths", "the session has 128 paths, the maximum of the protocol",
      "leave paths out at the client", kEconnreset, Kind::refused}},
    {Reason::too_many_sessions,
     {"too_many_sessions", "max_sessions or max_host_sessions is reached", kLimits, kEnomem, Kind::refused}},
    {Reason::too_many_connections,
     {"too_many_connections", "more than 4096 connections in a path, the maximum of the protocol",
      "let the client use fewer connections in each path", kEconnreset, Kind::refused}},
    {Reason::name_refused,
     {"name_refused", "the session name is malformed or that of another session",
      "give each client a session name of its own; one that vanished holds its name for the dead-peer time",
      kEperm, Kind::refused}},
    {Reason::attempts_exhausted,
     {"attempts_exhausted", "all attempts to connect again failed",
      "mend what the attempts failed of, then connect the path again, or allow more attempts", kEtimedout,
      Kind::broken}},
    {Reason::no_resources,
     {"no_resources", "no memory, or no objects of the fabric",
      "raise connection_memory_mb of urtrsd and the limits of locked memory and file descriptors (ulimit -l, "
      "ulimit -n), or lower sess_queue_depth and max_sessions; urtrs limits shows what is set and used",
      kEnomem, Kind::broken}},
    {Reason::fabric_gone,
     {"fabric_gone", "the device of the fabric is gone",
      "look at the log of the kernel; was the device removed?", kEnodev, Kind::broken}},
    {Reason::other_path_leads,
     {"other_path_leads", "another path created the session, this one joins it", kWait, kEalready,
      Kind::ordinary}},
    {Reason::connection_silent,
     {"connection_silent", "one connection delivered nothing for the dead-peer time",
      "compare the MTU of both hosts and of the switches between them, because small packets may pass where "
      "large ones are dropped; then look for firewalls and for a peer that hangs",
      kEtimedout, Kind::broken}},
    {Reason::request_timeout,
     {"request_timeout", "a request was not answered in time",
      "look at the storage of the server, or allow more time with request_timeout", kEtimedout,
      Kind::broken}},
    {Reason::name_unresolved,
     {"name_unresolved", "no host has that name or address",
      "check the spelling, and what getent ahosts NAME says", kEhostunreach, Kind::broken}},
    {Reason::source_unavailable,
     {"source_unavailable", "the source address is not one of this host",
      "name an address of this host, as ip address lists them, of the family of the server's, or leave the "
      "source out",
      kEaddrnotavail, Kind::broken}},
    {Reason::unanswered,
     {"unanswered", "the connection ended before the connect request was answered",
      "check that an RTRS server listens at this address and port, that both ends have the same fabric (tcp, "
      "libfabric, verbs) and both or neither tls, and whether the server ended",
      kEconnreset, Kind::broken}},
    {Reason::tls_failed,
     {"tls_failed", "TLS: one end does not accept the other",
      "the logs of both ends say why; compare tls, keys and certificates", kEacces, Kind::refused}},
    {Reason::other_identity,
     {"other_identity", "the session belongs to a client of another identity",
      "connect all paths of a session with the same key or certificate", kEperm, Kind::refused}},
    {Reason::not_allowed,
     {"not_allowed", "no access rule of the server lets the client in",
      "add its address, identity or session name to the allow lists of the server", kEacces, Kind::refused}},
    {Reason::challenged,
     {"challenged", "the server asks for a proof of the shared key", kWait, kEacces, Kind::ordinary}},
    {Reason::key_refused,
     {"key_refused", "one end has not proved that it has the shared key",
      "give both ends the same line of a file of keys (auth_keys, --auth-keys), or neither of them one",
      kEacces, Kind::refused}},
}};

// Compares without a function of the C library, which this folder does not use.
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

constexpr ReasonText kUnknown{"unknown", "a reason that this version does not know",
                              "compare the versions of both ends", kEio, Kind::broken};

}  // namespace

const ReasonText& text_of(Reason reason) noexcept {
  const auto index = static_cast<std::size_t>(reason);
  return index < kTable.size() ? kTable[index].text : kUnknown;
}

ReasonText words_of(Reason reason, std::uint16_t peer_errno) noexcept {
  ReasonText text = text_of(reason);
  if (reason == Reason::key_refused)
    text.hint =
        "give both ends the same line of a file of keys (auth_keys, --auth-keys), or neither of them one; "
        "the "
        "log of the server names whom it refused";
  if (reason == Reason::name_refused) {
    text.sentence = "the server closed the connection after it received the session name";
    text.hint =
        "another client has this name, or allow_sessions of the server excludes it: the log of the server "
        "says which, with the address of the other client; give this client another session name. The name "
        "of a client that vanished is free after the dead-peer time of the server";
  }
  if (reason != Reason::rejected) return text;
  if (peer_errno == kEacces)
    text.hint =
        "the server asks for a shared key, or its allow lists leave this client out: its log says which; a "
        "key is given with auth_keys or --auth-keys";
  if (peer_errno == kEnomem) {
    text.sentence = "the server has reached a limit of its sessions, connections or memory";
    text.hint =
        "end sessions that nobody needs, or raise max_sessions, max_host_sessions or connection_memory_mb of "
        "urtrsd: its log says which, and urtrs limits on its host what is set and used";
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
