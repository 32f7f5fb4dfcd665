#include "tools/urtrsd/storage/op_progress.hpp"

#include <algorithm>
#include <cerrno>

#include "tools/urtrsd/storage/open_error.hpp"

namespace rtrs::daemon {

OpStep OpProgress::first_step() const noexcept {
  switch (opcode_) {
    case Opcode::read:
      return OpStep::read;
    case Opcode::write:
      return OpStep::write;
    case Opcode::flush:
      return OpStep::sync_data;
    case Opcode::discard:
      return OpStep::punch_hole;
    case Opcode::write_zeroes:
    case Opcode::secure_erase:  // never submitted
      break;
  }
  if (!options_.nounmap) return OpStep::punch_hole;
  return options_.block_device ? OpStep::write_zero_bytes : OpStep::zero_range;
}

OpProgress::OpProgress(Opcode opcode, std::uint64_t offset, std::uint32_t bytes,
                       const OpOptions& manner) noexcept
    : offset_(offset), bytes_(bytes), opcode_(opcode), options_(manner), flushing_(manner.preflush) {
  step_ = flushing_ ? OpStep::sync_data : first_step();
}

std::uint32_t OpProgress::length() const noexcept {
  const std::uint32_t left = bytes_ - completed_;
  return step_ == OpStep::write_zero_bytes ? std::min(left, kZeroBytes) : left;
}

void OpProgress::finish(std::int32_t error) noexcept {
  error_ = error;
  step_ = OpStep::done;
}

void OpProgress::on_transferred(std::uint32_t count) noexcept {
  if (count == 0 || count > length()) {
    finish(EIO);
    return;
  }
  completed_ += count;
  if (completed_ == bytes_) finish(0);
}

void OpProgress::on_failed(std::int32_t error) noexcept {
  if (error == EINTR || error == EAGAIN) {
    if (++stalls_ > kMaxStalls) finish(EAGAIN);
    return;
  }
  const bool zeroes = error == EOPNOTSUPP && opcode_ == Opcode::write_zeroes;
  if (zeroes && step_ == OpStep::punch_hole && !options_.block_device) {
    step_ = OpStep::zero_range;
    return;
  }
  if (zeroes && (step_ == OpStep::punch_hole || step_ == OpStep::zero_range)) {
    step_ = OpStep::write_zero_bytes;
    return;
  }
  const bool writes = step_ == OpStep::write || step_ == OpStep::write_zero_bytes;
  sync_failed_ =
      step_ == OpStep::sync_data || (writes && options_.fua && !options_.block_device && error == EIO);
  cause_ = error;
  finish(peer_errno(error));
}

void OpProgress::on_result(std::int32_t result) noexcept {
  if (result < 0) {
    on_failed(-result);
    return;
  }
  stalls_ = 0;
  switch (step_) {
    case OpStep::read:
    case OpStep::write:
    case OpStep::write_zero_bytes:
      on_transferred(static_cast<std::uint32_t>(result));
      return;
    case OpStep::punch_hole:
    case OpStep::zero_range:
      if (options_.fua)
        step_ = OpStep::sync_data;
      else
        finish(0);
      return;
    case OpStep::sync_data:
      if (flushing_) {
        flushing_ = false;
        step_ = first_step();
        return;
      }
      finish(0);
      return;
    case OpStep::done:
      finish(0);
      return;
  }
}

}  // namespace rtrs::daemon
