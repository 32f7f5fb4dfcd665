// A 64-bit hash for values with many fields. Unlike Fingerprint, it collects the fields in a buffer before it
// mixes them, eight bytes at a time, into several independent sums that a CPU can compute in parallel.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/base/reflect.hpp"
#include "sim/explore/field_name.hpp"

namespace rtrs::explore {

class WordHash {
 public:
  WordHash() noexcept {}

  template <class T>
  RTRS_INLINED void add(const T& value) noexcept {
    if constexpr (Reflected<T>) {
      T::visit_fields(value, [this](const char*, const auto& field) RTRS_INLINED { this->add(field); });
    } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
      raw(value);
    } else if constexpr (requires { value.bytes; }) {
      raw(value.bytes);
    } else {
      raw(value.size());
      for (const auto& item : value) this->add(item);
    }
  }
  bool is_empty() const noexcept { return size_ == 0 && sums_ == kStart; }
  // Returns the hash of everything added since the last take(), and starts a new hash.
  std::uint64_t take() noexcept {
    std::uint64_t all = size_;
    fold();
    for (const std::uint64_t sum : sums_) all = mixed(all + sum);
    sums_ = kStart;
    return all;
  }

 private:
  static constexpr std::size_t kSums = 4;
  static constexpr std::size_t kStep = kSums * sizeof(std::uint64_t);
  static constexpr std::size_t kMost = 128 * kStep;
  static constexpr std::array<std::uint64_t, kSums> kStart{1, 2, 3, 4};

  template <class T>
  RTRS_INLINED void raw(const T& value) noexcept {
    static_assert(std::has_unique_object_representations_v<T>);
    if (size_ + sizeof value > kMost) fold();
    std::memcpy(bytes_.data() + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  void fold() noexcept {
    while (size_ % kStep != 0) bytes_[size_++] = 0;
    auto [a, b, c, d] = sums_;
    for (std::size_t at = 0; at < size_; at += kStep) {
      std::array<std::uint64_t, kSums> words;
      std::memcpy(words.data(), bytes_.data() + at, kStep);
      a = folded(a, words[0]);
      b = folded(b, words[1]);
      c = folded(c, words[2]);
      d = folded(d, words[3]);
    }
    sums_ = {a, b, c, d};
    size_ = 0;
  }
  static std::uint64_t folded(std::uint64_t sum, std::uint64_t word) noexcept {
    const std::uint64_t product = (sum ^ word) * 0xd1342543de82ef95ULL;
    return product ^ (product >> 32);
  }
  // The finaliser of splitmix64.
  static std::uint64_t mixed(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  std::array<std::uint8_t, kMost> bytes_;  // only the first size_ bytes are valid
  std::size_t size_ = 0;
  std::array<std::uint64_t, kSums> sums_ = kStart;
};

}  // namespace rtrs::explore
