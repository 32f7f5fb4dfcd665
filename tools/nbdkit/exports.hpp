// The devices of a session as the exports of an NBD server: when each is opened and closed. Decisions only:
// no lock, thread or clock.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"
#include "core/rnbd/client_devices.hpp"

namespace rtrs::nbdkit {

struct Export {
  enum class State : std::uint8_t { idle, opening, open, closing };
  std::string name;
  bool kept = false;  // stays open once it is, and is remembered when it is not
  State state = State::idle;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;  // of the last opening
  rnbd::DeviceHandle handle = 0;                                    // unless idle
  unsigned number = 0;      // unless idle: the lowest that no other had when its opening began
  rnbd::Geometry geometry;  // of the last open
  unsigned users = 0;       // connections that have it or wait for it
  // Of who mapped it by hand: no connection opens it in another one.
  std::optional<wire::rnbd::AccessMode> mapped_as;
  std::uint64_t openings = 0;  // that began
  std::uint16_t error = 0;     // of the last opening, if that failed
  std::uint16_t refusal = 0;   // that was told last, since the device was open
  bool reads_only = false;     // the server does not open it for writing
  Nanos unused_since = 0;      // without users
};

class Exports {
 public:
  // A device that no connection uses any more stays open for this long, for the next one.
  static constexpr Nanos kGrace = seconds(2);

  // What a connection asks for.
  struct Wish {
    wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
    // Read-only will do, where the server has write-protected the device.
    bool or_read_only = false;
    std::uint64_t opening = 0;  // that the connection began or waited for; kept by next()
  };
  enum class Step : std::uint8_t {
    serve,  // the device is open, in a mode that will do
    map,    // open it, with mode_for(), then began()
    unmap,  // close it, then ends(): it is open read-only, and somebody wants to write
    wait,   // ask again after the next change
    fail,   // with Export::error
  };

  // Stays where it is until it is dropped.
  Export& keep(std::string_view name);
  // One more connection asks for it.
  Export& join(std::string_view name);
  // A connection does without it; may drop the export.
  void leave(Export&, Nanos now);

  Step next(const Export&, Wish&) const;
  static wire::rnbd::AccessMode mode_for(const Export&, const Wish&);
  void began(Export&, rnbd::DeviceHandle, wire::rnbd::AccessMode);
  void ends(Export& one) { one.state = Export::State::closing; }

  // nullptr: nobody has this handle.
  Export* find(rnbd::DeviceHandle);
  void on_changed(Export&, const rnbd::DeviceChanged&);
  // True: nobody needs it any more, and it is gone.
  bool drop_if_unused(Export&);
  // One that is to be closed by now, because nobody used it during kGrace; nullptr: there is none.
  Export* unused(Nanos now);

  const std::list<Export>& all() const noexcept { return all_; }

 private:
  Export& add(std::string_view name);
  unsigned free_number() const;
  std::list<Export> all_;
};

}  // namespace rtrs::nbdkit
