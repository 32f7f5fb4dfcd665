#include "tools/lib/trace/summary/latency.hpp"

#include <algorithm>
#include <string_view>

#include "conformance/spec/device_event.hpp"
#include "core/proto/limits.hpp"

namespace rtrs::trace {

namespace {

constexpr std::size_t kLongest = 5;  // number of gaps and of slowest requests

// Inserts into a list of the longest, longest first. Among equals, the first stays.
template <class T>
void keep_longest(std::vector<T>& all, const T& one, Nanos T::*length) {
  if (all.size() == kLongest && all.back().*length >= one.*length) return;
  const auto at = std::upper_bound(all.begin(), all.end(), one,
                                   [length](const T& a, const T& b) { return a.*length > b.*length; });
  all.insert(at, one);
  if (all.size() > kLongest) all.pop_back();
}
constexpr Nanos kMinGap = milliseconds(1);
// Maximum number of permits and chunks that is accepted, because the numbers in a trace are not trusted.
constexpr std::uint64_t kMostSlots = 65536;

int field(const EventInfo& event, std::string_view name) {
  for (std::size_t i = 0; i < event.fields.size(); ++i) {
    if (event.fields[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::uint64_t value(const Record& record, int index) {
  return index < 0 ? 0 : record.values[static_cast<std::size_t>(index)].number;
}

}  // namespace

Nanos PathLatency::percentile(double part) const {
  if (took.empty()) return 0;
  const auto rank = static_cast<std::size_t>(part * static_cast<double>(took.size() - 1) + 0.5);
  return took[std::min(rank, took.size() - 1)];
}

LatencyMeter::LatencyMeter(const Schema& schema) {
  const auto know = [&](std::string_view name, Role role, const char* slot) {
    const EventInfo* event = schema.find(name);
    if (event == nullptr) return;
    if (known_.size() <= event->id) known_.resize(event->id + std::size_t{1});
    Known& known = known_[event->id];
    known.slot = field(*event, slot);
    known.path = field(*event, "key.path");
    known.bytes = field(*event, "data_len");
    known.direction = field(*event, "direction");
    known.result = field(*event, role == Role::responded ? "peer_errno"
                                 : role == Role::judged  ? "disposition"
                                                         : "result");
    if (known.slot >= 0 || role == Role::begun || role == Role::judged) known.role = role;
  };
  know("Submitted", Role::submitted, "permit");
  know("PostRequest", Role::posted, "permit");
  know("Complete", Role::completed, "permit");
  know("RequestArrived", Role::arrived, "chunk");
  know("Deliver", Role::delivered, "chunk");
  know("Responded", Role::responded, "chunk");
  know("BeginClient", Role::begun, "");
  know("BeginServerSession", Role::begun, "");
  know("IoJudged", Role::judged, "");
}

LatencyMeter::Open& LatencyMeter::slot(Machine& machine, std::uint64_t number) {
  const auto at = static_cast<std::size_t>(std::min(number, kMostSlots - 1));
  if (machine.open.size() <= at) machine.open.resize(at + 1);
  return machine.open[at];
}

void LatencyMeter::note_gap(const Record& record, Machine& machine) {
  if (machine.seen && machine.waiting != 0 && record.time > machine.last &&
      record.time - machine.last >= kMinGap) {
    const Gap gap{record.time - machine.last, machine.last, record.seq, record.instance, machine.waiting};
    if (in_range(record.time)) keep_longest(gaps_, gap, &Gap::length);
  }
  machine.last = record.time;
  machine.seen = true;
}

void LatencyMeter::close(const Record& record, Machine& machine, Open& open, bool failed) {
  if (!open.used) return;
  open.used = false;
  if (machine.waiting != 0) {
    --machine.waiting;
    --waiting_[machine.client ? 1 : 0];
  }
  if (!in_range(open.since)) return;
  PathLatency& path = paths_[{record.instance, open.path}];
  ++(open.write ? path.writes : path.reads);
  path.bytes += open.bytes;
  path.failed += failed ? 1 : 0;
  path.took.push_back(record.time - open.since);
  const Slow slow{record.time - open.since, open.since, open.record, record.seq,
                  record.instance,          open.path,  open.write,  failed,
                  machine.client,           stages_};
  ended_ = slow;
  keep_longest(slowest_, slow, &Slow::took);
}

void LatencyMeter::add(const Record& record, const std::optional<StageTimes>& stages) {
  stages_ = stages.value_or(StageTimes{});
  Machine& machine = machines_[record.instance];
  note_gap(record, machine);
  ended_.reset();
  const KindId id = record.event->id;
  if (id >= known_.size()) return;
  const Known& known = known_[id];
  if (known.role == Role::other) return;
  if (known.role == Role::begun) {
    waiting_[machine.client ? 1 : 0] -= machine.waiting;
    machine = {};
    return;
  }
  if (known.role == Role::judged) {
    constexpr auto kAgain = static_cast<std::uint64_t>(spec::Disposition::retry_after_remap);
    if (in_range(record.time) && value(record, known.result) == kAgain) ++repeated_;
    return;
  }
  Open& open = slot(machine, value(record, known.slot));
  ConKey key;
  key.set_number(static_cast<std::uint32_t>(value(record, known.path)));
  switch (known.role) {
    case Role::submitted:
    case Role::delivered:
      // All requests of a machine are requests of a client or of a server, even in a hostile trace.
      if (machine.waiting == 0) machine.client = known.role == Role::submitted;
      if (!open.used) {
        ++machine.waiting;
        ++waiting_[machine.client ? 1 : 0];
      }
      if (known.role == Role::submitted) {
        open.bytes = static_cast<std::uint32_t>(value(record, known.bytes));
        open.write = value(record, known.direction) != 0;
      }
      open.since = record.time;
      open.record = record.seq;
      open.path = key.path;
      open.used = true;
      break;
    case Role::posted:
      open.path = key.path;
      break;
    case Role::arrived:
      // Remembers the direction of the next request in this chunk, unless a request in the chunk is still in
      // service: then the next request may have to wait for that one.
      if (!open.used) open.write = value(record, known.direction) != 0;
      break;
    case Role::completed:
    case Role::responded:
      close(record, machine, open, value(record, known.result) != 0);
      break;
    case Role::other:
    case Role::begun:
    case Role::judged:
      break;
  }
}

void LatencyMeter::finish() {
  for (auto& [place, path] : paths_) std::sort(path.took.begin(), path.took.end());
}

}  // namespace rtrs::trace
