// Table of all rules of the specification. Checks name their rule in this table, `urtrs-replay check` reports
// its texts, and `urtrs-replay check --rules` prints the table. The meaning of an id never changes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::spec {

// X(name, id, oracle, source, rule). `oracle`: the oracle of urtrs-sim that covers the class of the rule.
#define RTRS_SPEC_CLIENT_RULES(X)                                                                            \
  X(connect_order, "connect-order", "O6", "protocol section 3.1",                                            \
    "a client opens the connections of an attempt one after another, cid 0 first, each when the one before " \
    "is up")                                                                                                 \
  X(connect_attempt, "connect-attempt", "O6", "protocol section 3.5",                                        \
    "all connections of an attempt carry one cid_num and one reconnect counter, which each attempt raises")  \
  X(challenge_once, "challenge-once", "O6", "protocol section 12",                                           \
    "a server that asks for a proof of the key is answered by a new attempt at once; one that asks this "    \
    "attempt again refuses it")                                                                              \
  X(first_conn, "first-conn", "O13", "protocol section 3.4",                                                 \
    "first_conn is set for every cid above 0, and in every attempt of a path that was up unless another "    \
    "has "                                                                                                   \
    "brought up a session since that may be at another server")                                              \
  X(connection_events, "connection-events", "O18", "core/fabric/fabric.hpp",                                 \
    "a connection is answered once, and closed once, after Disconnect; nothing of it follows")               \
  X(post_on_live, "post-on-live", "O11", "protocol section 4.2",                                             \
    "work is posted only on an established connection that nobody asked to end")                             \
  X(info_full_set, "info-full-set", "O6", "protocol section 3.1",                                            \
    "INFO_REQ goes out once an attempt, over cid 0, when every connection of the path is up")                \
  X(path_transition, "path-transition", "O7", "protocol sections 4.1 and 4.3",                               \
    "the path may change to that state")                                                                     \
  X(path_connected, "path-connected", "O7", "protocol section 4.1",                                          \
    "a client's path is connected by INFO_RSP and by nothing else")                                          \
  X(path_teardown, "path-teardown", "O7", "protocol section 4.2",                                            \
    "who loses a path ends each connection of it once, in the same step; of more than 136, 136 a step")      \
  X(release_drained, "release-drained", "O12", "protocol sections 4.2 and 5.8",                              \
    "a path is released when all its connections are closed and no request of it is in service")             \
  X(depth_fixed, "depth-fixed", "O15", "protocol section 2.2",                                               \
    "a path whose server announces another depth or size than the session has is lost at once")              \
  X(permit_free, "permit-free", "O2", "protocol section 5.1",                                                \
    "a request takes a free permit below the depth")                                                         \
  X(request_once, "request-once", "O2", "protocol section 5.1",                                              \
    "a request is posted once, and again only after a failover")                                             \
  X(request_path, "request-path", "O9", "protocol section 6.1", "a request is posted on a connected path")   \
  X(request_choice, "request-choice", "O23", "core/proto/multipath.hpp",                                     \
    "of the connected paths with room a request takes the one whose turn it is, or the first of those with " \
    "the fewest requests or the shortest heartbeat, as the policy says")                                     \
  X(request_affinity, "request-affinity", "O23", "core/proto/multipath.hpp",                                 \
    "IO goes over connection 1 + affinity modulo the IO connections of its path")                            \
  X(request_order, "request-order", "O23", "core/proto/inputs.hpp",                                          \
    "the requests of a connection are posted in the order in which they were submitted; what fails over "    \
    "has lost its place")                                                                                    \
  X(request_imm, "request-imm", "O13", "protocol section 1.3",                                               \
    "the immediate of a request is permit << (28 - log2up(depth)) | data length + user length")              \
  X(request_generation, "request-generation", "O13", "docs/architecture.md",                                 \
    "each use of a permit has another generation than the one before; 0 without the extension")              \
  X(service_connection, "service-connection", "O13", "protocol section 1.1",                                 \
    "administrative requests go over cid 0, IO over the others")                                             \
  X(replay_drained, "replay-drained", "O12", "protocol section 4.2",                                         \
    "a request is sent again only after its path was drained")                                               \
  X(replay_bound, "replay-bound", "O9", "core/proto/config.hpp",                                             \
    "a request that loses its path later than request_timeout and queue_timeout together after it was "      \
    "first "                                                                                                 \
    "sent is not sent again")                                                                                \
  X(replay_proof, "replay-proof", "O4", "docs/architecture.md",                                              \
    "a request is sent again when the server proved that the old incarnation is dead, or as configured "     \
    "without")                                                                                               \
  X(complete_once, "complete-once", "O1", "protocol section 11, invariant 2",                                \
    "a request is completed once, and only while it is open")                                                \
  X(complete_result, "complete-result", "O1", "protocol section 11, invariant 2",                            \
    "the result is the server's: ok for 0, the errno otherwise; without an answer it names the cause")       \
  X(complete_at_response, "complete-at-response", "O1", "protocol section 5.6",                              \
    "a response to an open request completes it in the same step")                                           \
  X(no_path_early, "no-path-early", "O9", "core/proto/config.hpp",                                           \
    "a request fails without a path only while no path is connected and after the queue timeout")            \
  X(fence_request, "fence-request", "O13", "docs/architecture.md",                                           \
    "a fence is asked over cid 0 of another connected path that granted it, for an incarnation that was "    \
    "lost")                                                                                                  \
  X(key_stored, "key-stored", "O10", "protocol section 2.5",                                                 \
    "the key of RKEY_RSP is stored for its own path and chunk before the request is completed")              \
  X(peer_violation, "peer-violation", "O15", "protocol sections 2.5, 2.7 and 5.6",                           \
    "a peer that breaks the protocol loses the path at once")                                                \
  X(end_clean, "end-clean", "O5", "core/proto/actions.hpp",                                                  \
    "a session ends when all paths are closed and no permit or chunk is in use; nothing follows")

