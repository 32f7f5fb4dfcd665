// More choice sources: the input bytes of a fuzzer, an enumeration of all combinations, and a callback.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/choices/choice.hpp"

namespace rtrs::sim {

// Uses bytes from a fuzzer; each draw takes as few bytes as its range needs. After the last byte all choices
// are calm, and exhausted() is true so that the caller can stop. The bytes are not owned.
class BytesChoice final : public ChoiceSource {
 public:
  explicit BytesChoice(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}
  bool exhausted() const noexcept { return exhausted_; }

 protected:
  std::uint32_t choose(std::uint32_t n, Label) override;

 private:
  std::span<const std::uint8_t> bytes_;
  bool exhausted_ = false;
};

// Plays every combination of all draws, one per run; later draws may depend on earlier ones:
//   OdometerChoice choice;
//   do run(choice); while (choice.next());
// The number of runs is the product of the ranges: suitable for a dozen decisions, not for a simulated
// network.
class OdometerChoice final : public ChoiceSource {
 public:
  // Advances to the next combination; false if all have been played. Call it between runs.
  bool next();
  std::uint64_t runs() const noexcept { return runs_; }  // number of runs that next() has ended

 protected:
  std::uint32_t choose(std::uint32_t n, Label) override;

 private:
  struct Digit {
    std::uint32_t value;
    std::uint32_t n;
  };
  std::vector<Digit> digits_;
  std::size_t at_ = 0;
  std::uint64_t runs_ = 0;
};

// Calls a caller-supplied function for each draw. For tests, and for searches that copy the state and try
// each value.
class ExplicitChoice final : public ChoiceSource {
 public:
  using Chooser = std::function<std::uint32_t(std::uint32_t n, Label)>;
  explicit ExplicitChoice(Chooser chooser) : chooser_(std::move(chooser)) {}

 protected:
  std::uint32_t choose(std::uint32_t n, Label label) override { return chooser_(n, label); }

 private:
  Chooser chooser_;
};

}  // namespace rtrs::sim
