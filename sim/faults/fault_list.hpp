// Every class of faults: X(name, text). `text` is shown by `urtrs-sim list`. Append only: choice logs and
// seeds depend on the order. Each name has a constant NAME_fault of type FaultKind in one file of this
// folder.
#pragma once

#define RTRS_SIM_FAULTS(X)                                                                           \
  X(cut_both, "both directions of one link are cut for a while")                                     \
  X(cut_one_way, "one direction of one link is cut for a while")                                     \
  X(cut_port, "every link of one port is cut for a while, in both directions")                       \
  X(break_qp, "one queue pair fails")                                                                \
  X(break_path, "all queue pairs of one path fail")                                                  \
  X(starve, "heartbeats wait behind other traffic, in one direction of one link")                    \
  X(latency, "one link is slow for a while")                                                         \
  X(crash, "a process dies without closing its connections, and restarts later")                     \
  X(crash_orderly, "a process dies, its system closes its connections, and it restarts later")       \
  X(pause, "a process does not run for a while")                                                     \
  X(flap, "all links are cut and restored several times, each at its own times")                     \
  X(qp_error_at_step, "a queue pair fails when a work request is posted on it or delivered to it")   \
  X(request_lost_or_late, "connect requests are lost or late")                                       \
  X(reply_lost_or_late, "connect replies are lost or late")                                          \
  X(reject_lost_or_late, "connect rejects are lost or late")                                         \
  X(disconnect_lost_or_late, "disconnect requests are lost or late")                                 \
  X(info_cut, "a link is cut while INFO_REQ or INFO_RSP is in flight")                               \
  X(torn_writes, "writes are visible in part, late, or before their receive is posted")              \
  X(ghosts, "messages of a failed queue pair arrive much later")                                     \
  X(slow_drain, "a disconnected queue pair drains for seconds")                                      \
  X(black_hole, "one queue pair of a path delivers nothing for a while")                             \
  X(device_gone, "an adapter is removed from its host and inserted again")                           \
  X(resource_short, "memory, a key or a queue pair cannot be allocated")                             \
  X(resolve_failed, "an address does not resolve")                                                   \
  X(accept_failed, "a connect request cannot be accepted")                                           \
  X(post_short, "fewer work requests are taken than were posted")                                    \
  X(crowd, "unknown clients send connect requests and complete none, for a while")                   \
  X(hang, "one queue pair delivers nothing any more, and only a probe finds it")                     \
  X(blackout, "a client loses all its connections at once, and each of its links is restored later") \
  X(cut_all, "all links are cut at one moment and restored at one moment")                           \
  X(lie, "one process violates the protocol for a message or a few")                                 \
  X(oversleep, "a process does not run until one of its time limits has passed")                     \
  X(trickle, "one end of a stream transfers one byte at a time, for a while")
