#include "core/record/chain_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rtrs::trace {

std::uint64_t content_digest(const void* bytes, std::size_t size) noexcept {
  return XXH3_64bits(bytes, size);
}

struct ChainHash::State {
  XXH3_state_t xxh;
};

void ChainHash::Free::operator()(State* state) const noexcept {
  delete state;
}

ChainHash::ChainHash() : state_(new State) {
  XXH3_INITSTATE(&state_->xxh);
  XXH3_64bits_reset(&state_->xxh);
}

void ChainHash::add(const void* bytes, std::size_t size) noexcept {
  XXH3_64bits_update(&state_->xxh, bytes, size);
}

std::uint64_t ChainHash::value() const noexcept {
  return XXH3_64bits_digest(&state_->xxh);
}

std::uint64_t ChainHash::value_with(const void* bytes, std::size_t size) const noexcept {
  State copy = *state_;
  XXH3_64bits_update(&copy.xxh, bytes, size);
  return XXH3_64bits_digest(&copy.xxh);
}

}  // namespace rtrs::trace
