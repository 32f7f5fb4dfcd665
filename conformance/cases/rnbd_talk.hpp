// Client side of RNBD, for cases against a server.
#pragma once
#include <string>

#include "conformance/cases/path.hpp"
#include "conformance/cases/server_tester.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::conformance {

// Requests as a correct client sends them. A case may change any field.
Ask sess_info_ask(std::uint8_t version = wire::rnbd::kProtoMajor);
Ask open_ask(const std::string& name, wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only);
Ask close_ask(std::uint32_t device);
Ask io_ask(const wire::rnbd::Io& io, Message data = {});

// Fails unless the server answers with success. Returns the version that the server chose.
std::uint8_t exchange_versions(Path& path, std::uint8_t version = wire::rnbd::kProtoMajor);

// An opened device.
struct Device {
  Path* path = nullptr;
  wire::rnbd::OpenRsp about;

  std::uint32_t block() const noexcept { return about.logical_block_size; }
  // A request of `bytes` bytes at offset 0 of the device.
  wire::rnbd::Io io(wire::rnbd::Opcode opcode, std::uint32_t bytes) const;
};
wire::rnbd::OpenRsp parse_opened(const Answer& answer);
// Opens the device of the run. Waits if the server still has the device open for writing, in a session that
// is being closed.
Device open_when_free(ServerTester& tester, Path& path, wire::rnbd::AccessMode mode);
// Opens the device of the run in a new correct session. Throws NotRun if the run has no device, or if write
// access is requested but the device's content must be kept.
Device open_device(ServerTester& tester, wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only);
Device open_on(Path& path, const std::string& name, wire::rnbd::AccessMode mode);
Device open_scratch_device(ServerTester& tester);

// Fails unless the server answers with an error or closes the path in time.
void expect_refused(Path& path, const Ask& ask, const char* what);
// Fails unless the response has exactly this errno.
void expect_errno(Path& path, const Ask& ask, int error, const char* what);

}  // namespace rtrs::conformance
