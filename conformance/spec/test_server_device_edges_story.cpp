#include "conformance/spec/test_server_device_steps.hpp"

namespace rtrs::spec {

namespace {

constexpr unsigned kGenerations = 6;  // devices that the session opens before it has no id left
constexpr unsigned kWaiters = 8;      // requests that may wait for one device
constexpr std::uint16_t kLargest = kMostErrno, kTooLarge = kLargest + 1;
constexpr std::uint16_t kErrors[] = {0, kNotConnected, kLargest, kTooLarge};

Geometry tape_of(std::uint64_t sectors) {
  Geometry out = geometry(sectors);
  out.logical_block_size = 4096, out.max_write_zeroes_sectors = 0, out.max_discard_sectors = 64;
  return out;
}

// "disk" is opened by as many clients as may wait, and announces more segments than fit; "tape" has large
// blocks and no room for a part of one.
void open_two(DeviceStory& story) {
  Geometry disk = geometry(), announced = geometry();
  disk.max_segments = 70'000, announced.max_segments = 0xffff;
  const Geometry tape = tape_of(80), grown = tape_of(200);
  story.add(DeviceKind::BeginServerDevices, [](DeviceEvent& e) { e.generations = kGenerations; });
  request(story, 1, sess_info(), true, kSessInfoBytes);
  write_back(story, 1, sess_info(kSessInfoRsp));
  respond(story, 1);
  for (unsigned id = 10; id <= 10 + kWaiters; ++id) {
    request(story, id, open_message("disk"), true, kOpenRspBytes);
    if (id == 10) open_export(story, id, 0, AccessMode::read_write);
  }
  respond(story, 10 + kWaiters, kBusy);
  export_opened(story, 0, kHandle, disk);
  for (unsigned id = 10; id < 10 + kWaiters; ++id) {
    write_back(story, id, open_rsp(kId, 5, announced));
    respond(story, id);
  }
  request(story, 20, open_message("tape"), true, kOpenRspBytes);
  open_export(story, 20, 1, AccessMode::read_write, "tape");
  export_opened(story, 1, kSecondHandle, tape);
  write_back(story, 20, open_rsp(kSecondId, 5, tape));
  respond(story, 20);
  request(story, 21, open_message("tape"), true, kOpenRspBytes);
  measure(story, 1, kSecondHandle);
  measured(story, 1, 203);
  write_back(story, 21, open_rsp(kSecondId, 5, grown));
  respond(story, 21);
}

// Each operation and flag up to its limit, and errors of storage that no response can carry.
void do_edges(DeviceStory& story) {
  const Parts last{Opcode::write, 99, 512, 0xc00}, read{Opcode::read, 8, 512, 0x200};
  const Parts zeroes{Opcode::write_zeroes, 0, 64 * 512, 0x800};
  const Parts discard{Opcode::discard, 8, 4096, 0, kSecondId};
  std::uint64_t id = 30;
  for (const Parts& parts : {last, zeroes, discard, read})
    for (const std::uint16_t error : kErrors) {
      io(story, ++id, parts);
      storage(story, id, 1, parts);
      storage_done(story, 1, error);
      respond(story, id, error == kNotConnected || error == kTooLarge ? kIoError : error);
    }
  request(story, 50, io_message(discard), false, discard.size);
  storage(story, 50, 1, discard);
  storage_done(story, 1);
  respond(story, 50);
  request(story, 51, io_message(last), true, last.size);
  respond(story, 51, kInvalid);
  Parts refused = discard;
  refused.opcode = Opcode::write_zeroes;
  io(story, 52, refused);
  respond(story, 52, kNotSupported);
  refused = discard;
  refused.sector = 9;
  io(story, 53, refused);
  respond(story, 53, kInvalid);
  request(story, 54, io_message(read).substr(0, kIoMinBytes), true, read.size);
  storage(story, 54, 1, read, 0);
  storage_done(story, 1);
  respond(story, 54);
}

// A flush waits for a younger sync, a write with FUA fails with its sync, and the first failure remains.
void sync_in_every_order(DeviceStory& story) {
  const Parts fua{Opcode::write, 0, 512, 0x200}, flush{Opcode::flush, 0, 0};
  for (const std::uint64_t id : {60, 61}) {
    io(story, id, id == 60 ? flush : fua);
    storage(story, id, id == 60 ? 1 : 2, id == 60 ? flush : fua);
  }
  storage_done(story, 1);
  storage_done(story, 2);
  respond(story, 60);
  respond(story, 61);
  for (const std::uint64_t id : {62, 63}) {
    io(story, id, fua);
    storage(story, id, id == 62 ? 1 : 2, fua);
  }
  storage_done(story, 2);
  storage_done(story, 1, kNoSpace, true);
  damaged(story, kNoSpace);
  respond(story, 62, kNoSpace);
  respond(story, 63, kNoSpace);
  io(story, 64, fua);
  storage(story, 64, 1, fua);
  storage_done(story, 1, kIoError, true);
  damaged(story, kIoError);
  respond(story, 64, kIoError);
  io(story, 65, flush);
  respond(story, 65, kNoSpace);
  story.add(DeviceKind::SyncFailed, [](DeviceEvent& e) { e.handle = kSecondHandle, e.error = kIoError; });
  io(story, 66, {Opcode::flush, 0, 0, 0, kSecondId});
  respond(story, 66, kIoError);
}

// Devices are closed by clients, by the operator while they are measured or opened, and with the session.
void close_at_any_time(DeviceStory& story) {
  io(story, 70, {});
  storage(story, 70, 1, {});
  for (unsigned id = 71; id <= 71 + kWaiters; ++id) request(story, id, close_message(kId), false, 0);
  respond(story, 71 + kWaiters, kBusy);
  storage_done(story, 1);
  respond(story, 70);
  close_export(story, kHandle);
  for (unsigned id = 71; id < 71 + kWaiters; ++id) respond(story, id);
  request(story, 80, open_message("tape"), true, kOpenRspBytes);
  measure(story, 1, kSecondHandle);
  story.add(DeviceKind::DeviceForceClosed, [](DeviceEvent& e) { e.device_id = kSecondId; });
  measured(story, 1, 200);
  respond(story, 80, kNotConnected);
  close_export(story, kSecondHandle);
  request(story, 81, open_message("disk"), true, kOpenRspBytes);
  open_export(story, 81, 0, AccessMode::read_write);
  story.add(DeviceKind::DeviceForceClosed, [](DeviceEvent& e) { e.device_id = kId + 1; });
  export_opened(story, 0, 13, geometry());
  respond(story, 81, kNotConnected);
  close_export(story, 13);
  Geometry invalid = geometry();
  invalid.logical_block_size = 100;
  request(story, 82, open_message("disk"), true, kOpenRspBytes);
  open_export(story, 82, 0, AccessMode::read_write);
  export_opened(story, 0, 14, invalid);
  respond(story, 82, kIoError);
  close_export(story, 14);
}

// A session of the first version knows no priorities. It ends while an OPEN waits for the end of a device.
void end_an_old_session(DeviceStory& story) {
  std::string old = sess_info(), answer = sess_info(kSessInfoRsp);
  old[4] = answer[4] = 1;
  request(story, 90, old, true, kSessInfoBytes);
  write_back(story, 90, answer);
  respond(story, 90);
  request(story, 91, open_message("disk", AccessMode::read_only), true, kOpenRspBytes);
  open_export(story, 91, 0, AccessMode::read_only);
  export_opened(story, 0, kHandle, geometry());
  write_back(story, 91, open_rsp(kLaterId));
  respond(story, 91);
  io(story, 95, {Opcode::write_zeroes, 0, 512, 0, kLaterId});
  respond(story, 95, kNotPermitted);
  request(story, 96, open_message("tape"), true, kOpenRspBytes);
  open_export(story, 96, 2, AccessMode::read_write, "tape");
  request(story, 97, open_message("one too many"), true, kOpenRspBytes);
  respond(story, 97, kNoSpace);
  io(story, 92, {.id = kLaterId});
  storage(story, 92, 1, {}, 0);
  request(story, 93, close_message(kLaterId), false, 0);
  request(story, 94, open_message("disk"), true, kOpenRspBytes);
  story.add(DeviceKind::SessionClosed);
  export_opened(story, 2, kSecondHandle, geometry());
  respond(story, 96, kNotConnected);
  close_export(story, kSecondHandle);
  storage_done(story, 1);
  respond(story, 92);
  close_export(story, kHandle);
  respond(story, 93);
  respond(story, 94, kNotConnected);
  story.add(DeviceKind::SessionDrained);
  request(story, 98, "", false, 0);
  respond(story, 98, kNotConnected);
}

}  // namespace

DeviceStory server_edges_story() {
  DeviceStory story;
  open_two(story);
  do_edges(story);
  sync_in_every_order(story);
  close_at_any_time(story);
  end_an_old_session(story);
  return story;
}

const std::vector<DeviceSpoiled>& server_edges_cases() {
  using K = DeviceKind;
  static const std::vector<DeviceSpoiled> cases = {
      {Rule::device_response, "two devices have one id",
       [](DeviceStory& s) {
         s.at(K::WriteBack, 1 + kWaiters).response = s.keep(open_rsp(kId, 5, tape_of(80)));
         s.at(K::WriteBack, 2 + kWaiters).response = s.keep(open_rsp(kId, 5, tape_of(200)));
       }},
      {Rule::device_response, "the id of a closed device is given again",
       [](DeviceStory& s) {
         for (DeviceEvent& event : s.events())
           if (event.kind == K::WriteBack && event.request == 91) event.response = s.keep(open_rsp(kId));
       }},
      {Rule::device_storage_same, "PREFLUSH is forgotten",
       edit(K::Storage, 0, [](DeviceEvent& e) { e.preflush = false; })},
      {Rule::device_storage_same, "zeroes at another sector",
       edit(K::Storage, 4, [](DeviceEvent& e) { e.sector = 8; })},
      {Rule::device_storage_same, "a longer discard",
       edit(K::Storage, 8, [](DeviceEvent& e) { e.bytes = 8192; })},
      {Rule::device_close, "an export that was opened in vain is not closed",
       [](DeviceStory& s) { s.drop(K::CloseExport, 3); }},
      {Rule::device_drained, "the session is drained twice",
       [](DeviceStory& s) { s.repeat(K::SessionDrained); }},
  };
  return cases;
}

}  // namespace rtrs::spec
