// Explains lost paths: what ended them, what the other side did, and what followed.
#pragma once
#include <vector>

#include "tools/lib/trace/why/facts.hpp"

namespace rtrs::tools::why {

struct Loss {
  Index path = kNone;
  Side side = Side::client;    // whose record it is
  Index at = kNone;            // state change
  Index back = kNone;          // the next one to connected
  Index end = kNone;           // `back`, or the last step that could show it
  bool was_connected = false;  // false: the path could not be connected
  bool closed = false;         // it belongs to the end of the session
  std::string reason;          // code
};

// A session that is closed this soon (ns) after its paths were disconnected by request: the program ended.
inline constexpr std::int64_t kCloses = 100'000'000;

// A message that was sent less than this (ns) before its connection ended may have been in flight.
inline constexpr std::int64_t kInFlight = 10'000'000;

// True if the loss belongs to the end of a session. A server sees of that only that its peer disconnected.
bool is_farewell(const Loss&);
// True if somebody asked for it.
bool is_wanted(const Loss&);
// Returns the losses of all paths in order: those of clients, and those that only the server noticed.
std::vector<Loss> losses_of(const Facts&);
// Returns the most important loss: not wanted, and the longest until the path was connected again. Null if
// every loss was wanted, or there is none.
const Loss* most_important(const Facts&, const std::vector<Loss>&);
// Time until the path was connected again, or until the end of the traces, in ns.
std::int64_t outage(const Facts&, const Loss&);

Answer why_path(const Facts&, const Loss&);
// Says why the path changed its state at this step: its trigger, and what the other side did. `depth`: number
// of further changes to follow.
void say_end(const Facts&, Index change, Answer&, int depth);
// Says why nothing arrived on a path at one side between the common time and the step.
void say_silence(const Facts&, Index path, Side side, std::int64_t from, Index until, Answer&);
// Says what followed: other paths, requests that moved or failed, attempts, the return.
void say_after(const Facts&, const Loss&, Answer&);
// Returns the last change of a path of this machine from connected before the step, or kNone.
Index lost_before(const Facts&, Index step);

}  // namespace rtrs::tools::why
