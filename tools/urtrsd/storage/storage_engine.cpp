#include "tools/urtrsd/storage/storage_engine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

namespace rtrs::daemon {
namespace {

constexpr std::uint32_t kNone = SlotShare::kNone;
// Maximum number of slices that one poll() executes for long memory operations, so that these do not delay
// network events.
constexpr unsigned kLongSlices = 8;
constexpr std::uint32_t kMaxDepth = 32767;  // the io_uring submission queue has room for one more

// Zero bytes that write_zeroes writes; never modified.
alignas(4096) std::array<std::byte, OpProgress::kZeroBytes> zero_bytes{};

bool changes_device(Opcode opcode) noexcept {
  return opcode == Opcode::write || opcode == Opcode::discard || opcode == Opcode::write_zeroes;
}

// Executes a slice of an operation on a memory device.
void execute(const block::StartStorage& op, Export& target, MemoryProgress& progress) noexcept {
  std::byte* place = target.memory().data() + progress.offset();
  switch (progress.step()) {
    case MemoryStep::read:
      std::memcpy(op.data.data() + progress.buffer_offset(), place, progress.length());
      break;
    case MemoryStep::write:
      std::memcpy(place, op.data.data() + progress.buffer_offset(), progress.length());
      break;
    case MemoryStep::zero:
      std::memset(place, 0, progress.length());
      break;
    case MemoryStep::release:
      if (::madvise(place, progress.length(), MADV_DONTNEED) != 0) return progress.on_not_released();
      break;
    case MemoryStep::done:
      return;
  }
  progress.on_done();
}

}  // namespace

StorageEngine::StorageEngine(const Options& options, std::unique_ptr<StepRunner> runner, std::string warning)
    : options_(options),
      runner_(std::move(runner)),
      warning_(std::move(warning)),
      steps_done_(),
      fair_(options.depth) {
  reserve(options.depth);
}

void StorageEngine::reserve(std::uint32_t operations) {
  while (blocks_.size() * kBlock < operations) blocks_.push_back(std::make_unique_for_overwrite<Block>());
  room_ = std::max(room_, operations);
}

tl::expected<std::unique_ptr<StorageEngine>, OpenError> StorageEngine::create(const Options& options) {
  if (options.depth == 0 || options.depth > kMaxDepth)
    return tl::unexpected(OpenError{EINVAL, "the depth of the storage queue must be 1..32767"});
  Options used = options;
  std::string warning;
  if (!options.threads) {
    auto uring = make_uring_runner(options.depth);
    if (uring) return std::unique_ptr<StorageEngine>(new StorageEngine(used, std::move(*uring), ""));
    warning = uring.error();
  }
  used.depth = std::min(options.depth, tools::kStorageThreads);
  auto threads = make_thread_runner(used.depth);
  if (!threads) {
    const std::string why =
        "no thread can be started to read and write exports: " + errno_text(threads.error()) +
        "; raise the limits of tasks, memory and descriptors";
    return tl::unexpected(OpenError{threads.error(), warning.empty() ? why : warning + "; " + why});
  }
  if (!warning.empty())
    warning += ". Up to " + std::to_string(used.depth) +
               " threads read and write exports instead, which costs more CPU time for each IO";
  return std::unique_ptr<StorageEngine>(new StorageEngine(used, std::move(*threads), std::move(warning)));
}

StorageEngine::~StorageEngine() {
  std::array<StorageResult, 64> ignored;
  while (in_flight_ != 0) wait(ignored);
}

std::int32_t StorageEngine::check(const block::StartStorage& op, const Export& target) noexcept {
  if (op.opcode == Opcode::flush) return 0;
  if (changes_device(op.opcode) && target.read_only()) return EPERM;
  const std::uint32_t block = target.geometry().logical_block_size;
  const std::uint64_t sectors = target.sectors();
  if (op.sector > sectors || op.bytes > (sectors - op.sector) * kSectorBytes) return EIO;
  if (op.bytes == 0 || op.bytes % block != 0 || op.sector * kSectorBytes % block != 0) return EINVAL;
  if (op.opcode == Opcode::discard && target.geometry().max_discard_sectors == 0) return EOPNOTSUPP;
  return 0;
}

std::uint32_t StorageEngine::take_slot() noexcept {
  static_assert(std::is_trivially_destructible_v<Slot>);
  if (!vacant_.empty()) return remove_first(vacant_);
  std::construct_at(&slot_at(used_));
  return used_++;
}

bool StorageEngine::submit(const block::StartStorage& op, Export& target) noexcept {
  if (in_flight_ == room_) return false;
  const std::uint32_t index = take_slot();
  Slot& slot = slot_at(index);
  ++in_flight_;
  target.begin_operation();
  slot.op = op;
  slot.target = &target;
  slot.error = check(op, target);
  slot.cause = 0;
  slot.sync_failed = false;
  if (slot.error != 0) {
    make_ready(index, Phase::report);
  } else if (target.kind() == ExportKind::memory && target.delay_ms() == 0) {
    start(index);
  } else {
    admit(index);
  }
  return true;
}

// Starts the operation if its device may take a slot, otherwise queues it.
void StorageEngine::admit(std::uint32_t index) noexcept {
  SlotShare& share = slot_at(index).target->share();
  fair_.enter(share);
  if (fair_.may_start(share)) {
    fair_.take(share);
    begin(index);
    return;
  }
  slot_at(index).phase = Phase::waiting;
  List waiting{share.first, share.last};
  append(waiting, index);
  share.first = waiting.first;
  share.last = waiting.last;
  fair_.wait(share);
}

void StorageEngine::begin(std::uint32_t index) noexcept {
  if (slot_at(index).target->delay_ms() != 0)
    prepare_delay(index);
  else
    start(index);
}

// Releases the slot of a completed operation and starts operations that waited for a slot.
void StorageEngine::release_slot(Slot& slot) noexcept {
  fair_.give_back(slot.target->share());
  while (SlotShare* share = fair_.turn()) {
    List waiting{share->first, share->last};
    const std::uint32_t index = remove_first(waiting);
    share->first = waiting.first;
    share->last = waiting.last;
    fair_.take(*share);
    if (waiting.empty()) fair_.done_waiting(*share);
    begin(index);
  }
}

void StorageEngine::leave(Export& target) noexcept {
  if (target.owns_share()) fair_.leave(target.share());
}

void StorageEngine::start(std::uint32_t index) noexcept {
  Slot& slot = slot_at(index);
  const std::uint64_t offset = slot.op.sector * kSectorBytes;
  if (slot.target->kind() == ExportKind::memory) {
    slot.memory =
        MemoryProgress(slot.op.opcode, offset, slot.op.bytes, slot.target->page_size(), slot.op.nounmap);
    make_ready(index, Phase::execute);
    return;
  }
  const bool block_device = slot.target->kind() == ExportKind::block_device;
  slot.progress = OpProgress(slot.op.opcode, offset, slot.op.bytes,
                             {slot.op.fua, block_device, slot.op.nounmap, slot.op.preflush});
  prepare_step(index);
}

void StorageEngine::prepare_delay(std::uint32_t index) noexcept {
  Slot& slot = slot_at(index);
  const std::uint32_t delay_ms = slot.target->delay_ms();
  slot.phase = Phase::delayed;
  slot.delay = {delay_ms / 1000, static_cast<long long>(delay_ms % 1000) * 1'000'000};
  runner_->start_delay(index, slot.delay);
}

void StorageEngine::prepare_step(std::uint32_t index) noexcept {
  Slot& slot = slot_at(index);
  if (slot.target->kind() == ExportKind::nbd) return submit_nbd(index);
  const OpProgress& progress = slot.progress;
  slot.phase = Phase::kernel;
  FileStep step;
  step.kind = progress.step();
  step.fd = slot.target->fd();
  if (step.kind == OpStep::write_zero_bytes)
    step.buffer = zero_bytes.data();
  else if (!slot.op.data.empty())
    step.buffer = slot.op.data.data() + progress.buffer_offset();
  step.offset = progress.offset();
  step.length = progress.length();
  step.data_sync = progress.data_sync();
  step.may_wait = slot.target->kind() == ExportKind::file;
  runner_->start(index, step);
}

std::byte* StorageEngine::zeroes() noexcept {
  return zero_bytes.data();
}

std::vector<std::pair<block::OpId, const char*>> StorageEngine::pending_waits() const {
  static constexpr const char* kWords[] = {
      "waits for operations of the same device to end", "waits for delay_ms of its export",
      "in progress in the kernel", "waits for its turn to copy memory", "complete, response not yet sent"};
  std::vector<std::pair<block::OpId, const char*>> all;
  for (std::uint32_t i = 0; i < used_; ++i) {
    const Slot& slot = slot_at(i);
    if (slot.target != nullptr) all.emplace_back(slot.op.id, kWords[static_cast<std::size_t>(slot.phase)]);
  }
  return all;
}

void StorageEngine::append(List& list, std::uint32_t index) noexcept {
  slot_at(index).next = kNone;
  (list.empty() ? list.first : slot_at(list.last).next) = index;
  list.last = index;
}

std::uint32_t StorageEngine::remove_first(List& list) noexcept {
  const std::uint32_t index = list.first;
  list.first = slot_at(index).next;
  if (list.empty()) list.last = kNone;
  return index;
}

void StorageEngine::make_ready(std::uint32_t index, Phase phase) noexcept {
  slot_at(index).phase = phase;
  append(ready_, index);
}

bool StorageEngine::start_submitted() noexcept {
  runner_->hand_over();
  return has_news();
}

bool StorageEngine::has_news() const noexcept {
  return !ready_.empty() || !long_.empty() || runner_->has_news() || nbd_results_.has_some();
}

void StorageEngine::on_completion(std::uint32_t index, std::int32_t result) noexcept {
  Slot& slot = slot_at(index);
  if (slot.phase == Phase::delayed) {
    start(index);
    if (slot.phase == Phase::execute) release_slot(slot);
    return;
  }
  advance(index, result);
}

// Continues an operation. `result` is the return value of the step that has completed.
void StorageEngine::advance(std::uint32_t index, std::int32_t result) noexcept {
  Slot& slot = slot_at(index);
  slot.progress.on_result(result);
  if (slot.progress.step() != OpStep::done) {
    prepare_step(index);
    return;
  }
  slot.error = slot.progress.error();
  slot.cause = slot.progress.cause();
  const bool is_nbd = slot.target->kind() == ExportKind::nbd;
  slot.sync_failed = is_nbd ? slot.nbd.lost_changes : slot.progress.sync_failed();
  make_ready(index, Phase::report);
  release_slot(slot);
}

void StorageEngine::reap() noexcept {
  std::size_t count = 0;
  do {
    count = runner_->take(steps_done_);
    for (const StepDone& done : std::span(steps_done_).first(count))
      if (done.index != StepRunner::kWatched) on_completion(done.index, done.result);
  } while (count == steps_done_.size());
  if (nbd_in_flight_ != 0) take_nbd();
}

StorageResult StorageEngine::finish(std::uint32_t index) noexcept {
  Slot& slot = slot_at(index);
  StorageResult done{slot.op.id, slot.error, slot.sync_failed};
  if (slot.error != 0) [[unlikely]] {
    done.opcode = slot.op.opcode;
    done.cause = slot.cause;
    done.sector = slot.op.sector;
    done.bytes = slot.op.bytes;
    done.target = slot.target;
  }
  slot.target->end_operation();
  slot.target = nullptr;
  append(vacant_, index);
  --in_flight_;
  return done;
}

std::size_t StorageEngine::report(std::span<StorageResult> done) noexcept {
  std::size_t count = 0;
  while (count < done.size() && !ready_.empty()) {
    const std::uint32_t index = remove_first(ready_);
    Slot& slot = slot_at(index);
    if (slot.phase == Phase::execute) execute(slot.op, *slot.target, slot.memory);
    if (slot.phase == Phase::execute && slot.memory.step() != MemoryStep::done)
      append(long_, index);
    else
      done[count++] = finish(index);
  }
  for (unsigned slice = 0; slice < kLongSlices && count < done.size() && !long_.empty(); ++slice) {
    const std::uint32_t index = remove_first(long_);
    Slot& slot = slot_at(index);
    execute(slot.op, *slot.target, slot.memory);
    if (slot.memory.step() != MemoryStep::done)
      append(long_, index);
    else
      done[count++] = finish(index);
  }
  return count;
}

std::size_t StorageEngine::poll(std::span<StorageResult> done) noexcept {
  start_submitted();
  reap();
  start_submitted();
  return report(done);
}

std::size_t StorageEngine::wait(std::span<StorageResult> done) noexcept {
  while (!done.empty() && in_flight_ != 0) {
    if (const std::size_t count = poll(done); count != 0) return count;
    if (ready_.empty() && long_.empty() && !nbd_results_.has_some()) runner_->wait();
  }
  return 0;
}

}  // namespace rtrs::daemon
