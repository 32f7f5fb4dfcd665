// Records every input of the protocol state machines ("machines") into a ring in memory and, on request,
// inputs and actions into a file (docs/trace_format.md). The ring never allocates and never fails. If writing
// the file fails, recording continues in the ring only; the machines are not affected.
//
// For watched state machines the recorder also takes periodic snapshots of the state. If a ring dump or a
// file starts in the middle of a run, replay starts from such a snapshot.
//
// Order of calls for one state machine: begin, watch; then for every step input, followed by actions before
// anything else is recorded; finally end. begin may be called again after or without end. Actions belong to
// the machine's last input. Only one thread at a time may use a recorder; machines of one recorder share one
// clock.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/proto/actions.hpp"
#include "core/proto/config.hpp"
#include "core/proto/ids.hpp"
#include "core/record/kinds.hpp"
#include "core/record/origin.hpp"
#include "core/record/watched.hpp"
#include "core/record/wire_notes.hpp"

namespace rtrs {

namespace trace {

class Listener;
class LiveRecords;
class Writer;
struct Header;

// Content of a file in addition to inputs and actions.
enum class Detail : std::uint8_t {
  machines,  // no additional content
  wire,      // notes of wire traffic, user data as digests
  payload,   // notes of wire traffic with user data
};

struct FileOptions {
  Detail detail = Detail::machines;
  std::uint32_t state_every = 4096;  // a watched state machine is hashed after this many inputs
  Nanos flush_every = 0;             // maximum age of a block before it is written; 0: only when full
  // 0: one file of unlimited size. Otherwise a file that reaches this size is completed and renamed to
  // PATH.1, PATH.1 to PATH.2 and so on; the oldest beyond rotate_files is deleted. Each file can be replayed
  // without the others.
  std::uint64_t rotate_bytes = 0;
  unsigned rotate_files = 4;
};

}  // namespace trace

struct RecorderCounters {
  std::uint64_t ring_records = 0;       // slots written since the recorder was made
  std::uint64_t ring_overwritten = 0;   // slots overwritten by newer records
  std::uint64_t file_records = 0;       // inputs, actions and control events of the current or last file
  std::uint64_t file_bytes = 0;         // bytes passed to the operating system
  std::uint64_t file_records_lost = 0;  // records not written since the file failed; excludes later actions
  std::uint64_t files_rotated = 0;
  std::uint64_t snapshots = 0;  // snapshots of state machines
};

class Recorder {
 public:
  static constexpr std::size_t kDefaultRingRecords = std::size_t{1} << 14;
  static constexpr std::size_t kMachinesOfARing = 16;

  // `ring_records` is rounded up to a power of two, at least 16; each takes 64 bytes. The ring grows by the
  // same size for each further kMachinesOfARing watched state machines, so that the cost of snapshots per
  // input does not grow with the number of machines.
  explicit Recorder(std::size_t ring_records = kDefaultRingRecords);
  ~Recorder();  // closes an open file
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Records that a state machine was created from this configuration. `kind` is client_session.
  void begin(Nanos now, InstanceId, MachineKind kind, const ClientConfig&) noexcept;
  // Records that a state machine was created. `kind` is server_session, created with index `session`, or
  // server_registry.
  void begin(Nanos now, InstanceId, MachineKind kind, const ServerConfig&,
             std::uint16_t session = 0) noexcept;
  // Records that a device state machine was created; `event` is the begin event of its kind.
  template <class Begin>
  void begin(InstanceId instance, const Begin& event) noexcept {
    static_assert(trace::KindOf<Begin>::category == trace::EventClass::control);
    begins(event.now, instance);
    put(trace::kKindOf<Begin>, instance, event);
  }
  void end(Nanos now, InstanceId) noexcept;

  // Registers the state machine of an instance that was begun. The recorder reads the machine between its
  // steps until end(), forget() or another begin(). Allocates.
  template <class Machine>
  void watch(InstanceId instance, MachineKind kind, const Machine& machine) {
    watch(instance, trace::Watched::of(kind, machine));
  }
  // Call before a watched state machine is destroyed without end(). Does nothing if another machine is
  // watched for the instance by now.
  void forget(InstanceId instance, const void* machine) noexcept;

