// Script of a directed world. A step waits for a condition or performs an action; a wait delays all steps
// after it. In text form, a step is one line: the verb, then the words that differ from their defaults:
//   connections path=1 number=2      wait until the server holds 2 connections of path 1
//   cut path=1 ways=1                cut path 1 in the direction to the server
//   pass time=40s                    wait 40 s
// Depending on the verb, `number` may also be the name of a rate, a reason, a mark or a falsification (a
// "lie", see sim/net/basic/corrupting_fabric.hpp). Times have a unit.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/reflect.hpp"
#include "core/proto/ids.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {

// X(verb, waits, words, description). A word is a member of Step, or NAME:MEMBER if the text uses a different
// name.
#define RTRS_SIM_VERBS(X)                                                                                    \
  X(until, true, "time", "the virtual time is `time`")                                                       \
  X(pass, true, "time", "`time` has passed since the step before")                                           \
  X(connected, true, "client path", "the client's path is connected")                                        \
  X(lost, true, "client path", "the client's path is not connected")                                         \
  X(serving, true, "client path", "the server's end of the path is connected")                               \
  X(forgotten, true, "client path", "the server has no connection of the path")                              \
  X(connections, true, "client path number", "the server has at least `number` connections of the path")     \
  X(submitted, true, "number", "the clients have submitted `number` requests since the start")               \
  X(delivered, true, "number", "`number` requests have reached storage since the start")                     \
  X(completed, true, "number", "`number` requests have completed")                                           \
  X(errors, true, "number", "`number` requests have failed")                                                 \
  X(link_up, true, "client", "the client has a connected path")                                              \
  X(link_down, true, "client", "the client has no connected path")                                           \
  X(ended, true, "client path number", "the client's path was lost for the reason `number`")                 \
  X(dropped, true, "client path number", "the server's end of the path was lost for the reason `number`")    \
  X(reached, true, "number", "the run has passed the mark `number`")                                         \
  X(held, true, "number", "storage has at least `number` requests in progress")                              \
  X(sessions, true, "number", "the server has `number` sessions")                                            \
  X(gone, true, "client", "the client has closed its session")                                               \
  X(retired, true, "", "the server has closed")                                                              \
  X(cut, false, "client path ways", "cuts the path; `ways` 1: to the server, 2: to the client, 3: both")     \
  X(heal, false, "client path ways", "heals the path")                                                       \
  X(break_con, false, "client path con ways",                                                                \
    "breaks connection `con` of the path, at the client (ways=1) or server (ways=2)")                        \
  X(break_path, false, "client path ways", "breaks all connections of the path")                             \
  X(starve, false, "client path ways time", "delays heartbeats of the path by `time`")                       \
  X(slow, false, "client path time", "every message of the path takes `time` longer")                        \
  X(crash, false, "client number", "crashes client `client`, or the server for 0; `number` 1: orderly")      \
  X(restart, false, "client", "restarts client `client`, or the server for 0")                               \
  X(pause, false, "client time", "pauses node `client` for `time`")                                          \
  X(write, false, "client affinity:con number sector:time",                                                  \
    "submits a write of `number` sectors from `sector` on, with new content")                                \
  X(read, false, "client affinity:con number sector:time",                                                   \
    "submits a read of `number` sectors from `sector` on")                                                   \
  X(storage, false, "number time length",                                                                    \
    "the next `number` requests take effect after `time` and end after `length`")                            \
  X(storage_fails, false, "number errno:time", "the next `number` requests fail with `errno`")               \
  X(rate, false, "number per_million:time", "sets rate `number` of the network to `per_million`")            \
  X(disconnect, false, "client path", "the operator of the client disconnects the path")                     \
  X(reconnect, false, "client path", "the operator of the client reconnects the path")                       \
  X(remove, false, "client path", "the operator of the client removes the path")                             \
  X(add, false, "client path", "the operator adds the removed path again")                                   \
  X(policy, false, "client number", "the multipath policy of the client becomes `number`")                   \
  X(drop, false, "client path", "the operator of the server disconnects the path")                           \
  X(recover, false, "client", "the operator of the client reconnects at once each path that is down")        \
  X(leave, false, "client", "the client closes its session")                                                 \
  X(rejoin, false, "client", "the client opens another session")                                             \
  X(retire, false, "", "the server closes")                                                                  \
  X(expel, false, "client", "the server closes the session of the client")                                   \
  X(depth, false, "number", "the server's queue depth is `number` from its next start on")                   \
  X(fresh_keys, false, "number",                                                                             \
    "the server's always_invalidate is `number`, 1 or 0, from its next start on")                            \
  X(lie, false, "client path con number at size value count",                                                \
    "the liar sets `size` bytes at `at` to `value` in `count` messages of kind `number`; size 0: truncates " \
    "there")                                                                                                 \
  X(inject, false, "client path con value count",                                                            \
    "node `client` sends the immediate `value` on a connection")                                             \
  X(reconnects, false, "client path number",                                                                 \
    "a rule: the client's path has reconnected `number` times since the client started")                     \
  X(spared, false, "", "a rule: no request failed")                                                          \
  X(unharmed, false, "client", "a rule: no path of the client was ever lost")                                \
  X(swallow, false, "client path con ways", "drops all traffic of connection `con` of the path")             \
  X(let_through, false, "client path con ways", "ends swallow for connection `con` of the path")             \
  X(hang, false, "client path con ways",                                                                     \
    "drops all traffic of the connection permanently; neither end ever breaks")                              \
  X(unplug, false, "client path ways",                                                                       \
    "removes the adapter of the path, at the client, or at the server for ways=2")                           \
  X(plug, false, "client path ways", "plugs the adapter of the path in again")                               \
  X(by, false, "time", "a rule: the virtual time is not later than `time`")                                  \
  X(shortage, false, "client number count",                                                                  \
    "`count` resource requests of node `client` fail, after `number` that succeed")                          \
  X(map, false, "client disk:con read_only:number", "the client maps its disk; read_only=1: read-only")      \
  X(unmap, false, "client disk:con", "the client unmaps its disk")                                           \
  X(remap, false, "client disk:con", "the client reopens its disk")                                          \
  X(disk_write, false, "client disk:con sectors:number sector:time fua:value",                               \
    "submits `sectors` from `sector` of the disk on; fua=1: with FUA")                                       \
  X(disk_read, false, "client disk:con sectors:number sector:time", "submits a read of the disk")            \
  X(disk_discard, false, "client disk:con sectors:number sector:time fua:value",                             \
    "submits a discard of the disk")                                                                         \
  X(disk_flush, false, "client disk:con", "submits a flush of the disk")                                     \
  X(resize, false, "client disk:con sectors:number", "the disk has `sectors` from now on")                   \
  X(forbid, false, "client disk:con number", "number=1: the server opens the disk read-only; 0: ends that")  \
  X(take_away, false, "client disk:con", "the operator of the server takes the disk away from its session")  \
  X(fail_sync, false, "client disk:con", "the next flush of the disk fails")

