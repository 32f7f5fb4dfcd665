#include "tools/urtrsd/storage/memory_progress.hpp"

#include <algorithm>

namespace rtrs::daemon {

MemoryProgress::MemoryProgress(Opcode opcode, std::uint64_t offset, std::uint32_t bytes, std::uint32_t page,
                               bool keep_pages) noexcept
    : offset_(offset), left_(opcode == Opcode::flush ? 0 : bytes), page_(page), opcode_(opcode) {
  release_ = opcode == Opcode::discard || (opcode == Opcode::write_zeroes && !keep_pages);
  choose();
}

void MemoryProgress::choose() noexcept {
  length_ = std::min(left_, kCopySlice);
  if (left_ == 0) {
    step_ = MemoryStep::done;
  } else if (opcode_ == Opcode::read) {
    step_ = MemoryStep::read;
  } else if (opcode_ == Opcode::write) {
    step_ = MemoryStep::write;
  } else {
    step_ = MemoryStep::zero;
    if (!release_) return;
    const auto to_page = static_cast<std::uint32_t>((page_ - offset_ % page_) % page_);
    const std::uint32_t whole = left_ - left_ % page_;
    if (to_page != 0) {
      length_ = std::min(left_, to_page);
    } else if (whole != 0) {
      step_ = MemoryStep::release;
      length_ = std::min(whole, std::max(kReleaseSlice, page_));
    }
  }
}

void MemoryProgress::on_done() noexcept {
  offset_ += length_;
  completed_ += length_;
  left_ -= length_;
  choose();
}

void MemoryProgress::on_not_released() noexcept {
  release_ = false;
  choose();
}

}  // namespace rtrs::daemon