#define RTRS_SPEC_COMMON_RULES(X)                                                                         \
  X(link_events, "link-events", "O14", "protocol section 6.4",                                            \
    "link events alternate and say whether a path is connected")                                          \
  X(receive_room, "receive-room", "O11", "protocol section 1.2",                                          \
    "a message arrives only where a receive was posted for it")                                           \
  X(receive_balance, "receive-balance", "O11", "protocol section 11, invariant 19",                       \
    "each connection of a connected path has receives for all requests that may be under way, and each "  \
    "that a message took is posted again in the same step")                                               \
  X(send_room, "send-room", "O11", "protocol section 1.2",                                                \
    "posted work that has not completed fits the send queue")                                             \
  X(send_signal, "send-signal", "O11", "protocol section 1.2",                                            \
    "a signalled cookie counts the work since the last signalled one, and such work comes often enough")  \
  X(send_order, "send-order", "O18", "core/fabric/fabric.hpp",                                            \
    "signalled work completes in post order, once, with its own cookie")                                  \
  X(hb_connection, "hb-connection", "O13", "protocol section 2.8",                                        \
    "heartbeats go over cid 0 with payload 0; where the probe is agreed, its own go over any")            \
  X(hb_period, "hb-period", "O8", "protocol section 7",                                                   \
    "HB_MSG is sent at a tick that finds nothing missed")                                                 \
  X(hb_ack, "hb-ack", "O8", "protocol section 7", "HB_ACK answers an HB_MSG, each at most once")          \
  X(hb_ack_due, "hb-ack-due", "O8", "protocol section 7",                                                 \
    "HB_MSG is answered at once, or as soon as the send queue has room")                                  \
  X(probe_due, "probe-due", "O8", "docs/architecture.md",                                                 \
    "a connection is probed while something is outstanding on it, or was when the timer was due and the " \
    "send queue had no room; one HB_MSG at a time")                                                       \
  X(probe_delivery, "probe-delivery", "O8", "docs/architecture.md",                                       \
    "deliveries are probed where completions prove them and the probe is not agreed")                     \
  X(probe_dead_early, "probe-dead-early", "O8", "docs/architecture.md",                                   \
    "a path dies of one connection only when that has something outstanding and was silent for long")     \
  X(hb_dead_early, "hb-dead-early", "O8", "protocol section 7",                                           \
    "a path dies of silence only at a tick with more than missed_max missed")                             \
  X(hb_dead_late, "hb-dead-late", "O8", "protocol section 7",                                             \
    "a path dies at the first tick that finds more than missed_max missed")