struct Step {
  enum class Verb : std::uint8_t {
#define RTRS_SIM_VERB(name, waits, words, text) name,
    RTRS_SIM_VERBS(RTRS_SIM_VERB)
#undef RTRS_SIM_VERB
  };
  Verb verb = Verb::pass;
  std::uint32_t client = 1;  // node of the step; default: the first client
  std::uint32_t path = 0;
  std::uint32_t con = 0;
  std::uint32_t ways = 3;
  std::uint32_t number = 0;
  Nanos time = 0;
  Nanos length = 0;
  std::uint32_t at = 0;  // byte offset in a message
  std::uint32_t size = 0;
  std::uint64_t value = 0;
  std::uint32_t count = 1;

  bool waits() const noexcept;
  bool operator==(const Step&) const = default;
  RTRS_FIELDS(client, path, con, ways, number, time, length, at, size, value, count)
};
using Script = std::vector<Step>;

inline constexpr std::uint32_t kMostDepth = 64;      // maximum queue depth
inline constexpr std::uint32_t kLongestRequest = 8;  // maximum size of a write or read, in sectors or blocks
inline constexpr std::uint32_t kSmallestDisk = 8, kLargestDisk = 256;  // limits of resize, in sectors

std::string to_text(const Step&);
// Returns the name of the step's verb.
std::string_view verb_of(const Step&) noexcept;
// Returns the name of this member of Step in the text; empty if the verb does not take it.
std::string_view word_of(const Step&, std::string_view member);
// True if the step concerns one of the disks that `workload.disks` gives each client.
bool is_of_disk(const Step&) noexcept;
// True if the step causes or ends a fault. Steps of processes and operators have their own journal entries.
bool is_fault(const Step&) noexcept;
// Help text: each verb with its words, one per line, and the names that `number` may have.
std::string steps_text();
// Returns nullopt for an invalid line, with the reason in `why`.
std::optional<Step> parse_step(std::string_view line, std::string& why);

// Network rates by name and by step number; nullopt or nullptr if there is none.
std::optional<std::uint32_t> rate_named(std::string_view name);
std::uint32_t Rates::*rate_at(std::uint32_t number);

}  // namespace rtrs::sim
