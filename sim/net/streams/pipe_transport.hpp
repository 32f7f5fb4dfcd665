// The sockets of one process on a node of a PipeNetwork. After a node crash, calls have no effect.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "core/tcp/tcp_transport.hpp"
#include "core/tcp/tcp_watched.hpp"
#include "sim/net/streams/pipe_network.hpp"

namespace rtrs::sim {

class PipeTransport final : public tcp::Transport {
 public:
  PipeTransport(PipeNetwork& network, NodeId node, ChoiceSource& choice);

  // Sets the connection that the next connect() belongs to.
  void connecting(ConKey key) noexcept { key_ = key; }
  // Makes watch() fail for the next accepted stream.
  void refuse_watch(bool on) noexcept { refuses_watch_ = on; }

  Nanos now() const noexcept override { return network_.now(); }
  std::span<std::byte> map(std::size_t bytes) noexcept override;
  void unmap(std::span<std::byte>) noexcept override;
  Opened listen(const PathAddress&, unsigned undelivered_ms) override;
  Opened connect(ConKey, const PathAddress&, unsigned address, unsigned undelivered_ms) override;
  int outcome(tcp::SocketId) noexcept override;
  Client accept(tcp::SocketId listener) override;
  Client accept_and_drop(tcp::SocketId listener) override;
  std::size_t descriptors() const noexcept override { return 4096; }
  Ends ends(tcp::SocketId) const override;
  Moved receive(tcp::SocketId, iwarp::MutableBytes place, iwarp::MutableBytes behind) noexcept override;
  Moved send(tcp::SocketId, std::span<const iwarp::Bytes> pieces, std::size_t skip) noexcept override;
  bool shut_down(tcp::SocketId) noexcept override;
  void close(tcp::SocketId) noexcept override;
  Delivery delivery(tcp::SocketId) const noexcept override;
  // Each node has a different identity, which survives restarts.
  Peer peer(tcp::SocketId) const override;
  bool watch(tcp::SocketId, std::uint32_t interest, tcp::Watched&) noexcept override;
  void forget(tcp::SocketId) noexcept override;
  std::span<const Ready> look() noexcept override;
  void arm(Nanos when) noexcept override;
  void signal() noexcept override;
  int wait_fd() const noexcept override { return -1; }

 private:
  using End = PipeNetwork::End;
  bool live() const noexcept;
  // Draws whether other parts of the process use all file descriptors; in half of the cases this lasts for up
  // to 0.3 s.
  bool lacks_descriptor();
  Client take_waiting(tcp::SocketId listener);
  void update_send_deadline(End&, std::size_t count, std::size_t offered) const noexcept;
  const End& end(tcp::SocketId socket) const noexcept { return network_.ends_[static_cast<QpId>(socket)]; }
  End& changed_end(tcp::SocketId socket) noexcept {
    network_.changes();
    return network_.ends_[static_cast<QpId>(socket)];
  }
  PipeNetwork::Listener* listener(tcp::SocketId) const noexcept;
  std::string name(NodeId node, std::uint32_t port) const;

  PipeNetwork& network_;
  NodeId node_;
  std::uint32_t start_;
  ChoiceSource& choice_;
  ConKey key_{};
  bool refuses_watch_ = false;
  Nanos no_descriptor_until_ = 0;
  std::map<const std::byte*, std::unique_ptr<std::byte[]>> memory_;
  std::array<Ready, 64> ready_{};
};

}  // namespace rtrs::sim