#define RTRS_SPEC_SERVER_RULES(X)                                                                            \
  X(connect_answered, "connect-answered", "O13", "protocol section 3.2",                                     \
    "a connect request is accepted or rejected in the same step, once")                                      \
  X(accept_attempt, "accept-attempt", "O6", "docs/reasons.md",                                               \
    "a connection is accepted only into an absent path or into a half-open one of the same attempt")         \
  X(accept_cid, "accept-cid", "O6", "protocol section 3.2",                                                  \
    "a cid of an attempt is accepted once, below cid_num")                                                   \
  X(accept_address, "accept-address", "O7", "protocol section 3.2",                                          \
    "two paths of a session do not have the same pair of addresses")                                         \
  X(accept_flags, "accept-flags", "O13", "protocol section 2.2",                                             \
    "CON_RSP grants what was asked for and configured, and says NEW_RKEY as configured")                     \
  X(reject_errno, "reject-errno", "O13", "protocol section 2.2", "a rejection carries an errno")             \
  X(info_answer, "info-answer", "O6", "protocol section 2.3",                                                \
    "INFO_RSP answers an INFO_REQ that came over cid 0 with the full set up and the name granted; once")     \
  X(half_open, "half-open", "O9", "core/proto/config.hpp",                                                   \
    "a path that is not completed within the handshake timeout is closed")                                   \
  X(deliver_arrived, "deliver-arrived", "O1", "protocol section 5.7",                                        \
    "what is handed to the upper layer arrived, and is handed over once, in its own chunk")                  \
  X(chunk_exclusive, "chunk-exclusive", "O2", "protocol section 3.3",                                        \
    "a chunk serves one request at a time, over all paths")                                                  \
  X(deliver_invalidated, "deliver-invalidated", "O10", "protocol section 11, invariant 17",                  \
    "with always_invalidate a request is handed over only when the key of its chunk is dead; but for READs " \
    "whose answer may carry their data")                                                                     \
  X(deliver_due, "deliver-due", "O9", "protocol section 5.7",                                                \
    "a request that arrived at a free chunk of a connected path is taken in the same step")                  \
  X(respond_once, "respond-once", "O1", "protocol section 5.7",                                              \
    "the upper layer answers each request that it was given once")                                           \
  X(response_once, "response-once", "O1", "protocol section 11, invariant 11",                               \
    "a request is answered once, after the upper layer answered")                                            \
  X(response_due, "response-due", "O9", "protocol section 5.7",                                              \
    "what the upper layer answered goes out at once, or as soon as the send queue has room, while its path " \
    "is connected")                                                                                          \
  X(response_connection, "response-connection", "O13", "protocol section 11, invariant 18",                  \
    "a response goes over the connection of its request, while its path is connected")                       \
  X(response_imm, "response-imm", "O13", "protocol section 1.3",                                             \
    "the immediate of a response carries the id of its request")                                             \
  X(response_status, "response-status", "O1", "protocol section 1.3",                                        \
    "a response carries the errno of the upper layer, EIO where it does not fit, never a success instead")   \
  X(response_data, "response-data", "O3", "protocol section 5.5",                                            \
    "data is written for a successful READ that offered a buffer, and for nothing else; by the response "    \
    "itself exactly where that was agreed and nothing stands between")                                       \
  X(response_invalidate, "response-invalidate", "O10", "protocol section 11, invariant 12",                  \
    "the client's key is invalidated when asked for, and type 2 says so, never otherwise")                   \
  X(response_key, "response-key", "O13", "protocol section 11, invariant 15",                                \
    "a response carries a fresh key exactly with always_invalidate; but for READs whose answer may carry "   \
    "their data")                                                                                            \
  X(busy_chunk, "busy-chunk", "O15", "protocol section 11, invariant 5",                                     \
    "a second request of an incarnation for its chunk ends the path, one of a third path that of the "       \
    "second")                                                                                                \
  X(fence_proof, "fence-proof", "O4", "docs/architecture.md",                                                \
    "a fence is answered when the incarnation is drained, not before, once")                                 \
  X(fence_obeyed, "fence-obeyed", "O9", "docs/architecture.md",                                              \
    "a fence closes the incarnation that it names")                                                          \
  X(session_admission, "session-admission", "O7", "protocol section 3.2",                                    \
    "a connect request belongs to the session of its paths_uuid; only first_conn makes a new one")           \
  X(session_identity, "session-identity", "O7", "docs/security.md",                                          \
    "a connect request joins a session only with the identity that made it")                                 \
  X(name_owner, "name-owner", "O7", "protocol section 3.3", "a session name has one owner at a time")

