// The transport of the operating system: TCP sockets, optionally with TLS, and one epoll instance for all of
// them.
#pragma once
#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/platform/address/destinations.hpp"
#include "backends/platform/address/socket_address.hpp"
#include "backends/platform/address/unique_fd.hpp"
#include "backends/tcp/tcp.hpp"
#include "backends/tcp/tcp_sealed.hpp"
#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

class Sockets final : public Transport {
 public:
  // Returns 0 or an errno.
  int open() noexcept;
  // Call before the first connect(): disables host names.
  void disable_name_lookups() noexcept { destinations_.disable_lookups(); }
  // Applies to new streams.
  void set_tls(const TlsOptions&);
  // Returns the current context. A client replaces the context after it has read changed files.
  const std::shared_ptr<const tls::Context>& tls_context() const noexcept { return tls_.context; }
  // Call before the first connect(). `tell` is called with each log message about key and certificate files
  // that were read again or cannot be read.
  void set_renewal_log(tls::Renewal::Tell tell) { renewal_log_ = std::move(tell); }

  // Time of CLOCK_MONOTONIC.
  Nanos now() const noexcept override;
  std::span<std::byte> map(std::size_t bytes) noexcept override;
  void unmap(std::span<std::byte>) noexcept override;

  Opened listen(const PathAddress&, unsigned undelivered_ms) override;
  Opened connect(ConKey, const PathAddress&, unsigned address, unsigned undelivered_ms) override;
  int outcome(SocketId) noexcept override;
  Client accept(SocketId listener) override;
  Client accept_and_drop(SocketId listener) override;
  std::size_t descriptors() const noexcept override;
  Ends ends(SocketId) const override;
  Moved receive(SocketId, iwarp::MutableBytes place, iwarp::MutableBytes behind) noexcept override;
  Moved send(SocketId, std::span<const iwarp::Bytes> pieces, std::size_t skip) noexcept override;
  bool shut_down(SocketId) noexcept override;
  void close(SocketId) noexcept override;
  Delivery delivery(SocketId) const noexcept override;

  Guard guard(SocketId) const noexcept override;
  bool seals() const noexcept override { return tls_.context != nullptr; }
  Recognised recognise(SocketId) override;
  Peer peer(SocketId) const override;
  std::string describe_guard(SocketId) const override;
  std::string refusal(SocketId) const override;
  void announce_close(SocketId) noexcept override;
  void count(TcpStats&) const noexcept override;

  bool watch(SocketId, std::uint32_t interest, Watched&) noexcept override;
  void forget(SocketId) noexcept override;
  std::span<const Ready> look() noexcept override;
  void arm(Nanos when) noexcept override;
  void signal() noexcept override;
  int wait_fd() const noexcept override { return epoll_.get(); }

 private:
  // A connection whose host name is being resolved. Its descriptor is a placeholder outside of the epoll
  // instance, until dup3() gives that descriptor number to the real socket. If the resolution fails, the
  // connection is reported as writable, and outcome() returns the error.
  struct UnresolvedConnection {
    ConKey key{};
    unsigned undelivered_ms = 0;
    Watched* one = nullptr;  // nullptr: not watched
    std::uint32_t interest = 0;
    int error = 0;  // 0: still pending
  };

  int bind_and_listen(int socket, const net::SocketAddress&, unsigned undelivered_ms) const noexcept;
  // Creates a socket and starts to connect.
  net::UniqueFd begin(const net::Destinations::Route&, unsigned undelivered_ms, Opened&) const;
  Opened wait_for_names(ConKey, const PathAddress&, unsigned undelivered_ms);
  void connect_named() noexcept;
  void connect_named(const net::Destinations::Ready&, SocketId, UnresolvedConnection&);
  bool watch_socket(SocketId, std::uint32_t interest, Watched&, int how) noexcept;
  bool watch_descriptor(int descriptor, void* mark) noexcept;

  // Returns null if the socket has no TLS.
  SealedStream* sealed(SocketId socket) const noexcept {
    const auto at = static_cast<std::size_t>(socket);
    return at < sealed_.size() ? sealed_[at].get() : nullptr;
  }
  // Returns false if there is no memory.
  bool seal(SocketId, tls::Side, const std::string& server) noexcept;
  Moved receive_sealed(SealedStream&, iwarp::MutableBytes place) noexcept;
  // Client only: reads the credential files again if they have changed.
  void renew_tls();

  net::UniqueFd epoll_;
  net::UniqueFd timer_;
  net::UniqueFd signal_;
  net::UniqueFd spare_;  // closed for a moment to accept a client if no descriptor is free
  net::Destinations destinations_;
  bool names_watched_ = false;
  std::unordered_map<SocketId, UnresolvedConnection> unresolved_;
  TlsOptions tls_;
  std::unique_ptr<tls::Renewal> renewal_;  // null: no TLS connection was started yet
  tls::Renewal::Tell renewal_log_;
  SealedSpace space_;
  std::vector<std::unique_ptr<SealedStream>> sealed_;  // indexed by socket
  TcpStats counts_;                                    // TLS counters only
  std::array<epoll_event, 64> named_{};
  std::vector<Ready> ready_;
};

}  // namespace rtrs::tcp
