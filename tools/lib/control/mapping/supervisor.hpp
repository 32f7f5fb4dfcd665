// State machine that makes the running processes match the desired state (`Wishes`): which sessions are
// served, and which devices each process maps. The machine is a value: inputs and time in, actions out. The
// driver starts and ends processes, sends them requests, and writes the state file.
//
// One process serves one session. If it ends, it is restarted after a pause that doubles from `least_pause`
// to `most_pause`; if it ran for `calm`, the pause is `least_pause` again. A device that a process refuses is
// retried in the same way. A Map request of a user does not wait for these pauses. The first refusal fails
// the request and removes the device from the desired state.
//
// Done with error 0 is sent only after the change is saved.
//  - Map: the process maps the device, then the file is saved. If saving fails, the device is unmapped.
//  - Unmap: the device is removed from the file, then unmapped. If the process refuses, the file is restored.
//  - Add or remove a path: the process does it, then the file is saved. If saving fails, it is undone.
//
// After a crash at any step, each change with a Done is in effect; a change without a Done may be in effect
// or not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/lib/control/mapping/desired_state.hpp"

namespace rtrs::mapping {

using Ticket = std::uint64_t;  // identifies a request that waits for a Done; 0: no Done is sent

// Inputs.
struct DeviceMapRequested {
  std::string session;
  SessionWish wish;  // used if the session is new; has no devices
  std::string device;
  DeviceWish device_wish;
  Ticket ticket = 0;
};
// If the DeviceMapRequested of the device is still pending, that request fails with ECANCELED.
struct DeviceUnmapRequested {
  std::string session;
  std::string device;
  bool force = false;  // also if connections use the device
  Ticket ticket = 0;
};
// Adds or removes a path of a session that is in use. Takes effect at once if the process is up, otherwise at
// its next start. Errors: ENOENT, EEXIST, ENOSPC (kMaxPaths), EBUSY (the last path), EALREADY (another path
// change is in progress), EAGAIN (a found process has not answered yet), and errors of the process.
struct PathChangeRequested {
  std::string session;
  std::string path;  // "[SRC@]DST"; to remove: any name that the process accepts
  bool add = true;
  bool force = false;  // to remove: also if it is the last connected path
  Ticket ticket = 0;
};
// Ends all pauses of the session: retries at once.
struct RetryNow {
  std::string session;
};
// A process of this session already runs. Given once per session, before all other inputs.
struct Found {
  std::string session;
  SessionWish wish{};  // wish that it was started for; used if the desired state was lost
};
// The process responds and reports its mapped devices. The first such input moves the session to `up`.
struct Answers {
  std::string session;
  std::vector<std::string> devices;
  std::map<std::string, DeviceWish> modes{};  // modes of the devices; used if the desired state was lost
  // Paths of the process; used if the desired state was lost. Empty: the paths it was started with.
  std::vector<std::string> paths{};
};
// The process has ended, or could not be started.
struct Ended {
  std::string session;
};
// Mapped, Unmapped: the process has answered a Map or an Unmap. `error`: 0 or a positive errno.
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
// The process has answered a ChangePath.
struct PathChanged {
  std::string session;
  std::string path;  // removed path as "[SRC@]DST"; or the name by which the added path can be removed
  int error = 0;
};
// Result of the last Save; must be the next input after it. `error`: 0 or a positive errno.
struct Saved {
  int error = 0;
};
// The time next_tick() is reached.
struct Tick {};
using Input = std::variant<DeviceMapRequested, DeviceUnmapRequested, PathChangeRequested, RetryNow, Found,
                           Answers, Ended, Mapped, Unmapped, PathChanged, Saved, Tick>;

// Actions, to be carried out in order.
struct Start {  // the driver answers with Answers or Ended
  std::string session;
};
struct End {  // the driver answers with Ended
  std::string session;
  bool kill = false;  // kill it, because it did not end when requested
};
struct Map {  // the driver answers with Mapped, unless Ended comes first
  std::string session;
  std::string device;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
};
// Cancels a Map in progress. Has no separate answer: Mapped has the result of the Map.
struct Cancel {
  std::string session;
  std::string device;
};
struct Unmap {  // the driver answers with Unmapped, unless Ended comes first
  std::string session;
  std::string device;
  bool force = false;
};
struct ChangePath {  // the driver answers with PathChanged, unless Ended comes first
  std::string session;
  std::string path;
  bool add = true;
  bool force = false;
};
// Write the desired state to the state file. Always the last action; the next input must be Saved.
struct Save {};
struct Done {
  Ticket ticket = 0;
  int error = 0;         // 0 or a positive errno
  bool unsaved = false;  // `error` is from writing the state file; the change is undone
};
using Action = std::variant<Start, End, Map, Cancel, Unmap, ChangePath, Save, Done>;
using Actions = std::vector<Action>;

class Supervisor {
 public:
  struct Options {
    Nanos least_pause = milliseconds(200);
    Nanos most_pause = seconds(30);
    Nanos calm = seconds(60);
    Nanos start_timeout = seconds(30);  // time limit from Start to Answers
    // Time limit from End to an End with `kill`. nbdkit itself waits 40 s for responses to its in-flight IO.
    Nanos end_timeout = seconds(60);
    // Time limit of a request while the process does not respond.
    Nanos silence = seconds(30);
    Nanos save_pause = seconds(5);  // from a failed save to the next try
    // False: the desired state was lost, so the devices that the found processes have mapped become the
    // desired state.
    bool ends_unwanted_processes = true;
  };
  enum class State : std::uint8_t { absent, starting, up, ending };

