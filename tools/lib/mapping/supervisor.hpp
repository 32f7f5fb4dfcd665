// Decides which processes serve the wished sessions and which devices each of them maps: what is wished
// against what runs. A pure value machine: inputs and the time in, actions out; whoever drives it starts and
// ends processes, asks them, and writes the state file.
//
// One process serves a session. It is started again when it ends, after a pause that doubles from
// `least_pause` to `most_pause`; one that ran for `calm` begins again with `least_pause`. A device that a
// process refuses is tried again in the same way. Somebody who asks for a device waits for none of these
// pauses and hears of the first refusal, and then the wish is gone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/lib/mapping/wishes.hpp"

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
// Time has passed.
struct Tick {};
using Input = std::variant<MapAsked, UnmapAsked, Hurry, Found, Answers, Ended, Mapped, Unmapped, Tick>;

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
// wishes() have changed: write them before the Done that follows is told.
struct Save {};
struct Done {
  Ticket ticket = 0;
  int error = 0;  // 0 or an errno
};
using Action = std::variant<Start, End, Map, Cancel, Unmap, Save, Done>;
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
    // False: the wishes were lost. What the processes that are found have mapped is wished from then on.
    bool ends_strays = true;
  };
  enum class State : std::uint8_t { absent, starting, up, ending };

  struct Device {
    DeviceWish wish;
    bool wanted = false;
    bool kept = false;    // part of wishes()
    bool mapped = false;  // in the process
    bool asked = false;   // Map or Unmap is under way
    bool there = false;   // the process said that it has it, when it was last asked and nothing was under way
    bool force = false;   // of the next Unmap
    Ticket ticket = 0;
    int error = 0;  // of the last refusal
    Nanos not_before = 0;
    Nanos pause = 0;  // the last one
  };
  struct Session {
    SessionWish wish;  // without devices
    std::map<std::string, Device> devices;
    State state = State::absent;
    bool stray = false;       // found where the wishes were lost, and has yet to say what it has mapped
    bool outdated = false;    // its process serves an earlier wish, and has to end first
    Nanos since = 0;          // in this state
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
  void take(const Hurry&, Nanos now);
  void take(const Found&, Nanos now);
  void take(const Answers&, Nanos now);
  void take(const Ended&, Nanos now);
  void take(const Mapped&, Nanos now);
  void take(const Unmapped&, Nanos now);
  void take(const Tick&, Nanos) {}

  Session* find(const std::string& session);
  Device* find(const std::string& session, const std::string& device);
  void move(Session&, State, Nanos now);
  // Wishes for what its process has.
  void adopt(Session&, const Answers&);
  Nanos longer(Nanos pause) const;
  void done(Device&, int error);
  void give_up(Device&, int error);
  // What is to be done of a session now. False: nothing is left of it.
  bool settle(const std::string& name, Session&, Nanos now);
  void settle_devices(const std::string& name, Session&, Nanos now);
  // When settle() would do something by itself.
  Nanos next_of(const Session&) const;

  Options options_;
  std::map<std::string, Session> sessions_;
  Actions actions_;
};

const char* to_string(Supervisor::State) noexcept;

}  // namespace rtrs::mapping
