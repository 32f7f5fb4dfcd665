// Capabilities of a fabric. Protocol behaviour depends on the fabric only through these fields. Protocol
// section 10.4 lists the values of rxe, siw and mlx5.
#pragma once
#include <cstdint>

namespace rtrs {

struct Capabilities {
  const char* name = "";                // name for logs: "sim", "libfabric/tcp", "verbs"
  std::uint32_t max_send_depth = 0;     // maximum number of work requests of a connection
  std::uint32_t max_receive_depth = 0;  // maximum number of posted receives of a connection
  std::uint32_t max_message = 0;        // maximum size of a write or SEND in bytes
  std::uint16_t connect_data = 0;       // maximum private data of a connect in bytes
  std::uint16_t accept_data = 0;
  std::uint16_t reject_data = 0;
  bool imm_consumes_receive = false;     // a write with immediate takes one posted receive
  bool send_invalidate = false;          // SEND_WITH_INV is supported
  bool send_invalidate_is_slow = false;  // SEND_WITH_INV costs more than a local invalidation by the client
  bool per_io_keys = false;   // the peer can invalidate keys of Fabric::make_request_key() by SEND_WITH_INV
  bool invalidation = false;  // Fabric::invalidate() is supported
  bool invalidation_fences =
      false;  // after an invalidation, even a write in progress no longer reaches memory
  // A retransmission that covers an invalidation or a window bind ends the connection.
  bool invalidation_breaks_on_packet_loss = false;
  bool done_means_delivered = false;  // a good send completion proves arrival at the peer
  bool detects_silent_peer = false;   // detects a vanished peer without the heartbeat
};

// True if a fresh key for every IO protects memory without risk to the connections. If a write in progress
// can land after its key is invalidated, fresh keys cost time and guarantee nothing.
inline bool fresh_keys_protect(const Capabilities& fabric) noexcept {
  return fabric.invalidation && fabric.invalidation_fences && !fabric.invalidation_breaks_on_packet_loss;
}

}  // namespace rtrs
