// Makes provider tcp of libfabric serve a connected socket that we accepted, whose connect request we read.
//
// libfabric has no call for that. A listener of the provider, open for a moment on a loopback port that takes
// no other client, is sent the same request by a connection of our own; then the descriptor that the provider
// got for it is made to name the client's socket instead (dup3). The provider has the descriptor in no set at
// that time: it waits for fi_endpoint(). Only public calls are used, and the provider sees bytes that were
// checked.
#pragma once
#include <string>

#include "backends/address/socket_address.hpp"
#include "backends/libfabric/ofi_admission.hpp"
#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_handles.hpp"

namespace rtrs::ofi {

class Adopter {
 public:
  explicit Adopter(const Device& device) : device_(device) {}
  // not_supported: this host has no working loopback, or this libfabric is another than the one known.
  Errc open();
  // Fills `info` and `passive` of a request that has a socket; the socket stays open, as a second descriptor
  // of what the provider serves from now on. 0, or a negative error.
  int adopt(ConnectRequest&);

 private:
  // The provider's listener, and our connection to it.
  struct Exchange {
    PassiveEndpoint listener;
    net::UniqueFd ours;
    net::SocketAddress name;  // of `ours`
  };
  int offer(const std::string& message, Exchange&);
  // Waits for the provider's report of the request, 50 ms at most where nothing moves.
  int receive(InfoHandle&);
  void give_up(Exchange&);
  bool name_request(ConnectRequest&) const;

  const Device& device_;
  EventQueue events_;
  int events_fd_ = -1;
  PassiveEndpoint rejecting_;  // fi_reject() wants one; has no socket
};

}  // namespace rtrs::ofi
