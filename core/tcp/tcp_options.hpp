// What the TCP fabric may take and how long it waits, and what it counts.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "core/fabric/fabric.hpp"
#include "core/iwarp/fault.hpp"

namespace rtrs::tcp {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

struct TcpOptions {
  // A CRC-32C over each message; on when either end asks. It finds what TCP's own checksum does not.
  bool crc = false;
  // A client that connected must have sent its whole connect request after this time, and its first message
  // after as long again.
  unsigned handshake_timeout_ms = 5000;
  // Clients that may be in between at a time, in all and from one address. Beyond it, or beyond a quarter of
  // the file descriptors that the process may have, the oldest of the address with most is closed.
  unsigned max_handshakes = 256;
  unsigned max_handshakes_per_host = 128;
  // Accepted connections, in all and from one address (of IPv6: from one network of 64 bits). By default the
  // bounds are max_memory and the file descriptors.
  unsigned max_connections = 1U << 20;
  unsigned max_connections_per_host = 1U << 20;
  // What all connections together may take for their queues and buffers. The bytes of posted receives are
  // not counted: how many and how large is the caller's to choose. Those of one address may take all but an
  // eighth of what the others leave, and so it is with half of the file descriptors of the process, which is
  // for connections.
  std::uint64_t max_memory = std::uint64_t{1} << 30;
  // A connection breaks when its peer acknowledges nothing for this time, or takes nothing of what waits for
  // it; when nothing more of a message comes, after up to twice this time. connect() fails when no whole
  // reply comes for this time after TCP's handshake. 0: the kernel decides, after many minutes or never.
  unsigned undelivered_timeout_ms = 30'000;
  // A message that finds no posted receive holds up its connection for this time at most.
  unsigned receive_timeout_ms = 30'000;
  // After the last word to a peer its socket is kept until it has read it, for this time at most.
  unsigned drain_timeout_ms = 1000;
  // False: only addresses in figures are taken. A thread looks up names, and one looks for changed files of
  // TLS; without host names there is none, and connect() itself reads changed files.
  bool host_names = true;
  // Called from the thread that owns the fabric.
  std::function<void(LogLevel, const std::string&)> log;
};

struct TcpStats {
  // Violations by peers, by what they did.
  std::array<std::uint64_t, iwarp::kFaultCount> faults{};
  std::uint64_t terminated = 0;          // connections that the peer ended by a Terminate message
  std::uint64_t closed_handshakes = 0;   // clients closed because no whole connect request came in time
  std::uint64_t turned_away = 0;         // clients closed because no descriptor was left
  std::uint64_t refused = 0;             // accepts that a limit of connections or memory refused
  std::uint64_t slow_readers = 0;        // connections broken by `undelivered_timeout_ms` of this side
  std::uint64_t large_packets_lost = 0;  // connections of which the network delivers only small packets
  std::uint64_t discarded_work = 0;      // work requests not sent when their connection ended
  std::uint64_t tls_connections = 0;     // TLS handshakes that were finished
  std::uint64_t tls_resumed = 0;         // of these, with a ticket of an earlier one
  std::uint64_t tls_in_kernel = 0;       // of these, where the kernel seals what is sent
  std::uint64_t tls_refused = 0;    // peers that TLS refused, and clients that did not do as its options say
  std::uint64_t receive_calls = 0;  // calls of the transport: system calls without TLS, with it at least one
  std::uint64_t send_calls = 0;
  std::uint64_t wait_calls = 0;
  // Now: accepted connections, and what they are counted with in `max_memory`.
  std::uint64_t connections = 0;
  std::uint64_t memory = 0;
};

class Transport;

class TcpFabric : public Fabric {
 public:
  virtual TcpStats stats() const noexcept = 0;
  virtual Transport& transport() noexcept = 0;
};

}  // namespace rtrs::tcp
