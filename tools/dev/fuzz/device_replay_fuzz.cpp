// Fuzz test: replaying arbitrary recorded inputs of RNBD device state machines must not crash, because a
// trace may come from another version or be forged. The fuzzer input is the number of records (2 bytes) and
// the records of one block. This program adds the header and the checksums, because a mutation of a complete
// trace would never pass the checksum.
#include <map>
#include <memory>
#include <string>

#include "conformance/fuzz/fuzz.hpp"
#include "core/base/crc32c.hpp"
#include "core/record/format.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

using namespace rtrs;
using namespace rtrs::trace;

namespace {

std::string trace_of(const std::uint8_t* data, std::size_t size) {
  static const std::string header = [] {
    Header made;
    made.schema = builtin_schema();
    return encode_header(made);
  }();
  FrameHead head;
  head.tag = kBlockTag;
  head.count = get_u16(data);
  head.size = static_cast<std::uint32_t>(size - 2);
  std::string frame(kFrameHeadSize, '\0');
  encode_frame_head(head, reinterpret_cast<std::uint8_t*>(frame.data()));
  frame.append(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::uint8_t crc[kCrcSize];
  put_u32(crc, crc32c(reinterpret_cast<const std::uint8_t*>(frame.data()), frame.size()));
  return header + frame.append(reinterpret_cast<const char*>(crc), sizeof crc);
}

// Creates only device state machines; session machines are not tested here.
std::unique_ptr<ReplayMachine> made(const Record& record, const FieldMap& map, std::string& why) {
  const KindId kind = record.event->id;
  if (kind != kKindOf<BeginClientDevices> && kind != kKindOf<BeginServerDevices>) return nullptr;
  return core_machines()(record, map, why);
}
std::unique_ptr<ReplayMachine> blank(MachineKind kind) {
  if (kind != MachineKind::client_devices && kind != MachineKind::server_devices) return nullptr;
  return blank_core_machines()(kind);
}

void judge(const std::string& trace) {
  MemorySource source(trace);
  ReplayOptions options;
  options.blank = &blank;
  const ReplayResult result = replay(source, &made, options);
  RTRS_FUZZ_CHECK(result.verdict != Verdict::identical);  // the trace has no trailer
  RTRS_FUZZ_CHECK(result.verdict != Verdict::not_replayable || !result.why.empty());
  RTRS_FUZZ_CHECK(result.verdict != Verdict::diverged ||
                  (!result.divergence.recorded.empty() && !result.divergence.rerun.empty()));
}

// Passes only the inputs to the state machines and ignores the recorded actions, because replay() would stop
// at the first input whose recorded actions differ from this core's actions.
void feed(const std::string& trace) {
  MemorySource source(trace);
  Reader reader(source);
  RTRS_FUZZ_CHECK(reader.open() == Reader::Status::ok);
  const Compatibility compatibility(reader.header().schema);
  std::map<InstanceId, std::unique_ptr<ReplayMachine>> machines;
  Record record;
  while (reader.next(record) == Reader::Status::ok) {
    const FieldMap& map = compatibility.map(record.event->id);
    std::string why;
    if (auto machine = made(record, map, why)) machines[record.instance] = std::move(machine);
    if (record.event->id == kKindOf<Snapshot>) {
      const auto part = get_struct<Snapshot>(record, map);
      auto machine = blank(part.machine);
      const std::string_view state(reinterpret_cast<const char*>(part.part.data()), part.part.size());
      if (machine && machine->load(state, part.layout) == nullptr)
        machines[record.instance] = std::move(machine);
    }
    const auto at = machines.find(record.instance);
    if (record.event->category != EventClass::input || at == machines.end()) continue;
    Effects effects;
    (void)at->second->feed(record, map, effects);
    (void)at->second->fingerprint();
    // Inputs that no real caller makes may break an invariant of the state. The state machine gets no further
    // inputs after that.
    if (at->second->broken_invariant() != nullptr) machines.erase(at);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3 || size - 2 > kMaxBlock) return 0;
  const std::string trace = trace_of(data, size);
  judge(trace);
  feed(trace);
  return 0;
}
