// Decides which processes serve the wished sessions and which devices each of them maps: what is wished
// against what runs. A pure value machine: inputs and the time in, actions out; whoever drives it starts and
// ends processes, asks them, and writes the state file.
//
// One process serves a session. It is started again when it ends, after a pause that doubles from
// `least_pause` to `most_pause`; one that ran for `calm` begins again with `least_pause`. A device that a
// process refuses is tried again in the same way. Somebody who asks for a device waits for none of these
// pauses and hears of the first refusal, and then the wish is gone.
//
// A Done follows a successful save of the change. To map: the process maps the device, then it is saved; if
// the save fails, the device is unmapped. To unmap: the device is removed from the file, then unmapped; if
// the process refuses, it is saved again. To add or remove a path: the process does it, then it is saved; if
// the save fails, the process undoes it. After a crash at any step, each change that was answered is in
// effect, and each change that was not answered is in effect or is not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/lib/control/mapping/wishes.hpp"

namespace rtrs::mapping {

using Ticket = std::uint64_t;  // of somebody who waits for a Done; 0: nobody does

// Inputs.
struct MapAsked {
  std::string session;
  SessionWish wish;  // used where the session is new; without devices
  std::string device;
  DeviceWish device_wish;
  Ticket ticket = 0;
};
// Of a device whose MapAsked is not answered yet: that one is told ECANCELED.
struct UnmapAsked {
  std::string session;
  std::string device;
  bool force = false;  // also while connections have it
  Ticket ticket = 0;
};
// One more path of a session that is in use, or one less: at once in the process that runs, else from its
// next start on. Errors: ENOENT, EEXIST, ENOSPC (kMaxPaths), EBUSY (the last path), EALREADY (another one is
// not over), EAGAIN (a process that was found has not answered yet), and those of the process.
struct PathAsked {
  std::string session;
  std::string path;  // "[SRC@]DST"; to remove, as the process understands it
  bool add = true;
  bool force = false;  // to remove: also the last connected path
  Ticket ticket = 0;
};
// Try now what waits for its pause to end.
struct Hurry {
  std::string session;
};
// A process of this session runs already; once, before everything else.
struct Found {
  std::string session;
  SessionWish wish{};  // that it was started for; taken where the wishes were lost
};
// The process answers, and has these devices mapped. The first time it is up from then on.
struct Answers {
  std::string session;
  std::vector<std::string> devices;
  std::map<std::string, DeviceWish> modes{};  // of these; looked at where the wishes were lost
  std::vector<std::string> paths{};           // likewise; empty: those that it was started with
};
// The process is gone, or could not be started.
struct Ended {
  std::string session;
};
// The process has carried out a Map or an Unmap. `error`: 0 or an errno.
struct Mapped {
  std::string session;
  std::string device;
  int error = 0;
};
struct Unmapped {
  std::string session;
  std::string device;
  int error = 0;
};
// The process has carried out a ChangePath.
struct PathChanged {
  std::string session;
  std::string path;  // one that was removed, "[SRC@]DST"; of one that was added, by what it can be removed
  int error = 0;
};
// How the last Save ended, before any other input. `error`: 0 or an errno.
struct Saved {
  int error = 0;
};
// Time has passed.
struct Tick {};
using Input = std::variant<MapAsked, UnmapAsked, PathAsked, Hurry, Found, Answers, Ended, Mapped, Unmapped,
                           PathChanged, Saved, Tick>;

// Actions, to be carried out in order.
struct Start {  // answered by Answers or Ended
  std::string session;
};
struct End {  // answered by Ended
  std::string session;
  bool kill = false;  // it did not end when it was asked to
};
struct Map {  // answered by Mapped, unless Ended comes first
  std::string session;
  std::string device;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
};
// A Map that is under way is not wanted any more. No answer of its own: Mapped says how the Map ended.
struct Cancel {
  std::string session;
  std::string device;
};
struct Unmap {  // answered by Unmapped, unless Ended comes first
  std::string session;
  std::string device;
  bool force = false;
};
struct ChangePath {  // answered by PathChanged, unless Ended comes first
  std::string session;
  std::string path;
  bool add = true;
  bool force = false;
};
// Write wishes() to the state file. Always the last action; the next input must be Saved.
struct Save {};
struct Done {
  Ticket ticket = 0;
  int error = 0;         // 0 or an errno
  bool unsaved = false;  // `error` is of the state file, and what was asked for is undone
};
using Action = std::variant<Start, End, Map, Cancel, Unmap, ChangePath, Save, Done>;
using Actions = std::vector<Action>;

class Supervisor {
 public:
  struct Options {
    Nanos least_pause = milliseconds(200);
    Nanos most_pause = seconds(30);
    Nanos calm = seconds(60);
    Nanos start_patience = seconds(30);  // from Start to Answers
    // From End to the next End, which kills: nbdkit waits 40 s for answers to IO that it has sent.
    Nanos end_patience = seconds(60);
    // Of who waits for a process that is asked and says nothing meanwhile.
    Nanos silence = seconds(30);
    Nanos save_pause = seconds(5);  // until a file that could not be written is tried again
    // False: the wishes were lost. What the processes that are found have mapped is wished from then on.
    bool ends_strays = true;
  };
  enum class State : std::uint8_t { absent, starting, up, ending };

