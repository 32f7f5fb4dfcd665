// The part of StorageEngine for exports of NBD servers.
#include "tools/urtrsd/storage/storage_engine.hpp"

namespace rtrs::daemon {

void StorageEngine::submit_nbd(std::uint32_t index) noexcept {
  Slot& slot = slot_at(index);
  const OpProgress& progress = slot.progress;
  slot.phase = Phase::kernel;
  NbdCommand& command = slot.nbd;
  command.results = &nbd_results_;
  command.index = index;
  command.seen = &slot.target->nbd_seen();
  command.opcode = slot.op.opcode;
  command.step = progress.step();
  command.offset = progress.offset();
  command.length = progress.length();
  command.fua = progress.data_sync();
  command.buffer =
      progress.step() == OpStep::write_zero_bytes ? zeroes() : slot.op.data.data() + progress.buffer_offset();
  ++nbd_in_flight_;
  runner_->watch(nbd_results_.fd());
  slot.target->nbd()->submit(command);
}

void StorageEngine::take_nbd() noexcept {
  while (NbdCommand* command = nbd_results_.take()) {
    --nbd_in_flight_;
    advance(command->index, command->result);
  }
  if (nbd_in_flight_ != 0) runner_->watch(nbd_results_.fd());
}

}  // namespace rtrs::daemon
