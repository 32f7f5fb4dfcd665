// What a client asked a server for and what it was told, out of the client's trace: the devices that it
// opened and every IO, in the order in which it asked and was answered. To be asked again of another server.
//
// Nothing is trusted: what cannot be an input of a client is left out or ends the reading with a sentence.
// Memory is bounded by that of the trace.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/proto/ids.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/trace/reader.hpp"

namespace rtrs::workload {

struct Asked {
  enum class Kind : std::uint8_t { open, close, io };
  Kind kind = Kind::io;
  std::uint64_t record = 0;                                         // in which it was asked for
  Nanos at = 0;                                                     // the clock of the trace
  std::size_t device = 0;                                           // of Workload::devices
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;  // of open
  wire::rnbd::Io io{};                                              // its device_id means nothing here
  std::uint16_t affinity = 0;
  std::string data;  // of a write: its last bytes, as many as the trace has

  // What it was told.
  bool answered = false;  // by the server
  Nanos answered_at = 0;
  std::uint16_t peer_errno = 0;               // Linux errno
  std::optional<wire::rnbd::OpenRsp> opened;  // of an open that went well
};

// One moment: a request is asked for, or its answer comes.
struct Moment {
  std::size_t request = 0;
  bool answer = false;
};

struct Workload {
  std::vector<std::string> devices;
  std::vector<Asked> requests;
  std::vector<Moment> moments;  // of each request the first one, and that of its answer if there was one
  std::uint64_t unsent = 0;     // IO that failed before it was sent
  // As the server granted them to the first connection; 0: the trace does not say.
  std::uint32_t max_io_size = 0;
  std::uint16_t queue_depth = 0;
};

// Whether it changes what is on a device.
bool changes_blocks(const Asked&);

// Of a reader after open(). The error is a sentence: no client, several, no notes of what went over the wire
// (trace_detail=machines), or IO of a device whose opening is not in the trace. Where the trace is damaged,
// what stands before the damage is taken; reader.stop() tells.
tl::expected<Workload, std::string> read_workload(trace::Reader&);

}  // namespace rtrs::workload
