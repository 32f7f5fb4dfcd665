#include "core/record/recorder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <new>
#include <span>

#include "core/record/live_records.hpp"
#include "core/record/writer.hpp"

namespace rtrs {

namespace trace {
namespace {

// Size of a value of each kind; 0: no such kind.
constexpr auto kEventSizes = [] {
  std::array<std::size_t, kKindLimit> sizes{};
#define RTRS_TRACE_SIZE(number, event_class, type) sizes[number] = sizeof(type);
  RTRS_TRACE_EVENTS(RTRS_TRACE_SIZE)
#undef RTRS_TRACE_SIZE
  return sizes;
}();
constexpr std::size_t kMaxEventSize = *std::max_element(kEventSizes.begin(), kEventSizes.end());

}  // namespace
}  // namespace trace

using trace::BeginClient;
using trace::BeginServerRegistry;
using trace::BeginServerSession;
using trace::KindId;
using trace::kKindOf;

Recorder::Recorder(std::size_t ring_records) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(ring_records, 16));
  slots_ = std::make_unique_for_overwrite<Slot[]>(size);
  mask_ = size - 1;
  first_ring_ = size;
}

// Enlarges the ring and keeps its records. Records that were overwritten earlier stay lost.
void Recorder::grow_ring(std::size_t records) {
  const std::size_t size = std::bit_ceil(records);
  if (size <= mask_ + 1) return;
  auto larger = std::make_unique_for_overwrite<Slot[]>(size);
  const std::uint64_t first = ring_first();
  for (std::uint64_t at = first; at != head_; ++at) larger[at & (size - 1)] = slots_[at & mask_];
  slots_ = std::move(larger);
  mask_ = size - 1;
  ring_begin_ = first;
}

Recorder::~Recorder() {
  close_file();
}

void Recorder::put_large(KindId kind, InstanceId instance, const void* value, std::size_t size) noexcept {
  const auto* from = static_cast<const std::byte*>(value);
  for (std::size_t at = 0; at < size; at += kSlotBytes) {
    Slot& slot = slots_[head_++ & mask_];
    slot.kind = at == 0 ? kind : kContinuation;
    slot.instance = instance;
    slot.actions = 0;
    std::memcpy(slot.bytes, from + at, std::min(kSlotBytes, size - at));
  }
  if (writing_) append(kind, instance, value);
}

void Recorder::forget(InstanceId instance) noexcept {
  if (instance >= watched_.size() || watched_[instance].machine == nullptr) return;
  watched_[instance] = {};
  --watched_count_;
}

void Recorder::begin(Nanos now, InstanceId instance, MachineKind, const ClientConfig& config) noexcept {
  begins(now, instance);
  const BeginClient event{now, config};
  put_large(kKindOf<BeginClient>, instance, &event, sizeof event);
}

void Recorder::begin(Nanos now, InstanceId instance, MachineKind kind, const ServerConfig& config,
                     std::uint16_t session) noexcept {
  begins(now, instance);
  if (kind == MachineKind::server_registry) {
    const BeginServerRegistry event{now, config};
    put_large(kKindOf<BeginServerRegistry>, instance, &event, sizeof event);
  } else {
    const BeginServerSession event{now, session, config};
    put_large(kKindOf<BeginServerSession>, instance, &event, sizeof event);
  }
}

void Recorder::end(Nanos now, InstanceId instance) noexcept {
  forget(instance);
  put(kKindOf<trace::End>, instance, trace::End{now});
}

void Recorder::append(KindId kind, InstanceId instance, const void* value) noexcept {
  if (live_) return live_->append(kind, instance, value);
  if (const int error = writer_->append(kind, instance, value)) stop_writing(error);
}

void Recorder::check_state(InstanceId instance) noexcept {
  if (instance >= watched_.size() || watched_[instance].machine == nullptr) return;
  broken_ = watched_[instance].broken(watched_[instance].machine);
}