#define RTRS_SPEC_WIRE_RULES(X)                                                                              \
  X(con_req_layout, "con-req-layout", "O13", "protocol section 2.1",                                         \
    "CON_REQ is 56 bytes with magic 0x1bbd, version 2, cid below cid_num of 1 to 4096")                      \
  X(con_req_attempt, "con-req-attempt", "O6", "protocol section 3.5",                                        \
    "all connections of an attempt have the same uuids, cid_num and recon_cnt")                              \
  X(con_req_order, "con-req-order", "O6", "protocol section 3.1",                                            \
    "cid 0 of an attempt comes first, and no cid comes twice")                                               \
  X(con_req_recon, "con-req-recon", "O6", "protocol section 3.5", "recon_cnt grows from attempt to attempt") \
  X(con_rsp_layout, "con-rsp-layout", "O13", "protocol section 2.2",                                         \
    "CON_RSP is 56 bytes with magic and version; errno is 0 when it accepts and negative when it rejects")   \
  X(con_req_session, "con-req-session", "O6", "protocol section 2.1",                                        \
    "all paths of a client carry one paths_uuid")                                                            \
  X(con_rsp_unknown, "con-rsp-unknown", "O7", "protocol section 3.2",                                        \
    "ENXIO refuses only requests without first_conn")                                                        \
  X(con_rsp_geometry, "con-rsp-geometry", "O13", "protocol section 11, invariant 9",                         \
    "depth is at least 1 and log2up(depth) + log2up(chunk size) at most 28")                                 \
  X(con_rsp_depth, "con-rsp-depth", "O15", "protocol section 2.2",                                           \
    "a client uses only paths that announce the depth and sizes of its session")                             \
  X(cm_once, "cm-once", "O18", "docs/fabric.md",                                                             \
    "a connection has one request, one answer to it, and no message after its end")                          \
  X(info_req_wire, "info-req", "O6", "protocol section 2.3",                                                 \
    "INFO_REQ is 272 bytes with a name, over cid 0, once, when all connections of the attempt are accepted") \
  X(info_req_name, "info-req-name", "O6", "protocol section 2.3",                                            \
    "all paths of a session announce one name")                                                              \
  X(info_rsp_wire, "info-rsp", "O13", "protocol section 2.4",                                                \
    "INFO_RSP answers INFO_REQ over cid 0 with runs that cover exactly depth chunks")                        \
  X(wire_before_info, "wire-before-info", "O13", "protocol section 3.1",                                     \
    "nothing but INFO_REQ and INFO_RSP is sent before INFO_RSP")                                             \
  X(wire_form, "wire-form", "O13", "protocol sections 2.8 and 5.5",                                          \
    "each message has the operation, direction, connection and length that its kind has")                    \
  X(io_req_target, "io-req-target", "O13", "protocol section 5.3",                                           \
    "a request is written into the chunk that its immediate names, and ends with its header")                \
  X(io_req_key, "io-req-key", "O10", "protocol section 2.5", "a request uses the latest key of its chunk")   \
  X(io_req_header, "io-req-header", "O13", "protocol sections 2.6 and 2.7",                                  \
    "the header is a READ or WRITE whose user header lies in the chunk, with 0 or 1 descriptors")            \
  X(io_req_descriptor, "io-req-descriptor", "O13", "protocol section 2.6",                                   \
    "the buffer that a READ offers is 1 to chunk size bytes long")                                           \
  X(io_req_slot, "io-req-slot", "O2", "protocol section 11, invariant 5",                                    \
    "a chunk has at most one request under way, over all paths of a session")                                \
  X(io_rsp_known, "io-rsp-known", "O1", "protocol section 11, invariant 11",                                 \
    "a response answers a request of the same incarnation that is under way, once")                          \
  X(io_rsp_connection, "io-rsp-connection", "O13", "protocol section 11, invariant 18",                      \
    "a response comes over the connection of its request")                                                   \
  X(io_rsp_form, "io-rsp-form", "O13", "protocol section 11, invariant 15",                                  \
    "with NEW_RKEY a response is SEND_WITH_IMM of RKEY_RSP, else a WRITE_WITH_IMM, of length 0 unless data " \
    "with the answer was agreed")                                                                            \
  X(io_rsp_id, "io-rsp-id", "O13", "protocol sections 1.3 and 2.5",                                          \
    "message id, generation and buf_id of a response are those of its request")                              \
  X(io_rsp_data, "io-rsp-data", "O3", "protocol section 11, invariant 13",                                   \
    "READ data goes to the offered address, key and length, before its response or with it, and only with "  \
    "success")                                                                                               \
  X(io_rsp_invalidate, "io-rsp-invalidate", "O10", "protocol section 11, invariant 12",                      \
    "type 2 comes after SEND_WITH_INV of the offered key, type 1 without one")                               \
  X(io_rsp_key_left, "io-rsp-key-left", "O10", "protocol section 5.6",                                       \
    "a READ with NEED_INVAL is answered after SEND_WITH_INV, unless both sides agreed on keys_stay")         \
  X(hb_wire, "hb-wire", "O13", "protocol section 2.8", "heartbeats are empty WRITE_WITH_IMM over cid 0")     \
  X(hb_wire_ack, "hb-wire-ack", "O8", "protocol section 7", "HB_ACK answers an HB_MSG of the other side")    \
  X(hb_wire_period, "hb-wire-period", "O8", "protocol section 7",                                            \
    "a side sends no more HB_MSG than intervals have passed")                                                \
  X(hb_wire_silence, "hb-wire-silence", "O8", "protocol section 7",                                          \
    "a path on which neither side sends anything for seven heartbeat intervals is given up")                 \
  X(fence_wire, "fence-wire", "O13", "docs/architecture.md",                                                 \
    "fences are asked and answered only where both sides agreed on them, each answer to a question")         \
  X(told_as_received, "told-as-received", "O13", "core/record/wire_notes.hpp",                               \
    "a machine is told of a message what the message says: sizes, immediates, keys, flags and uuids")        \
  X(time_order, "time-order", "O18", "docs/trace_format.md",                                                 \
    "the records of a process are in the order of their times")                                              \
  X(sent_as_decided, "sent-as-decided", "O13", "core/record/wire_notes.hpp",                                 \
    "a message says what its machine decided: sizes, immediates, keys, flags and errnos")                    \
  X(rnbd_form, "rnbd-form", "O13", "protocol sections 2.9 and 9.1",                                          \
    "an RNBD message has the type, length, direction, connection and ranges of its kind")                    \
  X(rnbd_order, "rnbd-order", "O13", "protocol section 9.1",                                                 \
    "a client opens after SESS_INFO was answered, and names only devices that an OPEN gave and no CLOSE "    \
    "took")

