// How many descriptors devices may take, so that clients cannot leave none for connections by opening files.
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rtrs::daemon {

class DescriptorBudget {
 public:
  // The file, and its lock.
  static constexpr std::uint64_t kOfAFile = 2;

  // `limit`: descriptors that the process may have. Half of them are for connections.
  explicit DescriptorBudget(std::uint64_t limit) noexcept
      : files_max_(std::max<std::uint64_t>(limit / 2 / kOfAFile, 1)) {}

  // A file that is to be opened. False: there are as many as there may be.
  bool take() noexcept {
    if (files_ == files_max_) return false;
    ++files_;
    return true;
  }
  // It is closed, or was not opened.
  void give_back() noexcept { --files_; }

  std::uint64_t files() const noexcept { return files_; }
  std::uint64_t files_max() const noexcept { return files_max_; }

 private:
  std::uint64_t files_max_;
  std::uint64_t files_ = 0;
};

}  // namespace rtrs::daemon
