#include <utility>

#include "backends/platform/tls/channel.hpp"

namespace rtrs::tls {
namespace {

// Maximum number of free buffers kept; further ones are freed.
constexpr std::size_t kKeptBuffers = 16;

}  // namespace

SealedBuffers::Buffer SealedBuffers::take() {
  if (free_.empty()) {
    free_.reserve(kKeptBuffers);
    return std::make_unique<std::byte[]>(kSealedBytes);
  }
  Buffer one = std::move(free_.back());
  free_.pop_back();
  return one;
}

void SealedBuffers::give_back(Buffer one) noexcept {
  if (free_.size() < free_.capacity()) free_.push_back(std::move(one));
}

}  // namespace rtrs::tls