#define RTRS_SPEC_SERVER_DEVICE_RULES(X)                                                                    \
  X(device_answer, "device-answer", "O19", "core/rnbd/server_devices.hpp",                                  \
    "a request to a block device is answered once, in the step that settles it")                            \
  X(device_result, "device-result", "O19", "protocol section 9",                                            \
    "a request is answered with the errno of the first thing wrong with it, else with what storage said")   \
  X(device_response, "device-response", "O19", "protocol section 2.9",                                      \
    "OPEN_RSP carries an id of its own and geometry and cache instance of the export; SESS_INFO_RSP the "   \
    "lower version; nothing else carries a response")                                                       \
  X(device_storage, "device-storage", "O19", "protocol section 9.3",                                        \
    "storage is asked once for each IO that is well formed, within its device and allowed there, and for "  \
    "nothing else")                                                                                         \
  X(device_storage_same, "device-storage-same", "O19", "protocol section 9.2",                              \
    "storage is given export, operation, sector, length, flags and priority of the message")                \
  X(device_sync, "device-sync", "O19", "core/rnbd/server_devices.hpp",                                      \
    "a FLUSH or FUA change succeeds only if no sync that it may have shared a report with has failed")      \
  X(device_cache_damaged, "device-cache-damaged", "O19", "core/rnbd/server_devices.hpp",                    \
    "a failed sync is reported for its export, once, in the same step")                                     \
  X(device_handed, "device-handed", "O19", "core/driver/block_server.hpp",                                  \
    "the devices are given each request that the session hands over, once and as its message says; the "    \
    "session is told of each of their answers with its errno")                                              \
  X(device_open, "device-open", "O19", "core/rnbd/server_devices.hpp",                                      \
    "an export is opened for an OPEN, with its name and mode, as soon as no other export of the name is "   \
    "open")                                                                                                 \
  X(device_close, "device-close", "O19", "core/rnbd/server_devices.hpp",                                    \
    "an export is closed once, when CLOSE, the operator or the end of the session asks for it and nothing " \
    "of it is in flight")                                                                                   \
  X(device_measure, "device-measure", "O19", "core/rnbd/server_devices.hpp",                                \
    "an export is measured for an IO beyond its end, an EIO of storage and an OPEN of an open device")      \
  X(device_drained, "device-drained", "O19", "core/rnbd/server_devices.hpp",                                \
    "the session is drained once, when it is closed, no device is open and no request unanswered")

