// State machine that keeps kernel NBD devices connected. If the nbdkit of a device dies, the device gets a
// new connection as soon as nbdkit runs again. If the size of the export changes, the device is resized. The
// machine has no side effects: it takes inputs with the current time and returns actions. The kernel stores
// everything that has to survive, so the machine can be restarted at any time.
//
// While a device has no connection, the kernel holds its IO, but only for the device's time `wait`. The
// kernel sends in-flight requests again over the new connection.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/proto/ids.hpp"
#include "tools/lib/control/kernel_nbd/attachment.hpp"
#include "tools/lib/control/kernel_nbd/handshake.hpp"

namespace rtrs::kernel_nbd {

using Serial = std::uint64_t;  // identifies an Open and the answer to it

// Inputs of the state machine.
struct Listed {  // result of List: all devices that are attached now
  std::vector<Attached> devices;
};
struct Lost {  // the kernel reported that the device lost its connection
  unsigned index = 0;
};
struct NewsMissed {};  // events were lost, so any device may have lost its connection
struct Opened {
  Serial serial = 0;
  Export what;
};
struct NotOpened {
  Serial serial = 0;
  std::string why;
  // No process listens on the socket, so all earlier connections to the socket are closed.
  bool is_dead = false;
};
struct HandedOver {
  unsigned index = 0;
  int error = 0;
};
struct SizeReported {  // size of the export, as its nbdkit reports it
  unsigned index = 0;
  std::uint64_t bytes = 0;
};
struct Resized {
  unsigned index = 0;
  int error = 0;
};
struct Tick {};
using Input =
    std::variant<Listed, Lost, NewsMissed, Opened, NotOpened, HandedOver, SizeReported, Resized, Tick>;

// Actions, to be carried out in order.
struct List {};  // the driver answers with Listed
struct Open {    // connect to the export; the driver answers with Opened or NotOpened
  Serial serial = 0;
  unsigned index = 0;
  std::string socket;
  std::string name;
};
struct HandOver {  // give the opened connection to the kernel; the driver answers with HandedOver
  Serial serial = 0;
  unsigned index = 0;
  Attachment what;
};
struct Close {  // close the opened connection, which is not needed
  Serial serial = 0;
};
struct QuerySize {  // query the size of the export; the driver answers with SizeReported or not at all
  unsigned index = 0;
  std::string socket;
  std::string name;
};
struct Resize {  // the driver reports the result as Resized
  unsigned index = 0;
  Attachment what;
  std::uint64_t bytes = 0;
};
struct Detach {  // the device had no connection for too long
  unsigned index = 0;
  Attachment what;
};
struct Tell {
  enum class Grade : std::uint8_t { info, warning, error };
  Grade grade = Grade::info;
  std::string line;
};
using Action = std::variant<List, Open, HandOver, Close, QuerySize, Resize, Detach, Tell>;
using Actions = std::vector<Action>;

class Keeper {
 public:
  struct Options {
    Nanos list_pause = seconds(5);  // pause between two List actions, and two size queries of a device
    Nanos least_pause = milliseconds(50);
    Nanos most_pause = seconds(2);
    // Time from a new connection to the first resize. The kernel can only resize between two requests, and
    // first sends the requests of the old connection again, which takes some time.
    Nanos settle = seconds(30);
  };
  enum class State : std::uint8_t {
    unknown,  // the device was attached before the machine started, and it may or may not have a connection
    connected,
    lost,
    over,  // the device is being detached
  };
  struct Device {
    Attachment what;
    std::uint64_t bytes = 0;
    State state = State::unknown;
    Nanos since = 0;   // time when the state began
    Serial asked = 0;  // number of the Open in progress, until HandedOver; 0: none
    Nanos next = 0;    // time of the next Open action
    Nanos pause = 0;   // last pause between attempts, doubled after each failure
    bool resizing = false;
    std::string trouble;  // reason why the last attempt failed
    bool told = false;    // `trouble` was logged
  };

  explicit Keeper(Options options) : options_(options) {}

  // `now` must not decrease.
  Actions on(const Input&, Nanos now);
  // Returns the time at which the state machine needs a Tick.
  Nanos next_tick() const;

  const std::map<unsigned, Device>& devices() const noexcept { return devices_; }

 private:
  void take(const Listed&, Nanos now);
  void take(const Lost&, Nanos now);
  void take(const NewsMissed&, Nanos now);
  void take(const Opened&, Nanos now);
  void take(const NotOpened&, Nanos now);
  void take(const HandedOver&, Nanos now);
  void take(const SizeReported&, Nanos now);
  void take(const Resized&, Nanos now);
  void take(const Tick&, Nanos) {}

  Device* find(unsigned index);
  void lose(unsigned index, Device&, Nanos now);
  void again(unsigned index, Device&, const std::string& why, Nanos now);
  void give_up(unsigned index, Device&, const std::string& why, Nanos now);
  void log_trouble(Tell::Grade, unsigned index, Device&, const std::string& why);
  void settle(unsigned index, Device&, Nanos now);
  void tell(Tell::Grade, unsigned index, const Device&, const std::string& what);

  Options options_;
  std::map<unsigned, Device> devices_;
  Nanos next_list_ = 0;
  Serial serials_ = 0;
  Actions actions_;
};

// Returns the reason why a device of `bytes` bytes that was attached to `before` cannot continue with the
// export `now`; an empty string if it can.
std::string mismatch(const Attachment& before, std::uint64_t bytes, const Export& now);

}  // namespace rtrs::kernel_nbd
