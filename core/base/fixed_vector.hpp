// A vector that stores its items in the object. Never allocates. Copies, compares and constructs only the
// items in use, so that a state machine sized for the largest session is cheap for a small session.
#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "core/base/assert.hpp"

namespace rtrs {

template <class T, std::size_t Capacity>
class FixedVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  FixedVector() noexcept {}
  FixedVector(const FixedVector& other) noexcept : size_(other.size_) {
    std::copy_n(other.data(), size_, data());
  }
  FixedVector& operator=(const FixedVector& other) noexcept {
    if (this != &other) {
      size_ = other.size_;
      std::copy_n(other.data(), size_, data());
    }
    return *this;
  }

  T* data() noexcept { return storage_.items; }
  const T* data() const noexcept { return storage_.items; }
  std::size_t size() const noexcept { return size_; }
  static constexpr std::size_t capacity() noexcept { return Capacity; }
  static constexpr std::size_t max_size() noexcept { return Capacity; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == Capacity; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  T& operator[](std::size_t i) noexcept {
    RTRS_ASSERT(i < size_);
    return storage_.items[i];
  }
  const T& operator[](std::size_t i) const noexcept {
    RTRS_ASSERT(i < size_);
    return storage_.items[i];
  }
  void push_back(const T& value) noexcept {
    RTRS_ASSERT(size_ < Capacity);
    storage_.items[size_++] = value;
  }
  void resize(std::size_t size, const T& value = T{}) noexcept {
    RTRS_ASSERT(size <= Capacity);
    for (std::size_t i = size_; i < size; ++i) storage_.items[i] = value;
    size_ = size;
  }
  void erase_at(std::size_t i) noexcept {
    RTRS_ASSERT(i < size_);
    std::copy(begin() + i + 1, end(), begin() + i);
    --size_;
  }
  void clear() noexcept { size_ = 0; }

  friend bool operator==(const FixedVector& a, const FixedVector& b) noexcept {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  // A union keeps the items uninitialised until they are used.
  union Storage {
    Storage() noexcept {}
    T items[Capacity];
  } storage_;
  std::size_t size_ = 0;
};

}  // namespace rtrs
