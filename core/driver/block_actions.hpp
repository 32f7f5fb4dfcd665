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

// Identifies one operation (StartStorage, OpenExport, MeasureExport) until its result is given. A BlockServer
// reuses an id only after 2^32 further operations have begun. A caller may store the id as a plain number,
// for example in the user data of an IO queue.
enum class OpId : std::uint64_t {};

// Returns the index of the session to which the operation belongs.
constexpr std::uint16_t session_of(OpId id) noexcept {
  return static_cast<std::uint16_t>(static_cast<std::uint64_t>(id) >> 48);
}

// --- actions ---
//
// Most actions are those of the RNBD state machine (core/rnbd/server_devices.hpp), plus their session. Their
// fields `request` and `operation` are internal. The caller chooses export handles and reports them in
// ExportOpened::handle.

// Execute this operation on storage; ends with storage_done().
struct StartStorage : rnbd::Storage {
  OpId id{};
  std::uint16_t session = 0;
  // Session memory, `bytes` long: destination of a read or data of a write; empty for other
  // operations. The caller may use it until storage_done(), even after the client or its connections are
  // lost. Aligned to 4,096 bytes, as O_DIRECT may require, if Fabric::allocate() returns whole pages, as all
  // fabrics in backends/ do.
  std::span<std::byte> data{};
};
// Open the export; ends with export_opened(). `name` is valid until then.
struct OpenExport : rnbd::OpenExport {
  OpId id{};
  std::uint16_t session = 0;
};
// No operation of the export follows. The caller may free the handle.
struct CloseExport : rnbd::CloseExport {
  std::uint16_t session = 0;
};
// Query the current size of the export; ends with export_measured().
struct MeasureExport : rnbd::MeasureExport {
  OpId id{};
  std::uint16_t session = 0;
};
// Storage failed to make earlier writes durable. The BlockServer has informed every session that has the
// export open: their flushes fail until the device is closed. Later opens of the export must report a new
// ExportOpened::instance.
struct CacheDamaged : rnbd::CacheDamaged {
  std::uint16_t session = 0;  // session whose operation failed
  std::uint64_t export_id = 0;
};
// Reported when the first path of a session is connected.
struct SessionOpened {
  std::uint16_t session = 0;
  std::uint64_t serial = 0;  // session serial number, from 1; never reused, unlike its index
  std::string_view name{};   // valid until the next poll()
};
// No memory for the session's devices. The session is being closed and its requests are answered with
// ENOMEM. Neither SessionOpened nor SessionClosed is reported for this session.
struct SessionRefused {
  std::uint16_t session = 0;
  std::string_view name{};  // valid until the next poll()
};
// The session has ended. A CloseExport for each of its exports was handed out earlier.
struct SessionClosed {
  std::uint16_t session = 0;
  std::uint64_t serial = 0;
  std::uint64_t unknown_flags = 0;  // IOs with undefined flags in rw; executed without these flags
};

using Action = std::variant<StartStorage, OpenExport, CloseExport, MeasureExport, CacheDamaged, SessionOpened,
                            SessionRefused, SessionClosed>;

// --- results ---

// Result of OpenExport. The caller sets all fields but `operation`. `handle`: unique among open exports; may
// be reused after CloseExport. `instance`: must have changed since the last CacheDamaged of the export was
// handed out.
struct ExportOpened : rnbd::ExportOpened {
  // Identity of the export: opens of the same storage have the same number, regardless of name and session.
  std::uint64_t export_id = 0;
};

}  // namespace rtrs::block
