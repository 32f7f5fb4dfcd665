// Actions that a BlockServer hands to its caller, and the results that the caller returns. Sectors are 512
// bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "core/rnbd/server_devices.hpp"

namespace rtrs::block {

// Names one operation (StartStorage, OpenExport, MeasureExport) until its result is given. No other operation
// of the same BlockServer gets the same id before 2^32 further ones have begun. A caller may keep it as a
// plain number, for example in the user data of an IO queue.
enum class OpId : std::uint64_t {};

// Index of the session of the operation.
constexpr std::uint16_t session_of(OpId id) noexcept {
  return static_cast<std::uint16_t>(static_cast<std::uint64_t>(id) >> 48);
}

// --- actions ---
//
// The caller chooses export handles and reports them in ExportOpened::handle.

// Execute this operation on storage; ends with storage_done().
struct StartStorage {
  OpId id{};
  std::uint64_t handle = 0;
  std::uint64_t sector = 0;  // whole logical blocks inside the export's size; 0 for flush
  std::uint32_t bytes = 0;   // > 0; 0 for flush
  std::uint16_t session = 0;
  std::uint16_t prio = 0;  // Linux ioprio; 0 from clients that do not speak RNBD version 2
  wire::rnbd::Opcode opcode = wire::rnbd::Opcode::read;  // never secure_erase
  bool fua = false;       // durable before storage_done() (write, discard, write_zeroes)
  bool preflush = false;  // makes earlier reported writes durable first; never set for a flush
  bool nounmap = false;   // write_zeroes: the blocks stay allocated; otherwise they may be freed
  // Memory of the session, `bytes` long: destination of a read or data of a write; empty for other
  // operations. The caller may use it until storage_done(), even after the client or its connections are
  // lost. Aligned to 4,096 bytes, as O_DIRECT may require, if Fabric::allocate() returns whole pages, as all
  // fabrics in backends/ do.
  std::span<std::byte> data{};
};
// Open the export; ends with export_opened().
struct OpenExport {
  OpId id{};
  std::uint16_t session = 0;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  std::string_view name{};  // as the peer sent it: confine it. Valid until export_opened()
};
// No operation of the export is in flight, and none follows. The caller may free the handle.
struct CloseExport {
  std::uint16_t session = 0;
  std::uint64_t handle = 0;
};
// Query the current size of the export; ends with export_measured().
struct MeasureExport {
  OpId id{};
  std::uint16_t session = 0;
  std::uint64_t handle = 0;
};
// Storage failed to make earlier writes durable. The BlockServer has informed every session that has the
// export open: their flushes fail until the device is closed. Later opens need another instance.
struct CacheDamaged {
  std::uint16_t session = 0;  // session whose operation failed
  std::uint16_t error = 0;    // errno, 1..511
  std::uint64_t handle = 0;
  std::uint64_t export_id = 0;
};
// The first path of a session is connected.
struct SessionOpened {
  std::uint16_t session = 0;
  std::uint64_t serial = 0;  // of the session, from 1; never reused, unlike its index
  std::string_view name{};   // valid until the next poll()
};
// No memory for the devices of the session. The session is being closed and its requests are answered with
// ENOMEM. Neither SessionOpened nor SessionClosed is reported for it.
struct SessionRefused {
  std::uint16_t session = 0;
  std::string_view name{};  // valid until the next poll()
};
// The session has ended. Each of its exports was closed by a CloseExport before this.
struct SessionClosed {
  std::uint16_t session = 0;
  std::uint64_t serial = 0;
  std::uint64_t unknown_flags = 0;  // IOs with undefined flags in rw; executed without these flags
};

using Action = std::variant<StartStorage, OpenExport, CloseExport, MeasureExport, CacheDamaged, SessionOpened,
                            SessionRefused, SessionClosed>;

// --- results ---

// Result of OpenExport. With an error (a positive errno), the other fields are ignored.
struct ExportOpened {
  int error = 0;
  // Handle chosen by the caller, unique among open exports. May be reused after CloseExport.
  std::uint64_t handle = 0;
  // Identity of the export: opens of the same storage have the same number, regardless of name and session.
  std::uint64_t export_id = 0;
  // Instance of the export's cache (rnbd::ExportOpened::instance), after all CacheDamaged actions handed out
  // so far.
  std::uint64_t instance = 0;
  rnbd::Geometry geometry{};
};

}  // namespace rtrs::block