template <class Actions>
void Recorder::append_actions(InstanceId instance, const Actions& list) noexcept {
  for (const auto& action : list)
    visit_action([&, this](const auto& one) { this->append_event(instance, one); }, action);
  end_step(instance);
}
template void Recorder::append_actions(InstanceId, const ClientActions&) noexcept;
template void Recorder::append_actions(InstanceId, const ServerActions&) noexcept;
template void Recorder::append_actions(InstanceId, const RegistryActions&) noexcept;

void Recorder::end_step(InstanceId instance) noexcept {
  if (checking_ && broken_ == nullptr) check_state(instance);
  if (!live_ && writing_) hash_state(instance);
}

void Recorder::hash_state(InstanceId instance) noexcept {
  if (instance >= watched_.size() || options_.state_every == 0) return;
  trace::Watched& watched = watched_[instance];
  if (watched.machine == nullptr || ++watched.steps < options_.state_every) return;
  watched.steps = 0;
  const trace::StateHash hash{watched.fingerprint(watched.machine)};
  append(kKindOf<trace::StateHash>, instance, &hash);
}

void Recorder::watch(InstanceId instance, trace::Watched watched) {
  if (watched_.size() <= instance) watched_.resize(instance + std::size_t{1});
  forget(instance);
  grow_ring(first_ring_ * ((watched_count_ + kMachinesOfARing) / kMachinesOfARing));
  for (trace::Watched::Kept& kept : watched.kept) {
    kept.room = watched.bound(watched.machine);
    kept.bytes = std::make_unique_for_overwrite<std::uint8_t[]>(kept.room);
  }
  watched.due = head_ + (mask_ + 1) / 2;
  watched_[instance] = std::move(watched);
  ++watched_count_;
}

void Recorder::forget(InstanceId instance, const void* machine) noexcept {
  if (instance < watched_.size() && watched_[instance].machine == machine) forget(instance);
}

// Snapshots are taken twice per round of the ring, so that at least half of the ring can be replayed.
bool Recorder::take_snapshot(Nanos now, trace::Watched& watched) noexcept {
  if (watched.machine == nullptr) return true;
  trace::Watched::Kept& kept = watched.kept[watched.next];
  watched.due = head_ + (mask_ + 1) / 2;
  if (!make_room(watched, kept)) return false;
  watched.next ^= 1U;
  kept.size = static_cast<std::size_t>(watched.save(watched.machine, kept.bytes.get()) - kept.bytes.get());
  kept.at = head_;
  kept.now = now;
  ++snapshots_;
  return true;
}

// Allocates only after the state machine's state has grown. Returns false if out of memory; the snapshot is
// then omitted.
bool Recorder::make_room(const trace::Watched& watched, trace::Watched::Kept& kept) noexcept {
  const std::size_t needed = watched.bound(watched.machine);
  if (needed <= kept.room) return true;
  kept.size = 0;
  kept.bytes.reset(new (std::nothrow) std::uint8_t[needed]);
  kept.room = kept.bytes == nullptr ? 0 : needed;
  return kept.room != 0;
}

namespace {

int write_snapshot(trace::Writer& writer, InstanceId instance, const trace::Watched& watched,
                   const trace::Watched::Kept& kept) noexcept {
  const auto all = std::as_bytes(std::span(kept.bytes.get(), kept.size));
  for (std::size_t at = 0; at < all.size(); at += trace::kMaxStatePart) {
    trace::Snapshot part;
    part.now = kept.now;
    part.machine = watched.kind;
    part.layout = watched.layout;
    part.size = static_cast<std::uint32_t>(all.size());
    part.offset = static_cast<std::uint32_t>(at);
    part.part = all.subspan(at, std::min(trace::kMaxStatePart, all.size() - at));
    if (const int error = writer.append_note(instance, part)) return error;
  }
  return 0;
}

}  // namespace

