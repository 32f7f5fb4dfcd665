// Limits and timeouts of the TCP fabric, and its counters.
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
  // Adds a CRC-32C to each message if at least one peer requests it. The CRC detects errors that TCP's
  // checksum misses.
  bool crc = false;
  // Time limit in ms for a client to send its whole connect request. The same limit applies again to its
  // first message.
  unsigned handshake_timeout_ms = 5000;
  // Maximum number of clients in the handshake, in total and per address. If there are more, or if they use
  // more than a quarter of the process's file descriptors, the oldest client of the address with the most
  // clients is closed.
  unsigned max_handshakes = 256;
  unsigned max_handshakes_per_host = 128;
  // Maximum number of accepted connections, in total and per address (IPv6: per /64 network). With the
  // defaults, only max_memory and the file descriptors limit them.
  unsigned max_connections = 1U << 20;
  unsigned max_connections_per_host = 1U << 20;
  // Maximum memory in bytes for the queues and buffers of all connections. Posted receives are not counted,
  // because the caller chooses their number and size. One address may use seven eighths of the memory that
  // the other addresses leave. The same share applies to the file descriptors, of which half are reserved for
  // connections.
  std::uint64_t max_memory = std::uint64_t{1} << 30;
  // A connection fails if for this time (ms) its peer acknowledges nothing or accepts none of the queued
  // data, or within twice this time if an incomplete message makes no progress. connect() fails if no
  // complete reply arrives within this time after the TCP handshake. 0: the kernel decides, after many
  // minutes or never.
  unsigned undelivered_timeout_ms = 30'000;
  // Maximum time in ms that a message without a posted receive blocks its connection.
  unsigned receive_timeout_ms = 30'000;
  // Maximum time in ms that a socket is kept open so that the peer can read the last message.
  unsigned drain_timeout_ms = 1000;
  // False: only numeric addresses are accepted. With host names, one thread resolves names and one watches
  // the TLS files for changes. Without host names there are no such threads, and connect() itself reads
  // changed files.
  bool host_names = true;
  // Receives log messages. Called on the thread that owns the fabric.
  std::function<void(LogLevel, const std::string&)> log;
};

struct TcpStats {
  // Number of protocol violations by peers, indexed by fault.
  std::array<std::uint64_t, iwarp::kFaultCount> faults{};
  std::uint64_t terminated = 0;         // connections that the peer ended with a Terminate message
  std::uint64_t closed_handshakes = 0;  // clients closed because no complete connect request arrived in time
  std::uint64_t dropped_clients = 0;    // clients closed because no file descriptor was free
  std::uint64_t refused = 0;            // connections rejected because of a connection or memory limit
  std::uint64_t slow_readers = 0;  // connections that failed because of `undelivered_timeout_ms` of this side
  std::uint64_t large_packets_lost = 0;  // connections for which the network delivers only small packets
  std::uint64_t discarded_work = 0;      // work requests that were unsent when their connection ended
  std::uint64_t tls_connections = 0;     // completed TLS handshakes
  std::uint64_t tls_resumed = 0;         // TLS handshakes that resumed a session with a ticket
  std::uint64_t tls_in_kernel = 0;       // TLS connections for which the kernel encrypts sent data
  std::uint64_t tls_refused = 0;         // peers rejected by TLS, and clients that violated the TLS options
  std::uint64_t receive_calls =
      0;  // receive calls of the transport: one system call each without TLS, at least one with TLS
  std::uint64_t send_calls = 0;
  std::uint64_t wait_calls = 0;
  // Current number of accepted connections, and their memory in bytes as accounted in `max_memory`.
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