#define RTRS_SPEC_CLIENT_DEVICE_RULES(X)                                                                     \
  X(map_answer, "map-answer", "O19", "core/rnbd/client_events.hpp",                                          \
    "a mapping is answered with a new handle, or with why not: the name is mapped, or no name, or too many") \
  X(message_form, "message-form", "O19", "protocol section 9.1",                                             \
    "SESS_INFO, OPEN and CLOSE have their form and a new token; OPEN is sent for a mapped device that "      \
    "needs "                                                                                                 \
    "it, CLOSE for one that nobody wants, without IO")                                                       \
  X(open_alone, "open-alone", "O19", "core/rnbd/client_devices.hpp",                                         \
    "while an OPEN is unanswered, no IO and no CLOSE is; OPEN follows the SESS_INFO of its link")            \
  X(io_device_id, "io-device-id", "O19", "core/rnbd/client_devices.hpp",                                     \
    "an IO carries the id that the last OPEN of its device gave, and waits while a device is to be opened")  \
  X(io_handed, "io-handed", "O19", "core/driver/block_client.hpp",                                           \
    "what a device begins is submitted as it says, and ends with its ticket and the result of its request")  \
  X(io_losses, "io-losses", "O19", "core/rnbd/client_devices.hpp",                                           \
    "an IO knows the losses of its device, and whether it has to report one")                                \
  X(io_disposition, "io-disposition", "O19", "core/rnbd/client_devices.hpp",                                 \
    "an IO ends as the server said: ok, or lost where it must report lost changes; ENOTCONN is tried again") \
  X(device_state, "device-state", "O19", "core/rnbd/client_devices.hpp",                                     \
    "a device opens by the answer to its OPEN with that geometry, closes with its link or server, and ends " \
    "when nothing of it is in flight")                                                                       \
  X(cache_replaced, "cache-replaced", "O19", "core/rnbd/client_devices.hpp",                                 \
    "another cache instance is reported at once, with the changes that were not flushed")

#define RTRS_SPEC_RULES(X)         \
  RTRS_SPEC_CLIENT_RULES(X)        \
  RTRS_SPEC_COMMON_RULES(X)        \
  RTRS_SPEC_SERVER_RULES(X)        \
  RTRS_SPEC_WIRE_RULES(X)          \
  RTRS_SPEC_SERVER_DEVICE_RULES(X) \
  RTRS_SPEC_CLIENT_DEVICE_RULES(X)

enum class Rule : std::uint8_t {
#define RTRS_SPEC_RULE(name, id, oracle, source, rule) name,
  RTRS_SPEC_RULES(RTRS_SPEC_RULE)
#undef RTRS_SPEC_RULE
      count_,
};
inline constexpr Rule kFirstDeviceRule = Rule::device_answer;
inline constexpr unsigned kRules = static_cast<unsigned>(Rule::count_);

struct RuleInfo {
  std::string_view id;
  std::string_view oracle;
  std::string_view source;
  std::string_view text;
};
const RuleInfo& info_of(Rule) noexcept;
std::string rules_markdown();

}  // namespace rtrs::spec