  // A change that the next Saved decides.
  enum class Change : std::uint8_t { none, keep, adopt, drop, restore };

  struct Device {
    DeviceWish wish;
    bool wanted = false;
    bool kept = false;    // part of wishes()
    bool mapped = false;  // in the process
    bool asked = false;   // Map or Unmap is under way
    bool there = false;   // the process said that it has it, when it was last asked and nothing was under way
    bool force = false;   // of the next Unmap
    bool dropped = false;  // left out of wishes(); restored if the process refuses the unmap
    Change change = Change::none;
    Ticket ticket = 0;
    Nanos asked_at = 0;    // time of the request of `ticket`
    int outcome = 0;       // errno of the Done of `ticket`, once the device is unmapped
    bool unsaved = false;  // likewise Done::unsaved
    int error = 0;         // of the last refusal
    Nanos not_before = 0;
    Nanos pause = 0;  // the last one
  };
  // A path that is being added or removed.
  struct PathChange {
    enum class Step : std::uint8_t { none, act, save, undo };
    Step step = Step::none;
    bool add = true;
    std::string path;
    std::vector<std::string> before;  // paths of the wish, to go back to
    bool acted = false;               // the process has it
    Ticket ticket = 0;
    Nanos asked_at = 0;
    int error = 0;  // errno of the Done after `undo`
  };
  struct Session {
    SessionWish wish;  // without devices
    std::map<std::string, Device> devices;
    PathChange paths;
    State state = State::absent;
    bool found = false;       // ran already, and has not answered yet
    bool stray = false;       // found where the wishes were lost, and has yet to say what it has mapped
    bool outdated = false;    // its process serves an earlier wish, and has to end first
    Nanos since = 0;          // in this state
    Nanos heard = 0;          // when its process answered last
    Nanos not_before = 0;     // of the next Start
    Nanos pause = 0;          // the last one
    std::uint64_t ended = 0;  // times that the process ended unasked

    // False: what is left of it is on its way out, and its name is free for another wish.
    bool in_use() const;
  };
  // At a time, of a process.
  static constexpr std::size_t kMostAsked = 8;

  Supervisor(const Wishes&, Options);

  // `now` never goes back.
  Actions on(const Input&, Nanos now);
  // When a Tick has to come; kNever: not for now.
  Nanos next_tick() const;

  // What the state file has to hold.
  Wishes wishes() const;
  const std::map<std::string, Session>& sessions() const noexcept { return sessions_; }

 private:
  void take(const MapAsked&, Nanos now);
  void take(const UnmapAsked&, Nanos now);
  void take(const PathAsked&, Nanos now);
  void take(const Hurry&, Nanos now);
  void take(const Found&, Nanos now);
  void take(const Answers&, Nanos now);
  void take(const Ended&, Nanos now);
  void take(const Mapped&, Nanos now);
  void take(const Unmapped&, Nanos now);
  void take(const PathChanged&, Nanos now);
  void take(const Saved&, Nanos now);
  void take(const Tick&, Nanos) {}

  Session* find(const std::string& session);
  Device* find(const std::string& session, const std::string& device);
  void move(Session&, State, Nanos now);
  // Wishes for what its process has.
  void adopt(Session&, const Answers&);
  Nanos longer(Nanos pause) const;
  void done(Device&, int error, bool unsaved = false);
  void done(PathChange&, int error, bool unsaved = false);
  void give_up(Device&, int error);
  void begin_unmap(const std::string& session, const std::string& name, Device&, Nanos now);
  void saved(const std::string& session, const std::string& name, Device&, int error, Nanos now);
  void saved(const std::string& name, Session&, int error);
  void change_paths(Session&);     // those that are wished
  void end_path_change(Session&);  // because its process has ended
  // Who waits for a process that says nothing waits no longer.
  void give_up_on_silence(const std::string& name, Session&, Nanos now);
  Nanos silent_at(const Session&, Nanos asked) const;
  // What is to be done of a session now. False: nothing is left of it.
  bool settle(const std::string& name, Session&, Nanos now);
  void settle_devices(const std::string& name, Session&, Nanos now);
  // When settle() would do something by itself.
  Nanos next_of(const Session&) const;

  Options options_;
  std::map<std::string, Session> sessions_;
  Actions actions_;
  bool save_ = false;       // a Save is due
  Nanos save_at_ = kNever;  // time of the next Save after a failed one
};

const char* to_string(Supervisor::State) noexcept;

}  // namespace rtrs::mapping
