// Takes connect requests from a provider that listens itself, in a thread of its own, and hands them over.
// Provider tcp has tcp_listener.hpp instead.
//
// Reading a connect request blocks inside the provider for as long as the client cares to take, and a client
// that connects and says nothing holds a descriptor for ever. So the reading is done where nobody waits for
// it, and sockets that have been silent for too long are shut down. A client can still delay the admission of
// others, by `handshake_stall_ms` for each part of a request; it cannot touch connections that are up.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/address/socket_address.hpp"
#include "backends/libfabric/ofi_admission.hpp"
#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "backends/libfabric/ofi_sockets.hpp"

namespace rtrs::ofi {

class Listener final : public Admission {
 public:
  // Both outlive the listener.
  Listener(const OfiOptions&, const Device&);
  ~Listener() override;

  Errc start() override;
  Errc listen(const net::SocketAddress&) override;
  std::uint16_t port() const noexcept override { return port_; }
  int wait_fd() const noexcept override { return arrived_fd_; }
  std::vector<ConnectRequest> take() override;
  std::uint64_t reaped() const noexcept override { return reaped_.load(std::memory_order_relaxed); }

 private:
  void run();
  void read_requests();
  void hand_over(fi_eq_cm_entry&, std::size_t data_size);
  // Closes clients that were silent for too long.
  void reap();

  const OfiOptions& options_;
  const Device& device_;
  EventQueue events_;
  int events_fd_ = -1;
  int arrived_fd_ = -1;
  int stop_fd_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> reaped_{0};

  std::mutex mutex_;  // of the three below
  std::vector<PassiveEndpoint> passive_;
  std::vector<std::uint16_t> ports_;
  std::vector<ConnectRequest> requests_;

  // Only of the thread: sockets whose request was handed over, and when the others were first seen (ms).
  std::set<ino_t> handed_over_;
  std::map<ino_t, std::uint64_t> silent_since_;
  std::vector<net::SocketAddress> unlisted_;  // clients handed over while sockets could not be listed
  bool can_reap_ = true;  // false once a provider named no client: nothing tells the silent from the others
  std::thread thread_;
};

}  // namespace rtrs::ofi
