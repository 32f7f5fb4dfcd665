// Hashes of the trace format, both XXH3-64: the hash of all records of a trace in file order, and the digest
// of data that is not in the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rtrs::trace {

// XXH3-64 of data that a trace names by its digest.
std::uint64_t content_digest(const void* bytes, std::size_t size) noexcept;

class ChainHash {
 public:
  ChainHash();
  void add(const void* bytes, std::size_t size) noexcept;
  std::uint64_t value() const noexcept;
  // Returns the hash after `size` more bytes.
  std::uint64_t value_with(const void* bytes, std::size_t size) const noexcept;

 private:
  struct State;
  struct Free {
    void operator()(State*) const noexcept;
  };
  std::unique_ptr<State, Free> state_;
};

}  // namespace rtrs::trace