  // Records an input; call before the step.
  template <class Input>
  void input(InstanceId instance, const Input& value) noexcept {
    static_assert(trace::KindOf<Input>::category == trace::EventClass::input);
    if (instance < watched_.size() && head_ >= watched_[instance].due) [[unlikely]]
      take_snapshot(value.now, watched_[instance]);
    if (writing_) [[unlikely]]
      before_step(value.now);
    if constexpr (sizeof(Input) <= kSlotBytes)
      put(trace::kKindOf<Input>, instance, value);
    else
      put_large(trace::kKindOf<Input>, instance, &value, sizeof value);
  }
  template <class... Inputs>
  void input(InstanceId instance, const std::variant<Inputs...>& value) noexcept {
    std::visit([this, instance](const auto& one) { this->input(instance, one); }, value);
  }
  void input(InstanceId instance, const rnbd::DeviceRequest& value) noexcept {
    if (value.header.size() <= wire::rnbd::kIoBytes) [[likely]]
      input(instance, trace::DeviceRequest::of(value));
    else
      input(instance, trace::LongDeviceRequest::of(value));
  }
  // Records the actions of the step. The ring keeps only their number.
  template <class Actions>
  void actions(InstanceId instance, const Actions& list) noexcept {
    slots_[(head_ - 1) & mask_].actions = static_cast<std::uint32_t>(list.size());
    if (writing_) [[unlikely]]
      append_actions(instance, list);
  }
  // Like actions(), for a device state machine. `outcome`: return value of the step, if it has one.
  template <class DeviceActions, class... Outcome>
  void device_actions(InstanceId instance, const DeviceActions& list, const Outcome&... outcome) noexcept {
    slots_[(head_ - 1) & mask_].actions = static_cast<std::uint32_t>(list.size() + sizeof...(Outcome));
    if (writing_) [[unlikely]] {
      append_devices(instance, list);
      (append_event(instance, trace::recorded(outcome)), ...);
      end_step(instance);
    }
  }
  // Records the state machine's current fingerprint(), which replay compares.
  void state(InstanceId instance, std::uint64_t fingerprint) noexcept {
    put(trace::kKindOf<trace::StateHash>, instance, trace::StateHash{fingerprint});
  }

  // Records a note in the file only, never in the ring. Precondition: records_wire().
  template <class Note>
  void note(InstanceId instance, const Note& value) noexcept {
    static_assert(trace::KindOf<Note>::category == trace::EventClass::note);
    if (records_wire()) append_note(instance, value);
  }
  bool records_wire() const noexcept { return writing_ && detail_ != trace::Detail::machines; }
  bool records_payload() const noexcept { return writing_ && detail_ == trace::Detail::payload; }

  // Starts a file, which replaces an empty file or a trace at `path`. Returns 0 or a positive errno: EBUSY if
  // a file is open, EEXIST if another kind of file is at `path` or at a name of its rotated files. If earlier
  // records exist, the file marks its beginning as missing and contains snapshots instead.
  int open_file(const char* path, const trace::Origin&, const trace::FileOptions& options = {});
  // Passes every record to `listener` (borrowed) instead of a file, until close_file(). Returns 0, or EBUSY
  // if a file is open. The listener receives only records made after this call.
  int open_listener(trace::Listener& listener, trace::Detail detail);
  // Encodes and hashes records as for a file, but writes no file. chain_hash() returns the result.
  int open_hash(const trace::Origin&);
  // Checks the invariants of every watched state machine after each step that is recorded to a file or a
  // listener. Linear in the depth per step, so for simulation only.
  void check_invariants() noexcept { checking_ = true; }
  // Name of the first violated invariant, or null.
  const char* broken_invariant() const noexcept { return broken_; }
  // Writes the buffered records (up to 64 KiB) as one block. Does nothing without a file.
  void flush_file() noexcept;
  // Completes and closes the file. Returns 0 or the errno of the first failure since it was opened.
  int close_file() noexcept;
  bool recording() const noexcept { return writing_; }
  bool file_failed() const noexcept { return file_errno_ != 0; }
  int file_errno() const noexcept { return file_errno_; }
  // XXH3-64 over the encoded records since the last open.
  std::uint64_t chain_hash() const noexcept;

  // Writes the ring as a trace file and leaves the ring unchanged. Returns 0 or a positive errno: EEXIST if
  // `path` is not a trace. Call only between steps.
  int dump_ring(const char* path, const trace::Origin&) const;
  RecorderCounters counters() const noexcept;

