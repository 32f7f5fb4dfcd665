// Makes provider tcp of libfabric serve a connected socket that this backend accepted, and whose connect
// request it has read.
//
// libfabric has no call for this. The adopter opens a listener of the provider for a moment, on a loopback
// port that accepts no other client, and sends it the same request over its own connection. Then it replaces
// the provider's descriptor for that connection by the client's socket (dup3). The provider has not added the
// descriptor to any poll set at that time, because it waits for fi_endpoint(). Only public calls are used,
// and the provider receives only bytes that were checked.
#pragma once
#include <string>

#include "backends/libfabric/ofi_admission.hpp"
#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "backends/platform/address/socket_address.hpp"

namespace rtrs::ofi {

class Adopter {
 public:
  explicit Adopter(const Device& device) : device_(device) {}
  // Returns not_supported if this host has no working loopback, or if the libfabric version is not the
  // supported one.
  Errc open();
  // Fills `info` and `passive` of a request that has a socket. The socket stays open as a second descriptor
  // of the connection that the provider serves from now on. Returns 0 or a negative error.
  int adopt(ConnectRequest&);

 private:
  // The provider's listener, and our connection to the listener.
  struct Exchange {
    PassiveEndpoint listener;
    net::UniqueFd ours;
    net::SocketAddress name;  // local address of `ours`
  };
  int offer(const std::string& message, Exchange&);
  // Waits until the provider reports the request; gives up after 50 ms without progress.
  int receive(InfoHandle&);
  void give_up(Exchange&);
  bool name_request(ConnectRequest&) const;

  const Device& device_;
  EventQueue events_;
  int events_fd_ = -1;
  PassiveEndpoint rejecting_;  // required by fi_reject(); has no socket
};

}  // namespace rtrs::ofi
