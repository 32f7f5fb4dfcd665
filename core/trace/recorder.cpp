#include "core/trace/recorder.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "core/trace/writer.hpp"

namespace rtrs {

using trace::BeginClient;
using trace::BeginServerRegistry;
using trace::BeginServerSession;
using trace::KindId;
using trace::kKindOf;

namespace {

// Bytes of the kinds that need more than one slot; 0 for all others.
constexpr std::size_t large_size(KindId kind) {
  switch (kind) {
    case kKindOf<BeginClient>:
      return sizeof(BeginClient);
    case kKindOf<BeginServerSession>:
      return sizeof(BeginServerSession);
    case kKindOf<BeginServerRegistry>:
      return sizeof(BeginServerRegistry);
    default:
      return 0;
  }
}
constexpr std::size_t kMaxLarge =
    std::max({sizeof(BeginClient), sizeof(BeginServerSession), sizeof(BeginServerRegistry)});

}  // namespace

Recorder::Recorder(std::size_t ring_records) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(ring_records, 16));
  slots_ = std::make_unique_for_overwrite<Slot[]>(size);
  mask_ = size - 1;
}

Recorder::~Recorder() {
  close_file();
}

template <class T>
void Recorder::put_large(InstanceId instance, const T& value) noexcept {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  for (std::size_t at = 0; at < sizeof(T); at += kSlotBytes) {
    Slot& slot = slots_[head_++ & mask_];
    slot.kind = at == 0 ? kKindOf<T> : kContinuation;
    slot.instance = instance;
    slot.actions = 0;
    std::memcpy(slot.bytes, from + at, std::min(kSlotBytes, sizeof(T) - at));
  }
  if (writing_) append(kKindOf<T>, instance, &value);
}

void Recorder::begin(Nanos now, InstanceId instance, MachineKind, const ClientConfig& config) noexcept {
  put_large(instance, BeginClient{now, config});
}

void Recorder::begin(Nanos now, InstanceId instance, MachineKind kind, const ServerConfig& config,
                     std::uint16_t session) noexcept {
  if (kind == MachineKind::server_registry) {
    put_large(instance, BeginServerRegistry{now, config});
  } else {
    put_large(instance, BeginServerSession{now, session, config});
  }
}

void Recorder::end(Nanos now, InstanceId instance) noexcept {
  put(kKindOf<trace::End>, instance, trace::End{now});
}

void Recorder::append(KindId kind, InstanceId instance, const void* value) noexcept {
  if (const int error = writer_->append(kind, instance, value)) stop_writing(error);
}

void Recorder::append_actions(InstanceId instance, const ActionList& list) noexcept {
  for (const Action& action : list) {
    if (const int error = writer_->append_action(instance, action)) {
      stop_writing(error);
      return;
    }
  }
}

template <class Note>
void Recorder::append_note(InstanceId instance, const Note& note) noexcept {
  if (const int error = writer_->append_note(instance, note)) stop_writing(error);
}
template void Recorder::append_note(InstanceId, const trace::WireSent&) noexcept;
template void Recorder::append_note(InstanceId, const trace::WireReceived&) noexcept;
template void Recorder::append_note(InstanceId, const trace::WireCm&) noexcept;

void Recorder::stop_writing(int error) noexcept {
  writing_ = false;
  file_errno_ = error;
  // The record that failed and those of its block, which are in no file.
  lost_ = writer_->unflushed() + 1;
  failed_at_ = head_;
}

int Recorder::start(std::unique_ptr<trace::Writer> writer, const trace::Origin& origin,
                    const trace::FileOptions& options) {
  trace::Header header;
  header.origin = origin;
  header.schema = trace::builtin_schema();
  if (head_ != 0) header.flags |= trace::partial;
  if (const int error = writer->start(header)) return error;
  writer_ = std::move(writer);
  file_errno_ = 0;
  lost_ = 0;
  detail_ = options.detail;
  writing_ = true;
  return 0;
}

int Recorder::open_file(const char* path, const trace::Origin& origin, const trace::FileOptions& options) {
  if (writing_) return EBUSY;
  int error = 0;
  auto sink = trace::FdSink::create(path, error);
  return sink ? start(std::make_unique<trace::Writer>(std::move(sink)), origin, options) : error;
}

int Recorder::open_hash(const trace::Origin& origin) {
  if (writing_) return EBUSY;
  return start(std::make_unique<trace::Writer>(nullptr), origin, {});
}

void Recorder::flush_file() noexcept {
  if (!writing_) return;
  if (const int error = writer_->flush()) stop_writing(error);
}

int Recorder::close_file() noexcept {
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

int Recorder::dump_ring(const char* path, const trace::Origin& origin) const {
  int error = 0;
  auto sink = trace::FdSink::create(path, error);
  if (!sink) return error;
  trace::Writer writer(std::move(sink));
  trace::Header header;
  header.origin = origin;
  header.schema = trace::builtin_schema();
  const std::uint64_t first = head_ > mask_ + 1 ? head_ - (mask_ + 1) : 0;
  header.flags = trace::action_counts | (first != 0 ? trace::partial : 0U);
  error = writer.start(header);
  for (std::uint64_t at = first; at != head_ && error == 0; ++at) {
    const Slot& slot = slots_[at & mask_];
    if (slot.kind == kContinuation) continue;  // of a value that was put together or overwritten
    const std::size_t size = large_size(slot.kind);
    std::byte value[kMaxLarge];
    std::memcpy(value, slot.bytes, kSlotBytes);
    for (std::size_t done = kSlotBytes; done < size; done += kSlotBytes) {
      const Slot& next = slots_[(at + done / kSlotBytes) & mask_];
      std::memcpy(value + done, next.bytes, std::min(kSlotBytes, size - done));
    }
    error = writer.append(slot.kind, slot.instance, value);
    if (slot.actions != 0 && error == 0) {
      const trace::ActionCount count{static_cast<std::uint16_t>(slot.actions)};
      error = writer.append(kKindOf<trace::ActionCount>, slot.instance, &count);
    }
  }
  return error != 0 ? error : writer.finish();
}

RecorderCounters Recorder::counters() const noexcept {
  RecorderCounters counters;
  counters.ring_records = head_;
  counters.ring_overwritten = head_ > mask_ + 1 ? head_ - (mask_ + 1) : 0;
  if (writer_) {
    counters.file_records = file_errno_ != 0 ? writer_->records() - writer_->unflushed() : writer_->records();
    counters.file_bytes = writer_->bytes();
  }
  if (file_errno_ != 0) counters.file_records_lost = lost_ + (head_ - failed_at_);
  return counters;
}

}  // namespace rtrs
