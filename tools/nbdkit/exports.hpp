// Devices of a session as exports of an NBD server: decides when each is opened and closed. Pure: has no
// lock, thread or clock.
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
  bool kept = false;  // stays open without users, and stays in the list while idle
  State state = State::idle;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;  // mode of the last opening
  rnbd::DeviceHandle handle = 0;                                    // valid unless idle
  unsigned number = 0;      // valid unless idle: lowest number that was free when the opening began
  rnbd::Geometry geometry;  // from the last successful open
  unsigned users = 0;       // connections that use it or wait for it
  // Mode of a mapping through the control socket; connections do not open it in another mode.
  std::optional<wire::rnbd::AccessMode> mapped_as;
  std::uint64_t openings = 0;  // number of openings begun
  std::uint16_t error = 0;     // errno of the last opening; 0: it did not fail
  std::uint16_t refusal =
      0;  // last errno with which the server rejected a reopen; 0: none since the device was open
  bool reads_only = false;  // the server rejected opening for writing
  Nanos unused_since = 0;   // valid without users
};

class Exports {
 public:
  // An unused device stays open for this time, so that the next connection need not open it again.
  static constexpr Nanos kGrace = seconds(2);

  // Request of a connection.
  struct Wish {
    wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write;
    // Accepts read-only if the server rejects opening for writing.
    bool or_read_only = false;
    std::uint64_t opening = 0;  // opening that the connection began or waited for; updated by next()
  };
  enum class Step : std::uint8_t {
    serve,  // the device is open in a suitable mode
    map,    // open the device with mode_for(), then call began()
    unmap,  // close the device, then call ends(): it is open read-only, but writing was requested
    wait,   // call next() again after the next change
    fail,   // report Export::error
  };

  // Adds an export that is kept. The reference is valid until the export is dropped.
  Export& keep(std::string_view name);
  // Adds a user to the export; creates the export if necessary.
  Export& join(std::string_view name);
  // Removes a user; may drop the export.
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
  // Returns an export that should be closed, because it was unused for kGrace; nullptr if there is none.
  Export* unused(Nanos now);

  const std::list<Export>& all() const noexcept { return all_; }

 private:
  Export& add(std::string_view name);
  unsigned free_number() const;
  std::list<Export> all_;
};

}  // namespace rtrs::nbdkit
