// Records wire traffic as notes (core/record/wire_notes.hpp) if the file of the recorder is to contain them.
// Otherwise each call only checks on().
#pragma once
#include "core/fabric/fabric.hpp"
#include "core/record/recorder.hpp"
#include "core/record/wire_notes.hpp"

namespace rtrs {

class WireTap {
 public:
  explicit WireTap(Recorder* recorder) noexcept : recorder_(recorder) {}
  bool on() const noexcept { return recorder_ != nullptr && recorder_->records_wire(); }

  // Records a work request before it is posted. The last part of a request is its header; a response has only
  // data.
  void sent(InstanceId instance, Nanos now, const Fabric& fabric, const WorkRequest& work) {
    if (on()) [[unlikely]]
      note_sent(instance, now, fabric, work);
  }
  // Records a received request: its data, and the part that is parsed.
  void received(InstanceId instance, Nanos now, const event::ImmReceived& event, wire::Bytes data = {},
                wire::Bytes head = {}) {
    if (on()) [[unlikely]]
      note_received(instance, now, event, data, head);
  }
  void received(InstanceId instance, Nanos now, const event::MessageReceived& event) {
    if (on()) [[unlikely]]
      note_received(instance, now, event);
  }
  void received(InstanceId instance, Nanos now, const event::KeyInvalidated& event) {
    if (on()) [[unlikely]]
      note_received(instance, now, event);
  }
  // Records the data of a READ when it completes, under the connection of the last received message: the
  // fabric does not report the write that brought the data.
  void read(InstanceId instance, Nanos now, wire::Bytes data) {
    if (on()) [[unlikely]]
      note_read(instance, now, data);
  }
  void cm(InstanceId instance, Nanos now, ConKey key, trace::WireCmKind kind, bool sent,
          wire::Bytes private_data = {}) {
    if (on()) [[unlikely]]
      recorder_->note(instance, trace::WireCm{now, key, kind, sent, private_data});
  }

 private:
  struct Payload {
    std::uint32_t length = 0;
    std::uint64_t digest = 0;
    wire::Bytes head;
  };

  void note_sent(InstanceId, Nanos, const Fabric&, const WorkRequest&);
  void note_received(InstanceId, Nanos, const event::ImmReceived&, wire::Bytes data, wire::Bytes head);
  void note_received(InstanceId, Nanos, const event::MessageReceived&);
  void note_received(InstanceId, Nanos, const event::KeyInvalidated&);
  void note_read(InstanceId, Nanos, wire::Bytes data);
  void write(InstanceId, trace::WireReceived&, const Payload&);
  Payload of_write(wire::Bytes data, wire::Bytes head);
  static Payload of_send(wire::Bytes message);

  Recorder* recorder_;
  ConKey last_;                   // connection of the last received message
  std::vector<std::byte> whole_;  // buffer for a payload that is recorded as a whole
};

}  // namespace rtrs
