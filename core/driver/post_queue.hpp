// Queue of work requests for the fabric. The work requests of one step are posted together. A fabric may
// accept only a prefix; the rest keeps its order and is posted by the next flush. The protocol state machine
// limits the length by the room in the send queues, so the memory reserved at the start suffices.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/fabric/fabric.hpp"

namespace rtrs {

class PostQueue {
 public:
  PostQueue() {
    work_.reserve(1024);
    inline_.reserve(64);
    bytes_.reserve(16384);
  }
  // Copies `inline_bytes`.
  void push(const WorkRequest& work) {
    if (!work.inline_bytes.empty()) {
      inline_.push_back({work_.size(), bytes_.size(), work.inline_bytes.size()});
      bytes_.insert(bytes_.end(), work.inline_bytes.begin(), work.inline_bytes.end());
    }
    work_.push_back(work);
  }
  void flush(Fabric& fabric) {
    if (work_.empty()) return;
    for (const Inline& part : inline_)
      work_[part.work].inline_bytes = std::span<const std::byte>(bytes_).subspan(part.at, part.size);
    const std::size_t accepted = fabric.post(work_);
    if (accepted == work_.size()) {
      work_.clear();
      inline_.clear();
      bytes_.clear();
      return;
    }
    work_.erase(work_.begin(), work_.begin() + static_cast<std::ptrdiff_t>(accepted));
    std::erase_if(inline_, [accepted](const Inline& part) { return part.work < accepted; });
    for (Inline& part : inline_) part.work -= accepted;
  }
  bool idle() const noexcept { return work_.empty(); }

 private:
  struct Inline {
    std::size_t work;  // index in work_
    std::size_t at;    // offset in bytes_
    std::size_t size;
  };
  std::vector<WorkRequest> work_;
  std::vector<Inline> inline_;
  std::vector<std::byte> bytes_;
};

}  // namespace rtrs
