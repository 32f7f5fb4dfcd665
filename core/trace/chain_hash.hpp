// XXH3-64 over all records of a trace, in the order of the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rtrs::trace {

class ChainHash {
 public:
  ChainHash();
  void add(const void* bytes, std::size_t size) noexcept;
  std::uint64_t value() const noexcept;
  // The value after `size` more bytes.
  std::uint64_t value_with(const void* bytes, std::size_t size) const noexcept;

 private:
  struct State;
  struct Free {
    void operator()(State*) const noexcept;
  };
  std::unique_ptr<State, Free> state_;
};

}  // namespace rtrs::trace
