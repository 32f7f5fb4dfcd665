// State machine that makes the running processes match the desired state (`Wishes`): which sessions are
// served, and which devices each process maps. The machine has no side effects: it takes inputs with the
// current time and returns actions. Its driver starts and ends processes, sends them requests, and writes the
// state file.
//
// One process serves one session. If it ends, it is restarted after a pause that doubles from `least_pause`
// to `most_pause`; if it ran for `calm`, the pause is `least_pause` again. A device that a process refuses is
// retried in the same way. A Map request of a user does not wait for these pauses. The first refusal fails
// the request and removes the device from the desired state.
//
// The machine answers a request with Done, whose error is 0 only after the change is saved in the state file.
//  - Map: the process maps the device, then the file is saved. If saving fails, the device is unmapped.
//  - Unmap: the device is removed from the file, then unmapped. If the process refuses, the file is restored.
//  - Add or remove a path: the process changes the path, then the file is saved. If saving fails, the process
//    undoes the change.
//
// After a crash at any step, a change whose Done was sent is in effect; another change may be in effect or
// not.
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

// Inputs of the state machine.
struct DeviceMapRequested {
  std::string session;
  SessionWish wish;  // used if the session is new; its `devices` are empty
  std::string device;
  DeviceWish device_wish;
  Ticket ticket = 0;
};
// Unmaps a device. If a DeviceMapRequested for this device is still pending, that request fails with
// ECANCELED.
struct DeviceUnmapRequested {
  std::string session;
  std::string device;
  bool force = false;  // unmap even if connections use the device
  Ticket ticket = 0;
};
// Adds or removes a path of a session that is in use. Takes effect immediately if the process is up,
// otherwise at its next start. Errors: ENOENT, EEXIST, ENOSPC (kMaxPaths), EBUSY (the last path), EALREADY
// (another path change is in progress), EAGAIN (a process that was found running has not answered yet), and
// errors of the process.
struct PathChangeRequested {
  std::string session;
  std::string path;  // "[SRC@]DST"; for removal, any name that the process accepts
  bool add = true;
  bool force = false;  // remove the path even if it is the last connected one
  Ticket ticket = 0;
};
// Ends all pauses of the session, so that the supervisor retries everything immediately.
struct RetryNow {
  std::string session;
};
// A running process of this session was found. The driver passes in Found once per session, before all other
// inputs.
struct Found {
  std::string session;
  SessionWish wish{};  // the wish with which the process was started; used if the desired state was lost
};
// The process has responded and reported its mapped devices. The first such input moves the session to `up`.
struct Answers {
  std::string session;
  std::vector<std::string> devices;
  std::map<std::string, DeviceWish> modes{};  // modes of the devices; used if the desired state was lost
  // Paths of the process; used if the desired state was lost. Empty: the paths with which it was started.
  std::vector<std::string> paths{};
};
// The process has ended, or could not be started.
struct Ended {
  std::string session;
};
// The process has answered a Map (Mapped) or an Unmap (Unmapped). `error`: 0 or a positive errno.
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
  std::string path;  // removed path as "[SRC@]DST"; or the name with which the added path can be removed
  int error = 0;
};
// Result of the last Save. The driver must pass it in immediately after the Save. `error`: 0 or a positive
// errno.
struct Saved {
  int error = 0;
};
// The time that next_tick() returned has been reached.
struct Tick {};
using Input = std::variant<DeviceMapRequested, DeviceUnmapRequested, PathChangeRequested, RetryNow, Found,
                           Answers, Ended, Mapped, Unmapped, PathChanged, Saved, Tick>;