void Recorder::append_snapshots(Nanos now) noexcept {
  snapshots_owed_ = false;
  for (std::size_t instance = 0; instance < watched_.size(); ++instance) {
    trace::Watched& watched = watched_[instance];
    if (watched.machine == nullptr) continue;
    if (!take_snapshot(now, watched)) return stop_writing(ENOMEM);
    if (const int error = write_snapshot(*writer_, static_cast<InstanceId>(instance), watched,
                                         watched.kept[watched.next ^ 1U])) {
      return stop_writing(error);
    }
  }
}

template <class Note>
void Recorder::append_note(InstanceId instance, const Note& note) noexcept {
  if (live_) return live_->append_note(instance, note);
  if (const int error = writer_->append_note(instance, note)) stop_writing(error);
}
template void Recorder::append_note(InstanceId, const trace::WireSent&) noexcept;
template void Recorder::append_note(InstanceId, const trace::WireReceived&) noexcept;
template void Recorder::append_note(InstanceId, const trace::WireCm&) noexcept;

void Recorder::stop_writing(int error) noexcept {
  writing_ = false;
  file_errno_ = error;
  // The record that failed and the other records of its block are lost.
  lost_ = writer_->unflushed() + 1;
  failed_at_ = head_;
}

trace::Header Recorder::header_of(const trace::Origin& origin, std::uint32_t flags) const {
  return {.flags = flags, .start = start_, .origin = origin, .schema = trace::builtin_schema()};
}

int Recorder::start(std::unique_ptr<trace::Writer> writer, bool partial) {
  if (const int error = writer->start(header_of(origin_, partial ? trace::partial : 0U))) return error;
  writer_ = std::move(writer);
  file_errno_ = 0;
  lost_ = 0;
  blocks_seen_ = 0;
  detail_ = options_.detail;
  snapshots_owed_ = partial;
  writing_ = true;
  return 0;
}

int Recorder::open_next(bool partial) {
  int error = 0;
  auto sink = trace::FdSink::create(path_.c_str(), error);
  return sink ? start(std::make_unique<trace::Writer>(std::move(sink)), partial) : error;
}

int Recorder::open_file(const char* path, const trace::Origin& origin, const trace::FileOptions& options) {
  if (writing_) return EBUSY;
  // Also checks the files that rotation replaces.
  for (unsigned number = 1; options.rotate_bytes != 0 && number < options.rotate_files; ++number)
    if (const int error = trace::may_replace((std::string(path) + '.' + std::to_string(number)).c_str()))
      return error;
  path_ = path;
  origin_ = origin;
  options_ = options;
  return open_next(head_ != 0);
}

int Recorder::open_listener(trace::Listener& listener, trace::Detail detail) {
  if (writing_) return EBUSY;
  live_ = std::make_unique<trace::LiveRecords>(listener);
  options_ = {};
  detail_ = detail;
  snapshots_owed_ = false;
  writing_ = true;
  return 0;
}

int Recorder::open_hash(const trace::Origin& origin) {
  if (writing_) return EBUSY;
  origin_ = origin;
  options_ = {};
  return start(std::make_unique<trace::Writer>(nullptr), head_ != 0);
}

// Runs between two steps, so records written here precede the next input.
void Recorder::before_step(Nanos now) noexcept {
  if (snapshots_owed_) append_snapshots(now);
  if (options_.rotate_bytes != 0 && writer_->bytes() >= options_.rotate_bytes && writing_) {
    if (const int error = rotate()) return stop_writing(error);
    append_snapshots(now);
  }
  if (options_.flush_every == 0 || !writing_) return;
  if (writer_->unflushed() == 0 || writer_->blocks() != blocks_seen_) {
    blocks_seen_ = writer_->blocks();
    block_since_ = now;
  } else if (now - block_since_ >= options_.flush_every) {
    flush_file();
  }
}

