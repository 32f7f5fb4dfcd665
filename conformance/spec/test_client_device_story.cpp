#include "conformance/spec/test_client_device_steps.hpp"

namespace rtrs::spec {

namespace {

constexpr IoFacts kRead{}, kWrite{.changes = true}, kFlush{.changes_before = 2, .flushes = true};

void map(DeviceStory& story) {
  story.add(DeviceKind::BeginClientDevices);
  story.add(DeviceKind::LinkUp, [](DeviceEvent& e) { e.extended = true; });
  story.add(DeviceKind::MapRequested,
            [](DeviceEvent& e) { e.name = "disk", e.mode = AccessMode::read_write; });
  send(story, 1, MessageKind::sess_info, sess_info(), true, kSessInfoBytes);
  story.add(DeviceKind::MapAnswered, [](DeviceEvent& e) { e.device = 1; });
  story.add(DeviceKind::MapRequested,
            [](DeviceEvent& e) { e.name = "disk", e.mode = AccessMode::read_write; });
  story.add(DeviceKind::MapAnswered, [](DeviceEvent& e) { e.peer_errno = kExists; });
  done(story, 1, sess_info(kSessInfoRsp));
  send(story, 2, MessageKind::open, open_message("disk"), true, kOpenRspBytes);
  done(story, 2, open_rsp(kId));
  changed(story, DeviceState::open);
  story.add(DeviceKind::ResizeRequested, [](DeviceEvent& e) { e.device = 1, e.nsectors = 200; });
  changed(story, DeviceState::open, geometry(200));
}

// The server restarts and loses its cache, which contained two changes.
void lose_a_cache(DeviceStory& story) {
  begin_io(story, kWrite, kId);
  begin_io(story, kRead, kId);
  end_io(story, kWrite, 0, Disposition::ok);
  end_io(story, kRead, 5, Disposition::fail);
  begin_io(story, kWrite, kId);
  end_io(story, kWrite, 0, Disposition::ok);
  begin_io(story, kWrite, kId);
  io_done(story, kWrite, kNotConnected);
  changed(story, DeviceState::closed, geometry(200), 1, kNotConnected);
  send(story, 3, MessageKind::sess_info, sess_info(), true, kSessInfoBytes);
  story.add(DeviceKind::IoJudged, [](DeviceEvent& e) { e.disposition = Disposition::retry_after_remap; });
  done(story, 3, sess_info(kSessInfoRsp));
  send(story, 4, MessageKind::open, open_message("disk"), true, kOpenRspBytes);
  done(story, 4, open_rsp(kSecondId, 6));
  story.add(DeviceKind::CacheReplaced, [](DeviceEvent& e) { e.device = 1, e.unflushed = 2; });
  changed(story, DeviceState::open);
  IoFacts flush = kFlush, started = kFlush;
  started.losses = started.cache = 1;
  started.doomed = true;
  story.add(DeviceKind::IoBegun, [&](DeviceEvent& e) { e.device = 1, e.io = flush; });
  story.add(DeviceKind::IoStarted, [&](DeviceEvent& e) { e.device_id = kSecondId, e.io = started; });
  end_io(story, started, 0, Disposition::lost);
}

void reopen_and_unmap(DeviceStory& story) {
  story.add(DeviceKind::LinkDown);
  changed(story, DeviceState::closed);
  story.add(DeviceKind::LinkUp, [](DeviceEvent& e) { e.extended = true; });
  send(story, 5, MessageKind::sess_info, sess_info(), true, kSessInfoBytes);
  done(story, 5, sess_info(kSessInfoRsp));
  send(story, 6, MessageKind::open, open_message("disk"), true, kOpenRspBytes);
  done(story, 6, open_rsp(kSecondId, 6));
  changed(story, DeviceState::open);
  story.add(DeviceKind::UnmapRequested, [](DeviceEvent& e) { e.device = 1; });
  send(story, 7, MessageKind::close, close_message(kSecondId), false, 0);
  done(story, 7, "");
  changed(story, DeviceState::unmapped);
}

}  // namespace

DeviceStory client_device_story() {
  DeviceStory story;
  map(story);
  lose_a_cache(story);
  reopen_and_unmap(story);
  return story;
}

const std::vector<DeviceSpoiled>& client_message_cases() {
  using K = DeviceKind;
  static const std::vector<DeviceSpoiled> cases = {
      {Rule::map_answer, "a mapped name is mapped again", edit(K::MapAnswered, 1, result(0))},
      {Rule::map_answer, "a new name is refused", edit(K::MapAnswered, 0, result(kExists))},
      {Rule::map_answer, "a mapping is not answered", [](DeviceStory& s) { s.drop(K::MapAnswered, 1); }},
      {Rule::message_form, "OPEN has another mode",
       [](DeviceStory& s) {
         s.at(K::SendMessage, 1).header = s.keep(open_message("disk", AccessMode::read_only));
       }},
      {Rule::message_form, "OPEN of a name that is not mapped",
       [](DeviceStory& s) { s.at(K::SendMessage, 1).header = s.keep(open_message("tape")); }},
      {Rule::message_form, "a token is used again",
       edit(K::SendMessage, 3, [](DeviceEvent& e) { e.token = 3; })},
      {Rule::message_form, "CLOSE of a device that is wanted",
       [](DeviceStory& s) {
         const std::string_view header = s.keep(close_message(kId));
         s.insert_before(K::IoBegun, 0, K::SendMessage, [&](DeviceEvent& e) {
           e.token = 3, e.message = MessageKind::close, e.header = header;
         });
       }},
      {Rule::message_form, "SESS_INFO without a version",
       [](DeviceStory& s) { s.at(K::SendMessage).header = s.keep(std::string(kSessInfoBytes, '\0')); }},
      {Rule::open_alone, "an IO begins while OPEN is unanswered",
       [](DeviceStory& s) {
         s.insert_before(K::MessageDone, 3, K::IoBegun, [](DeviceEvent& e) { e.device = 1; });
         s.insert_before(K::MessageDone, 3, K::IoStarted, [](DeviceEvent& e) { e.device_id = kId; });
       }},
      {Rule::open_alone, "OPEN is sent while IO is in flight",
       [](DeviceStory& s) { s.drop(K::IoJudged, 3), s.drop(K::IoDone, 3); }},
      {Rule::open_alone, "OPEN is sent before SESS_INFO is answered",
       [](DeviceStory& s) { s.drop(K::MessageDone, 0); }},
  };
  return cases;
}

const std::vector<DeviceSpoiled>& client_device_cases() {
  using K = DeviceKind;
  static const std::vector<DeviceSpoiled> cases = {
      {Rule::io_device_id, "an IO has the id of the former server",
       edit(K::IoStarted, 4, [](DeviceEvent& e) { e.device_id = kId; })},
      {Rule::io_device_id, "an IO begins before the device is opened again",
       [](DeviceStory& s) {
         s.insert_before(K::MessageDone, 2, K::IoBegun, [](DeviceEvent& e) { e.device = 1; });
         s.insert_before(K::MessageDone, 2, K::IoStarted, [](DeviceEvent& e) { e.device_id = kId; });
       }},
      {Rule::io_losses, "a flush after a loss is not doomed",
       edit(K::IoStarted, 4, [](DeviceEvent& e) { e.io.doomed = false; })},
      {Rule::io_disposition, "a loss is reported as a success",
       edit(K::IoJudged, 4, [](DeviceEvent& e) { e.disposition = Disposition::ok; })},
      {Rule::io_disposition, "an error becomes a success",
       edit(K::IoJudged, 1, [](DeviceEvent& e) { e.disposition = Disposition::ok; })},
      {Rule::io_disposition, "an end is not judged", [](DeviceStory& s) { s.drop(K::IoJudged); }},
      {Rule::device_state, "a device opens with an errno",
       edit(K::DeviceChanged, 0, [](DeviceEvent& e) { e.peer_errno = kIoError; })},
      {Rule::device_state, "a device closes with another errno",
       edit(K::DeviceChanged, 2, [](DeviceEvent& e) { e.peer_errno = kIoError; })},
      {Rule::device_state, "a device opens with another size",
       edit(K::DeviceChanged, 0, [](DeviceEvent& e) { e.geometry.nsectors = 99; })},
      {Rule::device_state, "a device opens without an answer",
       [](DeviceStory& s) {
         s.insert_before(K::MessageDone, 1, K::DeviceChanged, [](DeviceEvent& e) {
           e.device = 1, e.state = DeviceState::open, e.geometry = geometry();
         });
       }},
      {Rule::device_state, "a device ends before CLOSE is answered",
       [](DeviceStory& s) { s.drop(K::MessageDone, 6); }},
      {Rule::cache_replaced, "a lost cache is not reported",
       [](DeviceStory& s) { s.drop(K::CacheReplaced); }},
      {Rule::cache_replaced, "fewer changes than were lost",
       edit(K::CacheReplaced, 0, [](DeviceEvent& e) { e.unflushed = 1; })},
  };
  return cases;
}

}  // namespace rtrs::spec
