// Rare situations that a sweep should reach at least sometimes, because a situation that no run reaches is
// not tested.
#pragma once
#include <cstdint>

namespace rtrs::sim {

// X(name, description)
#define RTRS_SIM_MARKS(X)                                                                                   \
  X(failover_of_one, "failover with one request in flight")                                                 \
  X(failover_of_all, "failover with every permit in flight")                                                \
  X(failover_twice, "a request reached the server three times")                                             \
  X(unfenced_failover, "failover without proof")                                                            \
  X(unproven_failure, "a write failed that the server may still execute")                                   \
  X(fence_answered, "fence answered")                                                                       \
  X(gate_used, "request waited for the older user of its chunk")                                            \
  X(response_dropped, "response dropped because its path was lost")                                         \
  X(stale_response, "response after its request had ended")                                                 \
  X(zombie_reaped, "half-open path reaped")                                                                 \
  X(superseded, "newer attempt closed an older incarnation")                                                \
  X(server_rejected, "the server rejected a connect request")                                               \
  X(rejected_busy, "attempt rejected as busy, to be retried")                                               \
  X(name_refused, "session name still owned by the former client")                                          \
  X(connect_rejected, "a client saw a rejection other than busy")                                           \
  X(heartbeat_lost, "path declared dead after silence")                                                     \
  X(all_down_then_up, "all paths down, then up again")                                                      \
  X(server_restart, "server crashed and restarted")                                                         \
  X(client_restart, "client crashed and restarted")                                                         \
  X(paused_dead_time, "process paused longer than the dead time")                                           \
  X(depth_one, "one permit")                                                                                \
  X(permit_waiter, "request waited for a permit")                                                           \
  X(queue_expired, "request failed because no path was connected")                                          \
  X(storage_error, "storage error reached the application")                                                 \
  X(errno_too_large, "storage error that the wire cannot carry")                                            \
  X(slow_storage, "storage slower than the dead-peer time")                                                 \
  X(path_removed, "path removed and added again")                                                           \
  X(policy_changed, "policy changed under load")                                                            \
  X(fresh_keys, "a fresh key for every request")                                                            \
  X(remote_invalidation, "READ whose key the server invalidates")                                           \
  X(path_refused, "connect refused: no listener")                                                           \
  X(connect_timeout, "no answer to a connect request")                                                      \
  X(info_timeout, "no answer to INFO_REQ")                                                                  \
  X(peer_goodbye, "the server disconnected a client")                                                       \
  X(client_transport_error, "a work request of a client failed")                                            \
  X(lost_half_open, "an attempt died between its first connection and INFO_RSP")                            \
  X(operator_disconnect, "an operator disconnected a path")                                                 \
  X(operator_reconnect, "an operator reconnected a path by hand")                                           \
  X(operator_recover, "an operator recovered a session with a path that was down")                          \
  X(operator_drop, "an operator of the server disconnected a path")                                         \
  X(all_removed, "the last path of a session was removed")                                                  \
  X(removed_connecting, "path removed while it was connecting")                                             \
  X(server_goodbye, "a client disconnected from the server")                                                \
  X(server_transport_error, "a work request of the server failed")                                          \
  X(server_silence, "the server declared a path dead after silence of the client")                          \
  X(both_silent, "both ends of a path declared dead after silence")                                         \
  X(fenced_path, "a fence closed a living end of a path")                                                   \
  X(link_down, "no path left")                                                                              \
  X(parked, "requests wait for a path")                                                                     \
  X(third_attempt, "three attempts in a row")                                                               \
  X(fifth_return, "a path reconnected five times")                                                          \
  X(session_ended, "the server dropped a session whose client lives")                                       \
  X(work_lost, "the server crashed with requests in storage")                                               \
  X(client_died_busy, "a client crashed with requests in flight")                                           \
  X(short_pause, "a pause shorter than the dead time")                                                      \
  X(starved, "heartbeats waited behind other traffic")                                                      \
  X(orderly_crash, "a process crashed and its system disconnected the peers")                               \
  X(ghost, "a message of a dead connection arrived")                                                        \
  X(torn, "a write was visible in part")                                                                    \
  X(rnr, "a message waited for a receive")                                                                  \
  X(late_placement, "a write landed while its connection was ending")                                       \
  X(retry_exceeded, "a retry budget ran out")                                                               \
  X(cm_lost, "a datagram of the connection manager was lost")                                               \
  X(cm_late, "a datagram of the connection manager was late")                                               \
  X(single_connection, "one connection broke alone")                                                        \
  X(answers_overtake, "a later request was answered first")                                                 \
  X(overlapping_writes, "two writes to one sector at a time")                                               \
  X(read_beside_write, "a read of a sector that is being written")                                          \
  X(service_request, "a request over the service connection")                                               \
  X(full_depth, "every permit in use")                                                                      \
  X(write_moved, "a write was answered after a failover")                                                   \
  X(read_moved, "a read was answered after a failover")                                                     \
  X(two_clients, "two clients")                                                                             \
  X(four_paths, "four paths")                                                                               \
  X(weak_network, "a network like stream sockets")                                                          \
  X(keys_left, "a server that leaves the offered keys to the client")                                       \
  X(keys_asked_back, "a server that must not leave the keys: its client did not agree")                     \
  X(data_joined, "answers of READs that carry their data")                                                  \
  X(data_apart, "only one end supports responses with data")                                                \
  X(odd_depth, "a depth that is not a power of two")                                                        \
  X(deep, "a depth of 64")                                                                                  \
  X(own_region, "the application registered its memory")                                                    \
  X(kernel_wait, "no fence, and the client waits for the path")                                             \
  X(no_generation, "no generations agreed")                                                                 \
  X(min_latency, "the policy of the lowest latency")                                                        \
  X(round_robin, "the round-robin policy")                                                                  \
  X(tampered, "a message was changed by a lying peer")                                                      \
  X(swallowed, "all traffic of one connection of a path was dropped")                                       \
  X(hung, "a connection hung permanently")                                                                  \
  X(connection_silent, "a path died because one of its connections was silent")                             \
  X(request_timed_out, "a request failed because the server took too long")                                 \
  X(permits_exhausted, "all permits were abandoned")                                                        \
  X(no_permit, "a request failed because all permits were abandoned")                                       \
  X(unplugged, "an adapter was removed")                                                                    \
  X(shortage, "memory, a key or a connection could not be allocated")                                       \
  X(unresolved, "an address did not resolve")                                                               \
  X(failed_accept, "an accept failed")                                                                      \
  X(short_post, "only a part of the posted work was accepted")                                              \
  X(rnr_exceeded, "RNR retries were exhausted")                                                             \
  X(clocks_apart, "clocks of different speed")                                                              \
  X(same_identity, "a client restarted with its old uuids")                                                 \
  X(channels_apart, "messages of different connections in any order")                                       \
  X(blackout, "a client lost all its connections at once")                                                  \
  X(limits_changed, "the server restarted with other limits")                                               \
  X(few_events, "a fabric that reports few events per poll")                                                \
  X(pathless_submit, "a request was submitted while no path was connected")                                 \
  X(astray, "a session was at a server reached by a wrong address")                                         \
  X(joined_astray, "a path joined a session that its client had left at its server, beside another server") \
  X(left_busy, "a client was closed with requests in flight")                                               \
  X(left_dead, "a client was closed with requests and without a path")                                      \
  X(shut_down, "a server with sessions was closed")                                                         \
  X(disk_exchanged, "a server restarted with an empty disk")                                                \
  X(disk_reshaped, "a server restarted with a disk of other blocks and limits")                             \
  X(impostor, "an unknown client pretended to be a connection of a session")                                \
  X(challenged, "a server requested a proof of the key")                                                    \
  X(replayed, "an unknown client replayed a connect request of a client")                                   \
  X(disk_late, "a server restarted before a disk")                                                          \
  X(several_addresses, "paths led to host names with several addresses")                                    \
  X(many_paths, "a session with more than 8 paths")                                                         \
  X(many_connections, "a path with more connections than one step processes")

enum class Mark : std::uint8_t {
#define RTRS_SIM_MARK(name, text) name,
  RTRS_SIM_MARKS(RTRS_SIM_MARK)
#undef RTRS_SIM_MARK
      count_,
};
inline constexpr unsigned kMarks = static_cast<unsigned>(Mark::count_);
const char* text_of(Mark) noexcept;
// Name of the mark in the source; scripts use it.
const char* name_of(Mark) noexcept;

}  // namespace rtrs::sim
