// Result of an operation (Errc) and reason why a path, connection or request ended (Reason). Logs,
// statistics, traces and the API use the same words.
#pragma once
#include <cstdint>

namespace rtrs {

enum class Errc : std::uint8_t {
  ok,
  peer_error,      // the server answered with an errno (see IoCompletion::peer_errno)
  no_path,         // no path was connected within ClientConfig::queue_timeout
  queue_full,      // more requests submitted than the session may queue
  too_large,       // data or headers do not fit a chunk
  session_closed,  // the session was closed before the request was answered
  not_open,        // the session has never been connected
  no_memory,       // memory could not be allocated or registered
  not_supported,   // the fabric cannot do this
  bad_address,     // the address does not parse or cannot be used
  address_in_use,  // another program listens on the address
  no_permission,   // denied by the operating system
  no_such_path,    // no path with this index
  invalid,         // an argument is out of its range
  fabric_error,    // the fabric failed for another reason (its text is in the log)
  // No response within ClientConfig::request_timeout; a write may have been executed. A block client also
  // returns it if a device was not open for queue_timeout.
  request_timeout,
  no_permit,    // all permits belong to failed requests that the server may still execute
  cache_lost,   // the server's cache was replaced: acknowledged changes may be lost
  path_exists,  // the session has a path between these addresses
};
const char* to_string(Errc) noexcept;
// Linux errno for interfaces that can only return an errno; 0 for ok. EIO for peer_error, whose errno is the
// server's.
std::uint16_t to_linux_errno(Errc) noexcept;

enum class Reason : std::uint8_t {
  none,
  requested,             // requested by an operator
  session_closed,        // the session is being closed
  path_removed,          // the path is being removed
  address_unresolved,    // there is no route to the address
  connect_refused,       // no server listens on the address
  connect_timeout,       // no answer to a connect request in time
  rejected,              // the peer rejected the connect request; the errno says why
  rejected_busy,         // the peer is still closing an older incarnation of this path: retry soon
  bad_conn_rsp,          // the peer's answer to the connect request is malformed or unacceptable
  info_timeout,          // no answer to INFO_REQ in time
  bad_info_rsp,          // malformed INFO_RSP
  depth_changed,         // queue depth or chunk size differ from what the session was opened with
  heartbeat_lost,        // no data arrived for the dead-peer time
  peer_closed,           // the peer disconnected
  transport_error,       // a work request failed
  post_failed,           // a work request could not be posted
  protocol_violation,    // the peer sent something that the protocol forbids; the refusal says what
  handshake_timeout,     // server: the client did not complete the path in time
  superseded,            // server: a newer incarnation of the path arrived
  fenced,                // server: the client asked over another path to close this incarnation
  stale_attempt,         // server: a connect request of an older attempt than the current one
  duplicate_connection,  // server: this cid of the attempt is already connected
  duplicate_address,     // server: another path of the session uses the same addresses
  unknown_session,       // server: an additional path for a session that does not exist or was never opened
  too_many_paths,
  too_many_sessions,
  too_many_connections,
  name_refused,        // server: the session name is malformed or owned by another session
  attempts_exhausted,  // client: the maximum number of reconnect attempts was reached
  no_resources,        // memory or fabric objects could not be allocated
  fabric_gone,         // the device or provider was removed
  other_path_leads,   // client: another path created the session during the attempt of this path, which joins
                      // the session
  connection_silent,  // client: one connection delivered nothing for the dead-peer time; others may deliver
  request_timeout,    // client: a request was not answered within ClientConfig::request_timeout
  name_unresolved,    // no host has this name, or the text is not an address
  source_unavailable,  // client: the source address of the path does not exist on this host
  unanswered,          // client: the peer ended the connection before it answered the connect request
  tls_failed,          // TLS: one side rejects the other side or its data
  other_identity,      // server: a client of another identity created the session
  not_allowed,         // server: no access rule allows the client
  challenged,   // the server requests a proof of the shared key; the client retries at once with the proof
  key_refused,  // one end has not proved that it has the shared key
};
inline constexpr unsigned kReasonCount = static_cast<unsigned>(Reason::key_refused) + 1;
const char* to_string(Reason) noexcept;

}  // namespace rtrs
