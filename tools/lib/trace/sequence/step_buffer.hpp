// Steps of one file in recorded order. The oldest ones are taken while the file is read on.
#pragma once
#include <cstddef>
#include <deque>
#include <utility>

#include "tools/lib/trace/sequence/story.hpp"

namespace rtrs::tools::sequence {

class StepBuffer {
 public:
  // Number of steps that were added so far, which is the number of the next one.
  std::size_t added() const noexcept { return taken_ + steps_.size(); }
  std::size_t taken() const noexcept { return taken_; }
  std::size_t waiting() const noexcept { return steps_.size(); }
  // Returns nullptr if the step was taken.
  Step* find(std::size_t number) noexcept {
    return number < taken_ || number >= added() ? nullptr : &steps_[number - taken_];
  }
  Step& front() noexcept { return steps_.front(); }
  Step& back() noexcept { return steps_.back(); }
  void add(Step step) { steps_.push_back(std::move(step)); }
  Step take() {
    Step step = std::move(steps_.front());
    steps_.pop_front();
    ++taken_;
    return step;
  }

 private:
  std::deque<Step> steps_;
  std::size_t taken_ = 0;
};

}  // namespace rtrs::tools::sequence
