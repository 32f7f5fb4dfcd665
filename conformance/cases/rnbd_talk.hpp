// RNBD as a client speaks it, for cases against a server.
#pragma once
#include <string>

#include "conformance/cases/path.hpp"
#include "conformance/cases/server_tester.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::conformance {

// Requests an honest client would send; spoil them at will.
Ask sess_info_ask(std::uint8_t version = wire::rnbd::kProtoMajor);
Ask open_ask(const std::string& name, wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only);
Ask close_ask(std::uint32_t device);
Ask io_ask(const wire::rnbd::Io& io, Message data = {});

// Has to be answered with success; the version that the server chose.
std::uint8_t exchange_versions(Path& path, std::uint8_t version = wire::rnbd::kProtoMajor);

// An opened device.
struct Device {
  Path* path = nullptr;
  wire::rnbd::OpenRsp about;

  std::uint32_t block() const noexcept { return about.logical_block_size; }
  // A request of that many bytes at the start of the device.
  wire::rnbd::Io io(wire::rnbd::Opcode opcode, std::uint32_t bytes) const;
};
wire::rnbd::OpenRsp parse_opened(const Answer& answer);
// The device of the run; waits while a session that is gone still has it open for writing at the server.
Device open_when_free(ServerTester& tester, Path& path, wire::rnbd::AccessMode mode);
// The device of the run, opened by an honest session. NotRun without one, or when it must not be written.
Device open_device(ServerTester& tester, wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only);
Device open_on(Path& path, const std::string& name, wire::rnbd::AccessMode mode);
Device open_scratch_device(ServerTester& tester);

// The request has to fail with an error, or the server to close the path; either within the bound.
void expect_refused(Path& path, const Ask& ask, const char* what);
// Answered with exactly this errno.
void expect_errno(Path& path, const Ask& ask, int error, const char* what);

}  // namespace rtrs::conformance
