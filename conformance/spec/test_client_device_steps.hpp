// Steps of a client's block devices, of which stories are made.
#pragma once
#include "conformance/spec/test_device_story.hpp"

namespace rtrs::spec {

inline void send(DeviceStory& story, std::uint64_t token, MessageKind kind, std::string header, bool reads,
                 std::uint16_t length) {
  const std::string_view kept = story.keep(std::move(header));
  story.add(DeviceKind::SendMessage, [&](DeviceEvent& e) {
    e.token = token, e.message = kind, e.header = kept, e.reads = reads, e.response_length = length;
  });
}
inline void done(DeviceStory& story, std::uint64_t token, std::string response, std::uint16_t error = 0) {
  const std::string_view kept = story.keep(std::move(response));
  story.add(DeviceKind::MessageDone, [&](DeviceEvent& e) {
    e.token = token, e.delivered = true, e.response = kept, e.peer_errno = error;
  });
}
inline void changed(DeviceStory& story, DeviceState state, const Geometry& of = geometry(),
                    std::uint32_t device = 1, std::uint16_t error = 0) {
  story.add(DeviceKind::DeviceChanged, [&](DeviceEvent& e) {
    e.device = device, e.state = state, e.geometry = of, e.peer_errno = error;
  });
}
inline void begin_io(DeviceStory& story, const IoFacts& facts, std::uint32_t id) {
  const std::uint32_t device = id == kId ? 1 : 2;
  IoFacts begun = facts;
  begun.losses = begun.cache = 0, begun.doomed = false;
  story.add(DeviceKind::IoBegun, [&](DeviceEvent& e) { e.device = device, e.io = begun; });
  story.add(DeviceKind::IoStarted, [&](DeviceEvent& e) { e.device_id = id, e.io = facts; });
}
inline void io_done(DeviceStory& story, const IoFacts& facts, std::uint16_t error, std::uint32_t device = 1) {
  story.add(DeviceKind::IoDone, [&](DeviceEvent& e) {
    e.device = device, e.delivered = true, e.peer_errno = error, e.io = facts;
  });
}
inline void end_io(DeviceStory& story, const IoFacts& facts, std::uint16_t error, Disposition disposition,
                   std::uint32_t device = 1) {
  io_done(story, facts, error, device);
  story.add(DeviceKind::IoJudged, [=](DeviceEvent& e) { e.disposition = disposition; });
}

}  // namespace rtrs::spec
