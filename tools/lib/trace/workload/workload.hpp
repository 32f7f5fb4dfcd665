// Extracts the workload from a client's trace, so that it can be replayed against another server: every OPEN,
// CLOSE and IO request and its response, in the order in which requests were sent and responses arrived.
//
// The trace is untrusted input: a record that no client can produce is skipped or makes reading fail. Memory
// use is bounded by the size of the trace.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/proto/ids.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::workload {

struct Asked {
  enum class Kind : std::uint8_t { open, close, io };
  Kind kind = Kind::io;
  std::uint64_t record = 0;                                         // number of the record of the request
  Nanos at = 0;                                                     // ns, on the clock of the trace
  std::size_t device = 0;                                           // index into Workload::devices
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;  // requested mode; OPEN only
  wire::rnbd::Io io{};                                              // ignore its device_id; use `device`
  std::uint16_t affinity = 0;
  std::string data;  // write only: the last bytes of the data, as many as the trace holds

  // Response of the recorded server.
  bool answered = false;
  Nanos answered_at = 0;
  std::uint16_t peer_errno = 0;               // errno of the response; 0: success
  std::optional<wire::rnbd::OpenRsp> opened;  // response body; successful OPEN only
};

// One event: a request is sent, or its response arrives.
struct Moment {
  std::size_t request = 0;
  bool answer = false;
};

struct Workload {
  std::vector<std::string> devices;
  std::vector<Asked> requests;
  std::vector<Moment> moments;  // each request once, and its response if there is one
  std::uint64_t unsent = 0;     // number of IOs that failed before they were sent
  // Limits that the server granted to the first connection (max_io_size in bytes); 0: not in the trace.
  std::uint32_t max_io_size = 0;
  std::uint16_t queue_depth = 0;
};

// True if the request changes data on the device.
bool changes_blocks(const Asked&);

// Reads the workload; call after Reader::open(). Fails with a message if the trace has no client or several,
// has no records of wire traffic (trace_detail=machines), or has IO to a device whose OPEN is not in the
// trace. If the trace is damaged, returns the workload before the damage, and reader.stop() describes the
// damage.
tl::expected<Workload, std::string> read_workload(trace::Reader&);

}  // namespace rtrs::workload
