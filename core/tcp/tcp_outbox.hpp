// Data that a connection is about to send, and a pool of outboxes shared by all connections. A connection
// with nothing to send holds no outbox.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/iwarp/writer.hpp"
#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

class Outbox {
 public:
  static constexpr std::size_t kArenaBytes = std::size_t{64} << 10;
  static constexpr std::size_t kPieces = 1024;  // maximum number of pieces per system call (UIO_MAXIOV)

  explicit Outbox(std::size_t arena_bytes = kArenaBytes)
      : arena_(std::make_unique<std::byte[]>(arena_bytes)),
        size_(arena_bytes),
        list_(kPieces),
        out_(iwarp::MutableBytes(arena_.get(), size_), list_) {}

  iwarp::Outgoing& out() noexcept { return out_; }
  [[nodiscard]] std::size_t arena_bytes() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return sent_ == out_.total_bytes(); }
  [[nodiscard]] std::size_t waiting() const noexcept { return out_.total_bytes() - sent_; }
  void clear() noexcept {
    out_.clear();
    sent_ = piece_ = offset_ = 0;
  }

  enum class Sent : std::uint8_t { all, blocked, failed };
  // Sends without blocking. Adds the bytes accepted by the transport to `sent` and the number of transport
  // calls to `calls`. `error` is the errno of a failure.
  Sent send(Transport&, SocketId, std::uint64_t& sent, std::uint64_t& calls, int& error) noexcept;

 private:
  void advance(std::size_t bytes) noexcept;

  std::unique_ptr<std::byte[]> arena_;
  std::size_t size_;
  std::vector<iwarp::Bytes> list_;
  iwarp::Outgoing out_;
  std::size_t sent_ = 0;
  std::size_t piece_ = 0;   // first piece that is not completely sent
  std::size_t offset_ = 0;  // number of bytes of that piece that are already sent
};

class Outboxes {
 public:
  // May throw std::bad_alloc.
  std::unique_ptr<Outbox> take(std::size_t arena_bytes = Outbox::kArenaBytes);
  void give_back(std::unique_ptr<Outbox>) noexcept;

 private:
  std::vector<std::unique_ptr<Outbox>> free_;
};

}  // namespace rtrs::tcp
