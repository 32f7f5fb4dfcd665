// Decides how the kernel's NBD devices stay connected: a device whose nbdkit died gets a new connection as
// soon as nbdkit is back, and follows the size of its export. A pure value machine: inputs and the time in,
// actions out. It remembers nothing that the kernel does not: who starts it anew loses nothing.
//
// What the kernel does by itself: it holds IO while a device has no connection, for as long as the device may
// wait. Requests that were under way it sends again over the new connection.
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

using Serial = std::uint64_t;  // of an Open

// Inputs.
struct Listed {  // everything that is attached now
  std::vector<Attached> devices;
};
struct Lost {  // this device has no connection any more
  unsigned index = 0;
};
struct NewsMissed {};  // some device may have none
struct Opened {
  Serial serial = 0;
  Export what;
};
struct NotOpened {
  Serial serial = 0;
  std::string why;
  bool is_dead = false;  // nobody listens at the socket, so that no connection made there lives
};
struct HandedOver {
  unsigned index = 0;
  int error = 0;
};
struct SizeSeen {  // of the export, by whoever serves it
  unsigned index = 0;
  std::uint64_t bytes = 0;
};
struct Resized {
  unsigned index = 0;
  int error = 0;
};
struct Tick {};
using Input = std::variant<Listed, Lost, NewsMissed, Opened, NotOpened, HandedOver, SizeSeen, Resized, Tick>;

// Actions, to be carried out in order.
struct List {};  // answered by Listed
struct Open {    // a connection to the export; answered by Opened or NotOpened
  Serial serial = 0;
  unsigned index = 0;
  std::string socket;
  std::string name;
};
struct HandOver {  // the opened connection; answered by HandedOver
  Serial serial = 0;
  unsigned index = 0;
  Attachment what;
};
struct Close {  // the opened connection, which is of no use
  Serial serial = 0;
};
struct LookAtSize {  // answered by SizeSeen, or not at all
  unsigned index = 0;
  std::string socket;
  std::string name;
};
struct Resize {  // answered by Resized
  unsigned index = 0;
  Attachment what;
  std::uint64_t bytes = 0;
};
struct Detach {  // its time is over
  unsigned index = 0;
  Attachment what;
};
struct Tell {
  enum class Grade : std::uint8_t { info, warning, error };
  Grade grade = Grade::info;
  std::string line;
};
using Action = std::variant<List, Open, HandOver, Close, LookAtSize, Resize, Detach, Tell>;
using Actions = std::vector<Action>;

class Keeper {
 public:
  struct Options {
    Nanos list_pause = seconds(5);  // also between two looks at a size
    Nanos least_pause = milliseconds(50);
    Nanos most_pause = seconds(2);
    // From a new connection to the first change of the size: the kernel makes it between two requests, and
    // those from before the new connection take a while to be sent again.
    Nanos settle = seconds(30);
  };
  enum class State : std::uint8_t {
    unknown,  // it was attached before this began
    connected,
    lost,  //
    over,  // Detach was asked for
  };
  struct Device {
    Attachment what;
    std::uint64_t bytes = 0;
    State state = State::unknown;
    Nanos since = 0;   // in this state
    Serial asked = 0;  // Open or its HandOver under way; 0: none
    Nanos next = 0;    // of Open
    Nanos pause = 0;   // the last one
    bool resizing = false;
    std::string trouble;  // why it has no connection yet
    bool told = false;    // the trouble
  };

  explicit Keeper(Options options) : options_(options) {}

  // `now` never goes back.
  Actions on(const Input&, Nanos now);
  // When a Tick has to come.
  Nanos next_tick() const;

  const std::map<unsigned, Device>& devices() const noexcept { return devices_; }

 private:
  void take(const Listed&, Nanos now);
  void take(const Lost&, Nanos now);
  void take(const NewsMissed&, Nanos now);
  void take(const Opened&, Nanos now);
  void take(const NotOpened&, Nanos now);
  void take(const HandedOver&, Nanos now);
  void take(const SizeSeen&, Nanos now);
  void take(const Resized&, Nanos now);
  void take(const Tick&, Nanos) {}

  Device* find(unsigned index);
  void lose(unsigned index, Device&, Nanos now);
  void again(unsigned index, Device&, const std::string& why, Nanos now);
  void give_up(unsigned index, Device&, const std::string& why, Nanos now);
  void tell_trouble(Tell::Grade, unsigned index, Device&, const std::string& why);
  void settle(unsigned index, Device&, Nanos now);
  void tell(Tell::Grade, unsigned index, const Device&, const std::string& what);

  Options options_;
  std::map<unsigned, Device> devices_;
  Nanos next_list_ = 0;
  Serial serials_ = 0;
  Actions actions_;
};

// Why a device that was attached to `before` cannot go on with `now`; empty: it can. `bytes` of the device.
std::string mismatch(const Attachment& before, std::uint64_t bytes, const Export& now);

}  // namespace rtrs::kernel_nbd
