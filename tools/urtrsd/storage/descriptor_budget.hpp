// Limits the file descriptors of devices, so that some are left for connections, and limits the files of each
// host, so that some are left for other hosts. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace rtrs::daemon {

class DescriptorBudget {
 public:
  // Descriptors per open file: one for the file and one for its lock.
  static constexpr std::uint64_t kOfAFile = 2;
  using Host = std::uint32_t;  // digest of the client's address

  // `limit` is the maximum number of descriptors of the process; half of them are reserved for connections.
  explicit DescriptorBudget(std::uint64_t limit) noexcept
      : connections_max_(limit / 2), files_max_(std::max<std::uint64_t>(limit / 2 / kOfAFile, 1)) {}

  // Reserves descriptors for a file that is about to be opened. Returns false if the limit for all files, or
  // the limit for files of this client host, is reached.
  bool take(Host host) {
    if (files_ == files_max_ || files_of(host) >= files_max_of(host)) return false;
    ++files_;
    ++of_host_[host];
    return true;
  }
  // Releases a reservation after the file was closed or could not be opened.
  void give_back(Host host) noexcept {
    const auto found = of_host_.find(host);
    if (found == of_host_.end()) return;
    --files_;
    if (--found->second == 0) of_host_.erase(found);
  }

  std::uint64_t connections_max() const noexcept { return connections_max_; }
  std::uint64_t files() const noexcept { return files_; }
  std::uint64_t files_max() const noexcept { return files_max_; }
  std::uint64_t files_of(Host host) const noexcept {
    const auto found = of_host_.find(host);
    return found == of_host_.end() ? 0 : found->second;
  }
  // A host may open seven eighths of the files that the other hosts leave, but at least one.
  std::uint64_t files_max_of(Host host) const noexcept {
    const std::uint64_t left = files_max_ - (files_ - files_of(host));
    return std::max<std::uint64_t>(left - (left + 7) / 8, 1);
  }

 private:
  std::uint64_t connections_max_;
  std::uint64_t files_max_;
  std::uint64_t files_ = 0;
  std::map<Host, std::uint64_t> of_host_;
};

}  // namespace rtrs::daemon
