#include "tools/urtrsd/op_progress.hpp"

#include <algorithm>
#include <cerrno>

#include "tools/urtrsd/open_error.hpp"

namespace rtrs::daemon {
namespace {

OpStep first_step(StorageOpcode opcode, bool block_device) noexcept {
  switch (opcode) {
    case StorageOpcode::read:
      return OpStep::read;
    case StorageOpcode::write:
      return OpStep::write;
    case StorageOpcode::flush:
      return OpStep::sync_data;
    case StorageOpcode::discard:
      return OpStep::punch_hole;
    case StorageOpcode::write_zeroes:
      return block_device ? OpStep::punch_hole : OpStep::zero_range;
  }
  return OpStep::done;
}

}  // namespace

OpProgress::OpProgress(StorageOpcode opcode, std::uint64_t offset, std::uint32_t bytes, bool fua,
                       bool block_device) noexcept
    : offset_(offset),
      bytes_(bytes),
      opcode_(opcode),
      step_(first_step(opcode, block_device)),
      fua_(fua),
      block_device_(block_device) {}

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
  if (error == EOPNOTSUPP && opcode_ == StorageOpcode::write_zeroes && step_ == OpStep::zero_range) {
    step_ = OpStep::punch_hole;
    return;
  }
  if (error == EOPNOTSUPP && opcode_ == StorageOpcode::write_zeroes && step_ == OpStep::punch_hole) {
    step_ = OpStep::write_zero_bytes;
    return;
  }
  const bool writes = step_ == OpStep::write || step_ == OpStep::write_zero_bytes;
  sync_failed_ = step_ == OpStep::sync_data || (writes && fua_ && !block_device_ && error == EIO);
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
      if (fua_)
        step_ = OpStep::sync_data;
      else
        finish(0);
      return;
    case OpStep::sync_data:
    case OpStep::done:
      finish(0);
      return;
  }
}

}  // namespace rtrs::daemon
