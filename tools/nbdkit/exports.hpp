// The devices of a session as exports of an NBD server. Decides when each device is opened and closed. Pure:
// has no lock, thread or clock.
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
  bool kept = false;  // the device stays open without users, and the export stays in the list while idle
  State state = State::idle;
  // Mode in which the device was last opened.
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  rnbd::DeviceHandle handle = 0;  // valid unless idle
  // Valid unless idle: the lowest number that was free when the device was last opened.
  unsigned number = 0;
  rnbd::Geometry geometry;  // reported by the last successful open
  unsigned users = 0;       // number of connections that use the device or wait for it
  // Mode in which the device was mapped through the control socket. Connections do not open it in a different
  // mode.
  std::optional<wire::rnbd::AccessMode> mapped_as;
  std::uint64_t openings = 0;  // number of times that an open was started
  std::uint16_t error = 0;     // errno of the last open; 0: it did not fail
  std::uint16_t refusal =
      // Errno with which the server last rejected a reopen; 0: no rejection since the device was open.
      0;
  bool reads_only = false;  // the server has rejected opening for writing
  Nanos unused_since = 0;   // valid while there are no users
};

class Exports {
 public:
  // Time for which a device without users stays open, so that the next connection need not open it again.
  static constexpr Nanos kGrace = seconds(2);

  // Access that a connection requests.
  struct Wish {
    wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
    // The connection accepts read-only access if the server rejects opening for writing.
    bool or_read_only = false;
    // Number (Export::openings) of the open that the connection started or waited for; updated by next().
    std::uint64_t opening = 0;
  };
  enum class Step : std::uint8_t {
    serve,  // the device is open in a suitable mode
    map,    // open the device with mode_for(), then call began()
    unmap,  // close the device, then call ends(); it is open read-only, but the connection wants to write
    wait,   // wait for the next change of the device, then call next() again
    fail,   // the open failed with Export::error
  };

  // Adds an export with `kept` set. The reference is valid until the export is dropped.
  Export& keep(std::string_view name);
  // Adds a user to the export. Creates the export if it does not exist.
  Export& join(std::string_view name);
  // Removes a user from the export, which may drop the export.
  void leave(Export&, Nanos now);

  Step next(const Export&, Wish&) const;
  static wire::rnbd::AccessMode mode_for(const Export&, const Wish&);
  void began(Export&, rnbd::DeviceHandle, wire::rnbd::AccessMode);
  void ends(Export& one) { one.state = Export::State::closing; }

  // Returns nullptr if no export has this handle.
  Export* find(rnbd::DeviceHandle);
  void on_changed(Export&, const rnbd::DeviceChanged&);
  // Drops the export if it is idle, unused and not kept. Returns true if it was dropped.
  bool drop_if_unused(Export&);
  // Returns an export whose device should be closed, because it had no users for kGrace; nullptr if there is
  // none.
  Export* unused(Nanos now);

  const std::list<Export>& all() const noexcept { return all_; }

 private:
  Export& add(std::string_view name);
  unsigned free_number() const;
  std::list<Export> all_;
};

}  // namespace rtrs::nbdkit
