#include "conformance/spec/test_server_device_steps.hpp"

namespace rtrs::spec {

namespace {

void open_device(DeviceStory& story) {
  story.add(DeviceKind::BeginServerDevices, [](DeviceEvent& e) { e.generations = 1000; });
  request(story, 1, sess_info(), true, kSessInfoBytes);
  write_back(story, 1, sess_info(kSessInfoRsp));
  respond(story, 1);
  request(story, 2, open_message("disk"), true, kOpenRspBytes);
  open_export(story, 2, 0, AccessMode::read_write);
  story.add(DeviceKind::ExportOpened, [](DeviceEvent& e) {
    e.operation = 0, e.handle = kHandle, e.geometry = geometry(), e.instance = 5;
  });
  write_back(story, 2, open_rsp(kId));
  respond(story, 2);
}

// A read, a write, two writes beyond the end, of which storage fails the second, and two invalid IOs.
void do_io(DeviceStory& story) {
  const Parts write{Opcode::write, 16, 1024};
  io(story, 3, {});
  storage(story, 3, 1, {});
  io(story, 4, write);
  storage(story, 4, 2, write);
  storage_done(story, 2);
  respond(story, 4);
  storage_done(story, 1);
  respond(story, 3);
  const Parts beyond{Opcode::write, 100, 512};
  io(story, 5, beyond);
  measure(story, 1);
  measured(story, 1, 0);
  respond(story, 5, kIoError);
  io(story, 6, beyond);
  measure(story, 1);
  measured(story, 1, 200);
  storage(story, 6, 1, beyond);
  storage_done(story, 1, kIoError);
  measure(story, 1);
  measured(story, 1, 100);
  respond(story, 6, kIoError);
  io(story, 7, {Opcode::write, 1, 100});
  respond(story, 7, kInvalid);
  io(story, 8, {Opcode::discard, 0, 512});
  respond(story, 8, kNotSupported);
}

// Two concurrent syncs: the second waits for the first, and the first fails.
void fail_a_sync(DeviceStory& story) {
  const Parts fua{Opcode::write, 0, 512, 0x200};
  const Parts flush{Opcode::flush, 0, 0};
  io(story, 9, fua);
  storage(story, 9, 1, fua);
  io(story, 10, flush);
  storage(story, 10, 2, flush);
  storage_done(story, 2);
  storage_done(story, 1, 28, true);
  story.add(DeviceKind::CacheDamaged, [](DeviceEvent& e) { e.handle = kHandle, e.peer_errno = 28; });
  respond(story, 9, 28);
  respond(story, 10, 28);
  io(story, 11, flush);
  respond(story, 11, 28);
}

// OPEN of an open device, CLOSE with an IO in flight, OPEN of the same name before it is closed.
void open_again(DeviceStory& story) {
  request(story, 12, open_message("disk", AccessMode::read_only), true, kOpenRspBytes);
  measure(story, 1);
  measured(story, 1, 0);
  write_back(story, 12, open_rsp(kId));
  respond(story, 12);
  io(story, 13, {});
  storage(story, 13, 1, {});
  request(story, 14, close_message(kId), false, 0);
  request(story, 15, open_message("disk", AccessMode::read_only), true, kOpenRspBytes);
  io(story, 16, {});
  respond(story, 16, kNotConnected);
  storage_done(story, 1);
  respond(story, 13);
  story.add(DeviceKind::CloseExport, [](DeviceEvent& e) { e.handle = kHandle; });
  respond(story, 14);
  open_export(story, 15, 3, AccessMode::read_only);
  story.add(DeviceKind::ExportOpened, [](DeviceEvent& e) {
    e.operation = 3, e.handle = kSecondHandle, e.geometry = geometry(), e.instance = 6;
  });
  write_back(story, 15, open_rsp(kSecondId, 6));
  respond(story, 15);
  io(story, 17, {Opcode::write, 0, 512, 0, kSecondId});
  respond(story, 17, kNotPermitted);
  request(story, 18, open_message("disk"), true, kOpenRspBytes);
  respond(story, 18, kNotPermitted);
  story.add(DeviceKind::SessionClosed);
  story.add(DeviceKind::CloseExport, [](DeviceEvent& e) { e.handle = kSecondHandle; });
  story.add(DeviceKind::SessionDrained);
  request(story, 19, sess_info(), true, kSessInfoBytes);
  respond(story, 19, kNotConnected);
}

}  // namespace

DeviceStory server_device_story() {
  DeviceStory story;
  open_device(story);
  do_io(story);
  fail_a_sync(story);
  open_again(story);
  return story;
}

const std::vector<DeviceSpoiled>& server_request_cases() {
  using K = DeviceKind;
  static const std::vector<DeviceSpoiled> cases = {
      {Rule::device_answer, "an IO is answered twice", [](DeviceStory& s) { s.repeat(K::Respond, 2); }},
      {Rule::device_answer, "an IO is never answered", [](DeviceStory& s) { s.drop(K::Respond, 3); }},
      {Rule::device_answer, "an IO is answered before storage is done",
       [](DeviceStory& s) { std::swap(s.at(K::Respond, 2), s.at(K::StorageDone, 0)); }},
      {Rule::device_answer, "a flush is answered while an older sync runs",
       [](DeviceStory& s) {
         s.insert_before(K::StorageDone, 4, K::Respond, [](DeviceEvent& e) { e.request = 10; });
       }},
      {Rule::device_answer, "a malformed message is not answered",
       [](DeviceStory& s) { s.drop(K::Respond, 6); }},
      {Rule::device_result, "an error of storage becomes a success", edit(K::Respond, 5, result(0))},
      {Rule::device_result, "a success becomes an error", edit(K::Respond, 2, result(kIoError))},
      {Rule::device_result, "IO on a closing device is refused with another errno",
       edit(K::Respond, 12, result(5))},
      {Rule::device_result, "a read-only device is opened for writing", edit(K::Respond, 17, result(kBusy))},
      {Rule::device_storage, "a refused IO reaches storage",
       [](DeviceStory& s) {
         s.insert_before(K::Respond, 6, K::Storage, [](DeviceEvent& e) { e.request = 7, e.operation = 9; });
       }},
      {Rule::device_storage, "storage is asked twice", [](DeviceStory& s) { s.repeat(K::Storage); }},
      {Rule::device_storage, "an IO does not reach storage", [](DeviceStory& s) { s.drop(K::Storage); }},
      {Rule::device_storage, "a write to a read-only device reaches storage",
       [](DeviceStory& s) {
         s.insert_before(K::Respond, 16, K::Storage, [](DeviceEvent& e) { e.request = 17, e.operation = 9; });
       }},
      {Rule::device_storage_same, "another sector",
       edit(K::Storage, 1, [](DeviceEvent& e) { e.sector = 17; })},
      {Rule::device_storage_same, "fewer bytes", edit(K::Storage, 1, [](DeviceEvent& e) { e.bytes = 512; })},
      {Rule::device_storage_same, "a write becomes a read",
       edit(K::Storage, 1, [](DeviceEvent& e) { e.opcode = Opcode::read; })},
      {Rule::device_storage_same, "FUA is forgotten",
       edit(K::Storage, 3, [](DeviceEvent& e) { e.fua = false; })},
      {Rule::device_storage_same, "another export",
       edit(K::Storage, 0, [](DeviceEvent& e) { e.handle = 99; })},
      {Rule::device_storage_same, "another priority",
       edit(K::Storage, 0, [](DeviceEvent& e) { e.prio = 0; })},
      {Rule::device_sync, "a flush succeeds although a sync failed", edit(K::Respond, 9, result(0))},
      {Rule::device_sync, "a flush succeeds after the failure", edit(K::Respond, 10, result(0))},
  };
  return cases;
}

const std::vector<DeviceSpoiled>& server_device_cases() {
  using K = DeviceKind;
  static const std::vector<DeviceSpoiled> cases = {
      {Rule::device_cache_damaged, "a failed sync is not reported",
       [](DeviceStory& s) { s.drop(K::CacheDamaged); }},
      {Rule::device_cache_damaged, "it is reported twice", [](DeviceStory& s) { s.repeat(K::CacheDamaged); }},
      {Rule::device_open, "an export is opened with another mode",
       edit(K::OpenExport, 1, [](DeviceEvent& e) { e.mode = AccessMode::read_write; })},
      {Rule::device_open, "an export is opened while its name is closing",
       [](DeviceStory& s) { std::swap(s.at(K::CloseExport, 0), s.at(K::OpenExport, 1)); }},
      {Rule::device_open, "an OPEN is forgotten", [](DeviceStory& s) { s.drop(K::OpenExport); }},
      {Rule::device_open, "another name", edit(K::OpenExport, 0, [](DeviceEvent& e) { e.name = "tape"; })},
      {Rule::device_response, "another size is announced",
       [](DeviceStory& s) { s.at(K::WriteBack, 1).response = s.keep(open_rsp(kId, 5, geometry(200))); }},
      {Rule::device_response, "another cache instance",
       [](DeviceStory& s) { s.at(K::WriteBack, 1).response = s.keep(open_rsp(kId, 6)); }},
      {Rule::device_response, "another id at the second OPEN",
       [](DeviceStory& s) { s.at(K::WriteBack, 2).response = s.keep(open_rsp(kId + 1)); }},
      {Rule::device_response, "no OPEN_RSP", [](DeviceStory& s) { s.drop(K::WriteBack, 1); }},
      {Rule::device_close, "an export is closed with an IO in flight",
       [](DeviceStory& s) {
         s.insert_before(K::DeviceRequest, 14, K::CloseExport, [](DeviceEvent& e) { e.handle = kHandle; });
       }},
      {Rule::device_close, "an export is never closed", [](DeviceStory& s) { s.drop(K::CloseExport); }},
      {Rule::device_close, "an export is closed twice", [](DeviceStory& s) { s.repeat(K::CloseExport); }},
      {Rule::device_measure, "an export is measured for nothing",
       [](DeviceStory& s) {
         s.insert_before(K::StorageDone, 0, K::MeasureExport, [](DeviceEvent& e) { e.handle = kHandle; });
       }},
      {Rule::device_measure, "an EIO is not followed by a measuring",
       [](DeviceStory& s) { s.drop(K::MeasureExport, 2); }},
      {Rule::device_drained, "the session is never drained",
       [](DeviceStory& s) { s.drop(K::SessionDrained); }},
      {Rule::device_drained, "the session is drained early",
       [](DeviceStory& s) { std::swap(s.at(K::SessionDrained), s.at(K::CloseExport, 1)); }},
  };
  return cases;
}

}  // namespace rtrs::spec
