// Further sources of choices: bytes of a fuzzer, all combinations one after the other, and whatever the
// caller decides.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/choices/choice.hpp"

namespace rtrs::sim {

// The bytes of a fuzzer, as few of them for each draw as its range needs. When they are used up everything is
// calm, and exhausted() tells the caller to stop. The bytes are not owned.
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

// Every combination of all draws, one a run; what is drawn may depend on what was drawn before:
//   OdometerChoice choice;
//   do run(choice); while (choice.next());
// The number of runs is the product of the ranges: for a dozen decisions, not for a simulated network.
class OdometerChoice final : public ChoiceSource {
 public:
  // Goes to the next combination; false when all have been played. The run before must be over.
  bool next();
  std::uint64_t runs() const noexcept { return runs_; }  // finished by next()

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

// The caller's function decides: for searches that copy the state and try each value, and for tests.
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
