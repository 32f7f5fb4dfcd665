// A vector of at most `Most` items; up to `Inside` items are stored in the object. With more items, all are
// in an allocated block, whose size depends on their number and not on `Most`. Like FixedVector it is a
// value: copies share nothing.
//
// reserve() returns false if there is no memory. If more items are added than were reserved, a lack of memory
// terminates the program.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "core/base/assert.hpp"

namespace rtrs {

template <class T, std::size_t Inside, std::size_t Most>
class GrowingVector {
  static_assert(std::is_nothrow_copy_constructible_v<T>);
  static_assert(0 < Inside && Inside <= Most && Most <= 0xffffffff);
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  GrowingVector() noexcept {}
  GrowingVector(const GrowingVector& other) noexcept { append(other, 0); }
  GrowingVector& operator=(const GrowingVector& other) noexcept {
    if (this == &other) return *this;
    const std::size_t common = std::min(size(), other.size());
    std::copy_n(other.data(), common, data());
    shorten(common);
    append(other, common);
    return *this;
  }
  ~GrowingVector() { reset(); }

  T* data() noexcept { return items_; }
  const T* data() const noexcept { return items_; }
  std::size_t size() const noexcept { return size_; }
  // Number of items that fit without another allocation.
  std::size_t capacity() const noexcept { return capacity_; }
  static constexpr std::size_t max_size() noexcept { return Most; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == Most; }
  T* begin() noexcept { return items_; }
  T* end() noexcept { return items_ + size_; }
  const T* begin() const noexcept { return items_; }
  const T* end() const noexcept { return items_ + size_; }
  T& operator[](std::size_t i) noexcept {
    RTRS_ASSERT(i < size_);
    return items_[i];
  }
  const T& operator[](std::size_t i) const noexcept {
    RTRS_ASSERT(i < size_);
    return items_[i];
  }

  // Returns false, changing nothing, if there is no memory.
  [[nodiscard]] bool reserve(std::size_t items) noexcept {
    if (items <= capacity_) return true;
    RTRS_ASSERT(items <= Most);
    const std::size_t capacity = std::min(Most, std::max<std::size_t>(items, 2 * std::size_t{capacity_}));
    T* const larger = static_cast<T*>(::operator new(capacity * sizeof(T), std::nothrow));
    if (larger == nullptr) return false;
    std::uninitialized_copy_n(items_, size_, larger);
    std::destroy_n(items_, size_);
    free_outside();
    items_ = larger;
    capacity_ = static_cast<std::uint32_t>(capacity);
    return true;
  }
  void push_back(const T& value) noexcept {
    const T copy = value;  // `value` may be one of the items
    must_reserve(size() + 1);
    ::new (static_cast<void*>(items_ + size_)) T(copy);
    ++size_;
  }
  void resize(std::size_t items) noexcept {
    must_reserve(items);
    shorten(std::min(size(), items));
    for (; size_ < items; ++size_) ::new (static_cast<void*>(items_ + size_)) T{};
  }
  void erase_at(std::size_t i) noexcept {
    RTRS_ASSERT(i < size_);
    std::copy(begin() + i + 1, end(), begin() + i);
    shorten(size() - 1);
  }
  // Removes all items but keeps the memory.
  void clear() noexcept { shorten(0); }
  // Removes all items and frees the memory.
  void reset() noexcept {
    clear();
    free_outside();
    items_ = inside_.items;
    capacity_ = Inside;
  }

  friend bool operator==(const GrowingVector& a, const GrowingVector& b) noexcept {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  void must_reserve(std::size_t items) noexcept {
    const bool reserved = reserve(items);
    RTRS_ASSERT(reserved);
  }
  // Appends the items of `other`, starting at index `from`.
  void append(const GrowingVector& other, std::size_t from) noexcept {
    must_reserve(other.size());
    std::uninitialized_copy_n(other.data() + from, other.size() - from, items_ + from);
    size_ = other.size_;
  }
  void shorten(std::size_t items) noexcept {
    std::destroy(items_ + items, items_ + size_);
    size_ = static_cast<std::uint32_t>(items);
  }
  void free_outside() noexcept {
    if (items_ != inside_.items) ::operator delete(static_cast<void*>(items_));
  }

  // A union keeps the items uninitialised until they are used.
  union Storage {
    Storage() noexcept {}
    ~Storage() {}
    T items[Inside];
  } inside_;
  T* items_ = inside_.items;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = Inside;
};

}  // namespace rtrs
