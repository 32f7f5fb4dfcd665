// Headers of the requests in a session's chunks, copied out of memory that the peer can still write. Each
// chunk has two places: for the request that uses the chunk, and for a request that waits for the chunk.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/proto/ids.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

struct StoredRequest : wire::IoRequest {
  ConKey key;
  Nanos arrived = 0;
};

class RequestStore {
 public:
  // `header_bytes`: room for one user header.
  RequestStore(std::size_t depth, std::size_t header_bytes)
      : header_bytes_(header_bytes),
        headers_(std::make_unique_for_overwrite<std::byte[]>(2 * depth * header_bytes)) {
    chunks_.reserve(depth);
  }

  std::size_t header_bytes() const noexcept { return header_bytes_; }
  // Stores the request that the chunk serves from now on.
  void store_current(Nanos now, std::uint16_t chunk, ConKey key, const wire::IoRequest& request,
                     wire::Bytes header) {
    if (chunk >= chunks_.size()) chunks_.resize(chunk + 1U);
    store(now, chunk, chunks_[chunk].current, key, request, header);
  }
  // Stores a request that waits for the chunk; replaces an earlier waiting request.
  void store_waiting(Nanos now, std::uint16_t chunk, ConKey key, const wire::IoRequest& request,
                     wire::Bytes header) {
    store(now, chunk, chunks_[chunk].current ^ 1U, key, request, header);
  }
  // Makes the request of `key`, which may have waited, the user of the chunk.
  void select(std::uint16_t chunk, ConKey key) noexcept {
    Places& places = chunks_[chunk];
    if (places.items[places.current].key != key) places.current ^= 1U;
  }
  const StoredRequest& current(std::uint16_t chunk) const noexcept {
    return chunks_[chunk].items[chunks_[chunk].current];
  }
  std::span<const std::byte> user_header(std::uint16_t chunk) const noexcept {
    return {headers_.get() + header_at(chunk, chunks_[chunk].current), current(chunk).usr_len};
  }
  // Returns the request of `key` that uses or awaits the chunk; null if there is none.
  const StoredRequest* of(std::uint16_t chunk, ConKey key) const noexcept {
    if (chunk >= chunks_.size()) return nullptr;
    for (const StoredRequest& one : chunks_[chunk].items)
      if (one.key == key) return &one;
    return nullptr;
  }
  std::span<const std::byte> user_header(std::uint16_t chunk, const StoredRequest& request) const noexcept {
    const auto place = static_cast<unsigned>(&request - chunks_[chunk].items.data());
    return {headers_.get() + header_at(chunk, place), request.usr_len};
  }

 private:
  struct Places {
    std::array<StoredRequest, 2> items;
    std::uint8_t current = 0;
  };
  std::size_t header_at(std::uint16_t chunk, unsigned place) const noexcept {
    return (std::size_t{2} * chunk + place) * header_bytes_;
  }
  void store(Nanos now, std::uint16_t chunk, unsigned place, ConKey, const wire::IoRequest&,
             wire::Bytes header);

  std::size_t header_bytes_;
  std::vector<Places> chunks_;  // up to the last chunk ever used; reserved capacity is not touched
  // The memory is not zeroed, so that unused pages take none (4 MiB per session with the defaults).
  std::unique_ptr<std::byte[]> headers_;
};

}  // namespace rtrs