  // Change of a device that waits for the next Saved.
  enum class Change : std::uint8_t { none, keep, adopt, drop, restore };

  struct Device {
    DeviceWish wish;
    bool wanted = false;
    bool kept = false;     // part of the desired state
    bool mapped = false;   // mapped in the process
    bool asked = false;    // a Map or Unmap is in progress
    bool there = false;    // mapped, according to the last Answers received while no Map or Unmap was pending
    bool force = false;    // `force` of the next Unmap
    bool dropped = false;  // removed from the desired state; restored if the process refuses the unmap
    Change change = Change::none;
    Ticket ticket = 0;
    Nanos asked_at = 0;    // time of the request of `ticket`
    int outcome = 0;       // errno for the Done of `ticket`, sent once the device is unmapped
    bool unsaved = false;  // Done::unsaved for the Done of `ticket`
    int error = 0;         // errno of the last refusal
    Nanos not_before = 0;
    Nanos pause = 0;  // last pause before a retry
  };
  // A path that is being added or removed.
  struct PathChange {
    enum class Step : std::uint8_t { none, act, save, undo };
    Step step = Step::none;
    bool add = true;
    std::string path;
    std::vector<std::string> before;  // paths of the wish before the change
    bool acted = false;               // the process has made the change
    Ticket ticket = 0;
    Nanos asked_at = 0;
    int error = 0;  // errno of the Done after `undo`
  };
  struct Session {
    SessionWish wish;  // its `devices` is empty
    std::map<std::string, Device> devices;
    PathChange paths;
    State state = State::absent;
    bool found = false;  // its process was found running and has not answered yet
    bool stray = false;  // like `found`, and the desired state was lost: its answer becomes the desired state
    bool outdated = false;    // its process serves an earlier wish and must end first
    Nanos since = 0;          // time when the state began
    Nanos heard = 0;          // time of the last Answers
    Nanos not_before = 0;     // earliest time of the next Start
    Nanos pause = 0;          // last pause before a restart
    std::uint64_t ended = 0;  // number of times that the process ended unasked

    // False if no device of the session is wanted: the rest is being removed, and another wish may use the
    // name.
    bool in_use() const;
  };
  // Maximum number of Map and Unmap requests in progress per process.
  static constexpr std::size_t kMaxAsked = 8;

  Supervisor(const Wishes&, Options);

  // `now` must not decrease.
  Actions on(const Input&, Nanos now);
  // Time at which the machine needs a Tick; kNever: none needed now.
  Nanos next_tick() const;

  // The desired state to save in the state file.
  Wishes wishes() const;
  const std::map<std::string, Session>& sessions() const noexcept { return sessions_; }

 private:
  void take(const DeviceMapRequested&, Nanos now);
  void take(const DeviceUnmapRequested&, Nanos now);
  void take(const PathChangeRequested&, Nanos now);
  void take(const RetryNow&, Nanos now);
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
  // Makes the devices and paths of the process the desired state of the session.
  void adopt(Session&, const Answers&);
  Nanos longer(Nanos pause) const;
  void done(Device&, int error, bool unsaved = false);
  void done(PathChange&, int error, bool unsaved = false);
  void give_up(Device&, int error);
  void begin_unmap(const std::string& session, const std::string& name, Device&, Nanos now);
  void saved(const std::string& session, const std::string& name, Device&, int error, Nanos now);
  void saved(const std::string& name, Session&, int error);
  void change_paths(Session&);     // updates the wished paths and requests a save
  void end_path_change(Session&);  // called when the process has ended
  // Fails requests for which the process has been silent for too long.
  void give_up_on_silence(const std::string& name, Session&, Nanos now);
  Nanos silent_at(const Session&, Nanos asked) const;
  // Takes the actions of the session that are due. Returns false if the session can be removed.
  bool settle(const std::string& name, Session&, Nanos now);
  void settle_devices(const std::string& name, Session&, Nanos now);
  // Earliest time at which settle() has something to do without another input.
  Nanos next_of(const Session&) const;

  Options options_;
  std::map<std::string, Session> sessions_;
  Actions actions_;
  bool save_ = false;       // a Save is due
  Nanos save_at_ = kNever;  // time of the next Save after a failed one
};

const char* to_string(Supervisor::State) noexcept;

}  // namespace rtrs::mapping
