// Steps of a server's block devices, of which stories are made.
#pragma once
#include "conformance/spec/test_device_story.hpp"

namespace rtrs::spec {

inline void request(DeviceStory& story, std::uint64_t id, std::string header, bool reads,
                    std::uint32_t data_len) {
  const std::string_view kept = story.keep(std::move(header));
  story.add(DeviceKind::DeviceRequest,
            [&](DeviceEvent& e) { e.request = id, e.header = kept, e.reads = reads, e.data_len = data_len; });
}
inline void respond(DeviceStory& story, std::uint64_t id, std::uint16_t error = 0) {
  story.add(DeviceKind::Respond, [=](DeviceEvent& e) { e.request = id, e.peer_errno = error; });
}
inline void write_back(DeviceStory& story, std::uint64_t id, std::string response) {
  const std::string_view kept = story.keep(std::move(response));
  story.add(DeviceKind::WriteBack, [&](DeviceEvent& e) { e.request = id, e.response = kept; });
}
inline void io(DeviceStory& story, std::uint64_t id, const Parts& parts) {
  const bool moves = parts.opcode == Opcode::read || parts.opcode == Opcode::write;
  request(story, id, io_message(parts), parts.opcode == Opcode::read || parts.opcode == Opcode::flush,
          moves ? parts.size : 0);
}
inline void storage(DeviceStory& story, std::uint64_t id, std::uint16_t operation, const Parts& parts,
                    std::uint16_t prio = 3) {
  const bool flush = parts.opcode == Opcode::flush, changes = !flush && parts.opcode != Opcode::read;
  story.add(DeviceKind::Storage, [=](DeviceEvent& e) {
    e.request = id, e.operation = operation, e.opcode = parts.opcode, e.prio = prio;
    e.handle = parts.id == kId ? kHandle : kSecondHandle;
    e.nounmap = parts.opcode == Opcode::write_zeroes && (parts.flags & 0x800) != 0;
    e.sector = flush ? 0 : parts.sector, e.bytes = flush ? 0 : parts.size;
    e.fua = changes && (parts.flags & 0x200) != 0, e.preflush = !flush && (parts.flags & 0x400) != 0;
  });
}
inline void storage_done(DeviceStory& story, std::uint16_t operation, int error = 0,
                         bool sync_failed = false) {
  story.add(DeviceKind::StorageDone,
            [=](DeviceEvent& e) { e.operation = operation, e.error = error, e.sync_failed = sync_failed; });
}
inline void measure(DeviceStory& story, std::uint16_t operation, std::uint64_t handle = kHandle) {
  story.add(DeviceKind::MeasureExport, [=](DeviceEvent& e) { e.handle = handle, e.operation = operation; });
}
inline void measured(DeviceStory& story, std::uint16_t operation, std::uint64_t sectors) {
  story.add(DeviceKind::ExportMeasured,
            [=](DeviceEvent& e) { e.operation = operation, e.nsectors = sectors; });
}
inline void open_export(DeviceStory& story, std::uint64_t id, std::uint16_t operation, AccessMode mode,
                        const char* name = "disk") {
  story.add(DeviceKind::OpenExport,
            [=](DeviceEvent& e) { e.request = id, e.operation = operation, e.mode = mode, e.name = name; });
}
inline void export_opened(DeviceStory& story, std::uint16_t operation, std::uint64_t handle,
                          const Geometry& of) {
  story.add(DeviceKind::ExportOpened, [&](DeviceEvent& e) {
    e.operation = operation, e.handle = handle, e.geometry = of, e.instance = 5;
  });
}
inline void close_export(DeviceStory& story, std::uint64_t handle) {
  story.add(DeviceKind::CloseExport, [=](DeviceEvent& e) { e.handle = handle; });
}
inline void damaged(DeviceStory& story, std::uint16_t error) {
  story.add(DeviceKind::CacheDamaged, [=](DeviceEvent& e) { e.handle = kHandle, e.peer_errno = error; });
}

}  // namespace rtrs::spec
