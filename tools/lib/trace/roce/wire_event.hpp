// Events that the analyzers of captures report, and that a trace is made of.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/lib/trace/roce/message.hpp"

namespace rtrs::roce {

using ConnectionNumber = std::uint32_t;

// Event in capture order. `to_server`: sent by the side that requested the connection. Private data of RoCE
// is padded with zeroes.
struct WireEvent {
  enum class Kind : std::uint8_t {
    request,  // first event of a connection; `data`: private data; `number`: service of RDMA CM
    reply,    // `data`: private data
    reject,   // `data`: private data; `number`: reject reason of RDMA CM
    closed,   // the first side disconnects
    message,
    gap,  // `number` packets are missing from the capture; for TCP 1 for each range of missing bytes
  };
  Kind kind = Kind::message;
  bool to_server = true;
  ConnectionNumber connection = 0;
  std::uint64_t time = 0;
  std::uint64_t number = 0;
  std::vector<std::byte> data;
  Message message;
  // True if the event is of an iWARP connection. Its number is then one of those connections, and the
  // immediate of a write_imm was a message of its own.
  bool iwarp = false;
};

}  // namespace rtrs::roce
