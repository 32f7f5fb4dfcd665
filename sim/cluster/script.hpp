// What happens to a directed world, step by step. A step waits for something or does something; a wait holds
// back all steps behind it. Written as one line of text each: the verb, then what is not at its default:
//   connections path=1 number=2      wait until the server holds 2 connections of path 1
//   cut path=1 ways=1                nothing goes to the server any more on path 1
//   pass time=40s                    wait 40 s
// `number` may be the name of a chance, a reason, a mark or a lie where the verb has one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/reflect.hpp"
#include "core/proto/ids.hpp"
#include "sim/network/network.hpp"

namespace rtrs::sim {

// X(verb, waits, what it does or waits for)
#define RTRS_SIM_VERBS(X)                                                                               \
  X(until, true, "the virtual time is `time`")                                                          \
  X(pass, true, "`time` has passed since the step before")                                              \
  X(connected, true, "the client's path is connected")                                                  \
  X(lost, true, "the client's path is not connected")                                                   \
  X(serving, true, "the server's end of the path is connected")                                         \
  X(forgotten, true, "the server has no connection of the path")                                        \
  X(connections, true, "the server has at least `number` connections of the path")                      \
  X(submitted, true, "the clients have submitted `number` requests since the start")                    \
  X(delivered, true, "`number` requests have reached storage since the start")                          \
  X(completed, true, "`number` requests are over")                                                      \
  X(errors, true, "`number` requests ended with something else than success")                           \
  X(link_up, true, "the client has a connected path")                                                   \
  X(link_down, true, "the client has no connected path")                                                \
  X(ended, true, "the client's path was lost for the reason `number`")                                  \
  X(dropped, true, "the server's end of the path was lost for the reason `number`")                     \
  X(reached, true, "the run has passed the mark `number`")                                              \
  X(held, true, "storage works for `number` requests at least")                                         \
  X(sessions, true, "the server has `number` sessions")                                                 \
  X(gone, true, "the client has closed its session")                                                    \
  X(retired, true, "the server has closed")                                                             \
  X(cut, false, "nothing goes through on the path; `ways` 1: to the server, 2: to the client, 3: both") \
  X(heal, false, "everything goes through on the path again")                                           \
  X(break_con, false, "breaks connection `con` of the path, at the client (ways=1) or server (ways=2)") \
  X(break_path, false, "all connections of the path")                                                   \
  X(starve, false, "heartbeats of the path wait for `time`")                                            \
  X(slow, false, "every message of the path takes `time` longer")                                       \
  X(crash, false, "ends client `client`, or the server for 0; `number` 1: orderly")                     \
  X(restart, false, "starts client `client` again, or the server for 0")                                \
  X(pause, false, "node `client` stands still for `time`")                                              \
  X(write, false, "submits `number` sectors from sector `time`, of fresh content")                      \
  X(read, false, "submits a read of `number` sectors from sector `time`")                               \
  X(storage, false, "the next `number` requests act after `time`, end after `length`")                  \
  X(storage_fails, false, "the next `number` requests fail with errno `time`")                          \
  X(rate, false, "the chance `number` of the network is `time` a million")                              \
  X(disconnect, false, "the operator of the client disconnects the path")                               \
  X(reconnect, false, "the operator of the client reconnects the path")                                 \
  X(remove, false, "the operator of the client removes the path")                                       \
  X(add, false, "the operator adds the path that was removed")                                          \
  X(policy, false, "the multipath policy of the client becomes `number`")                               \
  X(drop, false, "the operator of the server disconnects the path")                                     \
  X(recover, false, "the operator of the client tries at once each path that is down")                  \
  X(leave, false, "the client closes its session")                                                      \
  X(rejoin, false, "the client opens another session")                                                  \
  X(retire, false, "the server closes")                                                                 \
  X(expel, false, "the server closes the session of the client")                                        \
  X(depth, false, "the server's queue depth is `number` from its next start on")                        \
  X(fresh_keys, false, "the server's always_invalidate is `number`, 1 or 0, from its next start on")    \
  X(lie, false, "the liar changes `count` messages that `number` names")                                \
  X(inject, false, "the immediate `value` goes out on a connection of node `client`")                   \
  X(reconnects, false, "a rule: the client's path came back `number` times since the client started")   \
  X(spared, false, "a rule: no request failed")                                                         \
  X(unharmed, false, "a rule: no path of the client was ever lost")                                     \
  X(swallow, false, "connection `con` of the path gets nothing through any more")                       \
  X(let_through, false, "connection `con` of the path gets everything through again")                   \
  X(hang, false, "swallow for good, and neither end ever breaks by itself")                             \
  X(unplug, false, "the adapter of the path is gone, at the client, or at the server for ways=2")       \
  X(plug, false, "the adapter of the path is back")                                                     \
  X(by, false, "a rule: the virtual time is not later than `time`")                                     \
  X(shortage, false, "node `client` cannot have `count` of what it needs, after `number` things")       \
  X(map, false, "the client maps its disk `con`; number=1: for reading only")                           \
  X(unmap, false, "the client unmaps its disk `con`")                                                   \
  X(remap, false, "the client asks for its disk `con` again")                                           \
  X(disk_write, false, "submits `number` sectors from sector `time` of the disk `con`; value=1: FUA")   \
  X(disk_read, false, "submits a read of the disk `con`")                                               \
  X(disk_discard, false, "submits a discard of the disk `con`")                                         \
  X(disk_flush, false, "submits a flush of the disk `con`")                                             \
  X(resize, false, "the disk `con` of the client has `number` sectors from now on")                     \
  X(forbid, false, "the server refuses to open the disk `con` for writing; number=0: not any more")     \
  X(take_away, false, "the operator of the server takes the disk `con` away from its session")          \
  X(fail_sync, false, "the next flush of the disk `con` fails")

struct Step {
  enum class Verb : std::uint8_t {
#define RTRS_SIM_VERB(name, waits, text) name,
    RTRS_SIM_VERBS(RTRS_SIM_VERB)
#undef RTRS_SIM_VERB
  };
  Verb verb = Verb::pass;
  std::uint32_t client = 1;  // node; the first client
  std::uint32_t path = 0;
  std::uint32_t con = 0;
  std::uint32_t ways = 3;
  std::uint32_t number = 0;
  Nanos time = 0;
  Nanos length = 0;
  std::uint32_t at = 0;  // byte of a message
  std::uint32_t size = 0;
  std::uint64_t value = 0;
  std::uint32_t count = 1;

  bool waits() const noexcept;
  bool operator==(const Step&) const = default;
  RTRS_FIELDS(client, path, con, ways, number, time, length, at, size, value, count)
};
using Script = std::vector<Step>;

std::string to_text(const Step&);
// What each verb does, a line each, and the names that `number` may have.
std::string steps_text();
// Nothing for a line that is no step; `why` says what is wrong with it.
std::optional<Step> parse_step(std::string_view line, std::string& why);

// The chances of the network by name and by the number that a step has; nothing, null: there is none.
std::optional<std::uint32_t> rate_named(std::string_view name);
std::uint32_t Rates::*rate_at(std::uint32_t number);

}  // namespace rtrs::sim
