// Receives connect requests from a provider that opens its own listening socket. Runs in a separate thread
// and passes the requests on. Provider tcp uses tcp_listener.hpp instead.
//
// Reading a connect request blocks inside the provider until the client has sent it, and a silent client
// holds a descriptor forever. So the request is read in a separate thread, and sockets that are silent for
// too long are shut down. A client can still delay new clients by `handshake_stall_ms` for each part of a
// request; established connections are not affected.
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

#include "backends/libfabric/ofi_admission.hpp"
#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "backends/libfabric/ofi_sockets.hpp"
#include "backends/platform/address/socket_address.hpp"

namespace rtrs::ofi {

class Listener final : public Admission {
 public:
  // Both arguments must outlive the listener.
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

  std::mutex mutex_;  // protects the three members below
  std::vector<PassiveEndpoint> passive_;
  std::vector<std::uint16_t> ports_;
  std::vector<ConnectRequest> requests_;

  // Used only by the listener thread: inodes of sockets whose request was passed on, and the time in ms at
  // which each other socket was first seen.
  std::set<ino_t> handed_over_;
  std::map<ino_t, std::uint64_t> silent_since_;
  std::vector<net::SocketAddress>
      unlisted_;  // clients whose requests were passed on while sockets could not be listed
  bool can_reap_ =
      true;  // false once a provider reported no client address: silent clients cannot be identified then
  std::thread thread_;
};

}  // namespace rtrs::ofi
