#include "core/tcp/tcp_outbox.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rtrs::tcp {
namespace {

// Maximum number of free outboxes kept; further ones are freed.
constexpr std::size_t kKept = 16;

}  // namespace

void Outbox::advance(std::size_t bytes) noexcept {
  sent_ += bytes;
  const auto pieces = out_.pieces();
  while (bytes != 0) {
    const std::size_t rest = pieces[piece_].size() - offset_;
    if (bytes < rest) {
      offset_ += bytes;
      return;
    }
    bytes -= rest;
    ++piece_;
    offset_ = 0;
  }
}

Outbox::Sent Outbox::send(Transport& transport, SocketId socket, std::uint64_t& sent, std::uint64_t& calls,
                          int& error) noexcept {
  while (!empty()) {
    ++calls;
    const Transport::Moved moved = transport.send(socket, out_.pieces().subspan(piece_), offset_);
    if (moved.error == EAGAIN) return Sent::blocked;
    if (moved.error != 0) {
      error = moved.error;
      return Sent::failed;
    }
    sent += moved.bytes;
    const std::size_t offered = out_.total_bytes() - sent_;
    advance(moved.bytes);
    if (moved.bytes < offered) return Sent::blocked;
  }
  return Sent::all;
}

std::unique_ptr<Outbox> Outboxes::take(std::size_t arena_bytes) {
  if (arena_bytes > Outbox::kArenaBytes) return std::make_unique<Outbox>(arena_bytes);
  if (free_.empty()) {
    free_.reserve(kKept);
    return std::make_unique<Outbox>();
  }
  std::unique_ptr<Outbox> box = std::move(free_.back());
  free_.pop_back();
  return box;
}

void Outboxes::give_back(std::unique_ptr<Outbox> box) noexcept {
  box->clear();
  if (box->arena_bytes() == Outbox::kArenaBytes && free_.size() < free_.capacity())
    free_.push_back(std::move(box));
}

}  // namespace rtrs::tcp
