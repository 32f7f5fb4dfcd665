// Canonical hash of a reflected value. Hashes named fields in order, never raw bytes, so that padding does
// not count and equal states have equal fingerprints on every compiler.
#pragma once
#include <array>
#include <cstdint>
#include <type_traits>

#include "core/base/reflect.hpp"

namespace rtrs {

class Fingerprint {
 public:
  template <class T>
  void add(const T& value) noexcept {
    // Field added after the first trace version: its default value is not hashed, so that fingerprints in
    // older traces stay valid.
    if constexpr (requires { T::kDefaultIsNotHashed; }) {
      if (value == T{}) return;
    }
    if constexpr (Reflected<T>) {
      T::visit_fields(value, [this](const char*, const auto& field) { this->add(field); });
    } else if constexpr (std::is_enum_v<T>) {
      mix(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      mix(static_cast<std::uint64_t>(value));
    } else if constexpr (requires { value.view(); }) {
      mix(value.view().size());
      for (const char letter : value.view()) mix(static_cast<unsigned char>(letter));
    } else if constexpr (requires { value.bytes; }) {
      for (const auto byte : value.bytes) mix(static_cast<std::uint64_t>(byte));
    } else {
      mix(value.size());
      for (const auto& item : value) this->add(item);
    }
  }
  std::uint64_t value() const noexcept { return state_; }

 private:
  // Adds a word with the finaliser of splitmix64, so that a change of any field changes all bits.
  void mix(std::uint64_t word) noexcept {
    std::uint64_t z = (state_ += word + 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    state_ = z ^ (z >> 31);
  }
  std::uint64_t state_ = 0x7572747273ULL;
};

}  // namespace rtrs