// Actions, to be carried out in order.
struct Start {  // the driver answers with Answers or Ended
  std::string session;
};
struct End {  // the driver answers with Ended
  std::string session;
  bool kill = false;  // kill the process, because it did not end when requested
};
struct Map {  // the driver answers with Mapped, unless Ended comes first
  std::string session;
  std::string device;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
};
// Cancels a Map in progress. There is no separate answer: the answer Mapped tells whether the device is
// mapped.
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
// Writes the desired state to the state file. Save is always the last action, and the next input must be
// Saved.
struct Save {};
struct Done {
  Ticket ticket = 0;
  int error = 0;         // 0 or a positive errno
  bool unsaved = false;  // the state file could not be written (`error`), and the change was undone
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
    // Time after an End until an End with `kill` follows. Longer than the 40 s that nbdkit itself waits for
    // responses to its in-flight IO.
    Nanos end_timeout = seconds(60);
    // Time after which a request fails if the process does not respond.
    Nanos silence = seconds(30);
    Nanos save_pause = seconds(5);  // pause between a failed save and the next try
    // If false, the desired state was lost. Then the devices that the found processes have mapped become the
    // desired state.
    bool ends_unwanted_processes = true;
  };
  enum class State : std::uint8_t { absent, starting, up, ending };

  // Change of the device that the next Saved completes.
  enum class Change : std::uint8_t { none, keep, adopt, drop, restore };

  struct Device {
    DeviceWish wish;
    bool wanted = false;
    bool kept = false;    // the device is in the saved desired state
    bool mapped = false;  // the process has mapped the device
    bool asked = false;   // a Map or Unmap is in progress
    // The device was mapped in the last Answers that arrived without a pending Map or Unmap.
    bool there = false;
    bool force = false;    // value of `force` for the next Unmap
    bool dropped = false;  // removed from the desired state; restored if the process refuses the unmap
    Change change = Change::none;
    Ticket ticket = 0;
    Nanos asked_at = 0;    // time at which the request of `ticket` was made
    int outcome = 0;       // errno of the Done for `ticket`, which is sent when the device is unmapped
    bool unsaved = false;  // value of Done::unsaved in the Done for `ticket`
    int error = 0;         // errno of the last refusal
    Nanos not_before = 0;
    Nanos pause = 0;  // length of the last pause before a retry
  };
  // A path that is being added or removed.
  struct PathChange {
    enum class Step : std::uint8_t { none, act, save, undo };
    Step step = Step::none;
    bool add = true;
    std::string path;
    std::vector<std::string> before;  // paths in the wish before the change
    bool acted = false;               // the process has carried out the change
    Ticket ticket = 0;
    Nanos asked_at = 0;
    int error = 0;  // errno that Done reports after the step `undo`
  };
  struct Session {
    SessionWish wish;  // SessionWish::devices is empty here; Session::devices is used instead
    std::map<std::string, Device> devices;
    PathChange paths;
    State state = State::absent;
    bool found = false;     // the process was found running and has not answered yet
    bool stray = false;     // like `found`, but the desired state was lost: the answer of the process becomes
                            // the desired state
    bool outdated = false;  // the process serves an earlier wish and must end first
    Nanos since = 0;        // time when the state began
    Nanos heard = 0;        // time of the last Answers
    Nanos not_before = 0;   // earliest time of the next Start
    Nanos pause = 0;        // length of the last pause before a restart
    std::uint64_t ended = 0;  // number of times that the process ended without a request

    // Returns false if no device of the session is wanted. The remaining devices are then being removed, and
    // another wish may reuse the name.
    bool in_use() const;
  };
  // Maximum number of Map and Unmap requests in progress per process.
  static constexpr std::size_t kMaxAsked = 8;

  Supervisor(const Wishes&, Options);

  // `now` must not decrease.
  Actions on(const Input&, Nanos now);
  // Returns the time at which the state machine needs a Tick; kNever if it currently needs none.
  Nanos next_tick() const;

  // Returns the desired state, to be saved in the state file.
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
  void change_paths(Session&);     // updates the paths in the wish and requests a save
  void end_path_change(Session&);  // called when the process has ended
  // Fails requests for which the process has been silent for too long.
  void give_up_on_silence(const std::string& name, Session&, Nanos now);
  Nanos silent_at(const Session&, Nanos asked) const;
  // Starts the actions of the session that are due. Returns false if the session can be removed.
  bool settle(const std::string& name, Session&, Nanos now);
  void settle_devices(const std::string& name, Session&, Nanos now);
  // Returns the earliest time at which settle() has something to do without another input.
  Nanos next_of(const Session&) const;

  Options options_;
  std::map<std::string, Session> sessions_;
  Actions actions_;
  bool save_ = false;       // the current step must end with a Save action
  Nanos save_at_ = kNever;  // time of the next Save after a failed one
};

const char* to_string(Supervisor::State) noexcept;

}  // namespace rtrs::mapping