 private:
  static constexpr std::size_t kSlotBytes = 56;
  struct alignas(64) Slot {
    trace::KindId kind;
    InstanceId instance;
    std::uint32_t actions;  // number of actions that this input caused
    std::byte bytes[kSlotBytes];
  };
  static_assert(sizeof(Slot) == 64);
  // Kind of the slots that continue a record longer than one slot.
  static constexpr trace::KindId kContinuation = 0;

  template <class T>
  void put(trace::KindId kind, InstanceId instance, const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kSlotBytes);
    Slot& slot = slots_[head_++ & mask_];
    slot.kind = kind;
    slot.instance = instance;
    slot.actions = 0;
    std::memcpy(slot.bytes, &value, sizeof(T));
    if (writing_) [[unlikely]]
      append(kind, instance, &value);
  }
  // Records a value that is longer than a slot.
  void put_large(trace::KindId kind, InstanceId instance, const void* value, std::size_t size) noexcept;
  void append(trace::KindId kind, InstanceId instance, const void* value) noexcept;
  template <class Actions>
  void append_actions(InstanceId instance, const Actions& list) noexcept;
  void append_devices(InstanceId instance, std::span<const rnbd::ClientAction> list) noexcept;
  void append_devices(InstanceId instance, std::span<const rnbd::ServerAction> list) noexcept;
  template <class Event>
  void append_event(InstanceId instance, const Event& event) noexcept {
    if (writing_) append(trace::kKindOf<Event>, instance, &event);
  }
  // Called after the actions of a step were recorded to a file or listener.
  void end_step(InstanceId instance) noexcept;
  struct KeptAt {
    InstanceId instance;
    const trace::Watched::Kept* kept;
  };
  std::vector<KeptAt> kept_since(std::uint64_t first) const;
  void watch(InstanceId instance, trace::Watched watched);
  void forget(InstanceId instance) noexcept;
  void begins(Nanos now, InstanceId instance) noexcept {
    if (head_ == 0) start_ = now;
    forget(instance);
  }
  trace::Header header_of(const trace::Origin&, std::uint32_t flags) const;
  // Returns false if there is no memory for the snapshot.
  bool take_snapshot(Nanos now, trace::Watched&) noexcept;
  static bool make_room(const trace::Watched&, trace::Watched::Kept&) noexcept;
  void grow_ring(std::size_t records);
  // Number of the oldest record that the ring holds.
  std::uint64_t ring_first() const noexcept {
    return std::max(ring_begin_, head_ > mask_ + 1 ? head_ - (mask_ + 1) : 0);
  }
  void before_step(Nanos now) noexcept;
  void append_snapshots(Nanos now) noexcept;
  void hash_state(InstanceId instance) noexcept;
  void check_state(InstanceId instance) noexcept;
  int rotate() noexcept;
  int open_next(bool partial);
  template <class Note>
  void append_note(InstanceId instance, const Note& note) noexcept;
  int start(std::unique_ptr<trace::Writer> writer, bool partial);
  void stop_writing(int error) noexcept;

  std::unique_ptr<Slot[]> slots_;
  std::size_t mask_ = 0;
  std::size_t first_ring_ = 0;  // initial capacity of the ring in records
  std::size_t watched_count_ = 0;
  std::uint64_t ring_begin_ = 0;  // earlier records are overwritten
  std::uint64_t head_ = 0;
  Nanos start_ = 0;  // time of the first record
  bool writing_ = false;
  bool checking_ = false;
  const char* broken_ = nullptr;
  bool snapshots_owed_ = false;  // the file began in the middle of a run; its snapshots are not written yet
  trace::Detail detail_ = trace::Detail::machines;
  int file_errno_ = 0;
  std::uint64_t lost_ = 0;       // records lost by the failure itself
  std::uint64_t failed_at_ = 0;  // head_ at the time of the failure
  std::unique_ptr<trace::Writer> writer_;
  std::unique_ptr<trace::LiveRecords> live_;  // set instead of `writer_` while a listener gets the records
  std::vector<trace::Watched> watched_;       // indexed by instance
  trace::FileOptions options_;
  std::string path_;
  trace::Origin origin_;
  std::size_t blocks_seen_ = 0;
  Nanos block_since_ = 0;
  std::uint64_t rotated_ = 0;
  std::uint64_t snapshots_ = 0;
};

}  // namespace rtrs