int Recorder::rotate() noexcept {
  if (const int error = writer_->finish()) return error;
  try {
    const auto name = [this](unsigned number) {
      return number == 0 ? path_ : path_ + '.' + std::to_string(number);
    };
    // If only one file is kept, the new file replaces it.
    for (unsigned number = std::max(options_.rotate_files, 1U) - 1; number > 0; --number) {
      if (std::rename(name(number - 1).c_str(), name(number).c_str()) != 0 && errno != ENOENT) return errno;
    }
    ++rotated_;
    return open_next(true);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

void Recorder::flush_file() noexcept {
  if (!writing_ || live_) return;
  if (const int error = writer_->flush()) stop_writing(error);
}

int Recorder::close_file() noexcept {
  if (live_) {
    live_.reset();
    writing_ = false;
    return 0;
  }
  if (writing_) {
    if (const int error = writer_->finish()) {
      stop_writing(error);
    }
    writing_ = false;
  }
  if (writer_) writer_->release();
  return file_errno_;
}

std::uint64_t Recorder::chain_hash() const noexcept {
  return writer_ ? writer_->chain_hash() : 0;
}

// Snapshots for records in the ring, in order.
std::vector<Recorder::KeptAt> Recorder::kept_since(std::uint64_t first) const {
  std::vector<KeptAt> all;
  for (std::size_t instance = 0; instance < watched_.size(); ++instance)
    for (const trace::Watched::Kept& kept : watched_[instance].kept)
      if (kept.size != 0 && kept.at >= first) all.push_back({static_cast<InstanceId>(instance), &kept});
  std::sort(all.begin(), all.end(), [](const KeptAt& a, const KeptAt& b) {
    return a.kept->at != b.kept->at ? a.kept->at < b.kept->at : a.instance < b.instance;
  });
  return all;
}

int Recorder::dump_ring(const char* path, const trace::Origin& origin) const {
  int error = 0;
  auto sink = trace::FdSink::create(path, error);
  if (!sink) return error;
  trace::Writer writer(std::move(sink));
  const std::uint64_t first = ring_first();
  error = writer.start(header_of(origin, trace::action_counts | (first != 0 ? trace::partial : 0U)));
  const auto kept = kept_since(first);
  auto due = kept.begin();
  for (std::uint64_t at = first; at != head_ && error == 0; ++at) {
    for (; due != kept.end() && due->kept->at <= at && error == 0; ++due) {
      error = write_snapshot(writer, due->instance, watched_[due->instance], *due->kept);
    }
    if (error != 0) break;
    const Slot& slot = slots_[at & mask_];
    if (slot.kind == kContinuation) continue;  // part of a value that was already assembled or overwritten
    const std::size_t size = trace::kEventSizes[slot.kind];
    std::byte value[trace::kMaxEventSize];
    std::memcpy(value, slot.bytes, std::min(kSlotBytes, size));
    const Slot* last = &slot;
    for (std::size_t done = kSlotBytes; done < size; done += kSlotBytes) {
      last = &slots_[(at + done / kSlotBytes) & mask_];
      std::memcpy(value + done, last->bytes, std::min(kSlotBytes, size - done));
    }
    error = writer.append(slot.kind, slot.instance, value);
    if (last->actions != 0 && error == 0) {
      const trace::ActionCount count{static_cast<std::uint16_t>(last->actions)};
      error = writer.append(kKindOf<trace::ActionCount>, slot.instance, &count);
    }
  }
  return error != 0 ? error : writer.finish();
}

RecorderCounters Recorder::counters() const noexcept {
  RecorderCounters counters;
  counters.ring_records = head_;
  counters.ring_overwritten = ring_first();
  if (writer_) {
    counters.file_records = file_errno_ != 0 ? writer_->records() - writer_->unflushed() : writer_->records();
    counters.file_bytes = writer_->bytes();
  }
  counters.files_rotated = rotated_;
  counters.snapshots = snapshots_;
  if (file_errno_ != 0) counters.file_records_lost = lost_ + (head_ - failed_at_);
  return counters;
}

}  // namespace rtrs
