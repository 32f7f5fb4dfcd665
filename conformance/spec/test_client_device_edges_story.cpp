#include "conformance/spec/test_client_device_steps.hpp"

namespace rtrs::spec {

namespace {

constexpr IoFacts kWrite{.changes = true}, kDurable{.changes = true, .durable = true};

void map(DeviceStory& story, const std::string& name, std::uint32_t device, std::uint16_t error = 0) {
  const std::string_view kept = story.keep(name);
  story.add(DeviceKind::MapRequested,
            [&](DeviceEvent& e) { e.name = kept, e.mode = AccessMode::read_write; });
  story.add(DeviceKind::MapAnswered, [=](DeviceEvent& e) { e.device = device, e.peer_errno = error; });
}
void one_io(DeviceStory& story, const IoFacts& facts, Disposition disposition = Disposition::ok) {
  begin_io(story, facts, kId);
  end_io(story, facts, 0, disposition);
}
void ask(DeviceStory& story, std::uint64_t token) {
  send(story, token, MessageKind::sess_info, sess_info(), true, kSessInfoBytes);
}
// Answers the SESS_INFO `token`. OPENs of both devices follow.
void open_both(DeviceStory& story, std::uint64_t token) {
  done(story, token, sess_info(kSessInfoRsp));
  send(story, token + 1, MessageKind::open, open_message("a"), true, kOpenRspBytes);
  send(story, token + 2, MessageKind::open, open_message("b"), true, kOpenRspBytes);
}
void lose_link(DeviceStory& story) {
  story.add(DeviceKind::LinkDown);
  changed(story, DeviceState::closed);
  changed(story, DeviceState::closed, geometry(), 2);
  story.add(DeviceKind::LinkUp, [](DeviceEvent& e) { e.extended = true; });
}
// The link is lost; both devices open again, with the cache `instance`. `unflushed` is reported for the
// first.
void relink(DeviceStory& story, std::uint64_t token, std::uint64_t instance, std::uint64_t unflushed) {
  lose_link(story);
  ask(story, token);
  open_both(story, token);
  for (const std::uint32_t device : {1, 2}) {
    done(story, token + device, open_rsp(device == 1 ? kId : kSecondId, instance));
    if (instance != 0)
      story.add(DeviceKind::CacheReplaced,
                [=](DeviceEvent& e) { e.device = device, e.unflushed = device == 1 ? unflushed : 0; });
    changed(story, DeviceState::open, geometry(), device);
  }
}

// OPENs of two devices are sent together. A name is too long, and a size is invalid.
void map_two(DeviceStory& story) {
  story.add(DeviceKind::BeginClientDevices);
  map(story, "a", 1);
  map(story, "b", 2);
  map(story, std::string(kNameField, 'x'), 3, kInvalid);
  story.add(DeviceKind::LinkUp, [](DeviceEvent& e) { e.extended = true; });
  ask(story, 1);
  open_both(story, 1);
  done(story, 2, open_rsp(kId));
  changed(story, DeviceState::open);
  done(story, 3, open_rsp(kSecondId));
  changed(story, DeviceState::open, geometry(), 2);
  story.add(DeviceKind::ResizeRequested, [](DeviceEvent& e) { e.device = 1, e.nsectors = kMostSectors; });
}

// Durable changes and changes that a flush covered are not lost, even if an earlier flush ends last. A cache
// without a number is no other cache. A loss is reported to durable changes and to flushes separately.
void replace_caches(DeviceStory& story) {
  for (const IoFacts& facts : {kWrite, kWrite, kDurable}) one_io(story, facts);
  const IoFacts late{.changes_before = 1, .flushes = true}, flush{.changes_before = 2, .flushes = true};
  begin_io(story, late, kId);
  begin_io(story, flush, kId);
  end_io(story, flush, 0, Disposition::ok);
  end_io(story, late, 0, Disposition::ok);
  relink(story, 4, 6, 0);
  one_io(story, {.cache = 1});
  one_io(story, {.cache = 1, .changes = true});
  relink(story, 7, 0, 0);
  relink(story, 10, 7, 1);
  const IoFacts lost{
      .losses = 1, .cache = 2, .changes = true, .durable = true, .flushes = true, .doomed = true};
  one_io(story, lost, Disposition::lost);
  IoFacts again = lost;
  again.changes = again.durable = false, again.fua_told = 1;
  one_io(story, again, Disposition::lost);
  again.flush_told = 1, again.doomed = false;
  one_io(story, again);
}

void lose_server(DeviceStory& story, std::uint64_t token, std::uint32_t device, const IoFacts& facts) {
  begin_io(story, facts, device == 1 ? kId : kSecondId);
  io_done(story, facts, kNotConnected, device);
  changed(story, DeviceState::closed, geometry(), device, kNotConnected);
  ask(story, token);
  story.add(DeviceKind::IoJudged, [](DeviceEvent& e) { e.disposition = Disposition::retry_after_remap; });
  open_both(story, token);
  done(story, token + 1, open_rsp(kId, 7));
  if (device == 1) changed(story, DeviceState::open);
  done(story, token + 2, open_rsp(kSecondId, 7));
  if (device == 2) changed(story, DeviceState::open, geometry(), 2);
}
void give_up(DeviceStory& story, std::uint32_t device, const IoFacts& facts) {
  begin_io(story, facts, device == 1 ? kId : kSecondId);
  io_done(story, facts, kNotConnected, device);
  changed(story, DeviceState::closed, geometry(), device, kNotConnected);
  story.add(DeviceKind::IoJudged, [](DeviceEvent& e) { e.disposition = Disposition::fail; });
}

// A server opens a device again and again, but refuses its IO. The user opens it while the other one has IO.
void reopen_in_vain(DeviceStory& story) {
  const IoFacts one{.losses = 1, .cache = 2}, two{.cache = 2};
  for (std::uint64_t token = 13; token < 13 + 3 * kMostFutileReopens; token += 3)
    lose_server(story, token, 1, one);
  give_up(story, 1, one);
  begin_io(story, two, kSecondId);
  story.add(DeviceKind::RemapRequested, [](DeviceEvent& e) { e.device = 1; });
  io_done(story, two, 0, 2);
  send(story, 22, MessageKind::open, open_message("a"), true, kOpenRspBytes);
  story.add(DeviceKind::IoJudged);
  done(story, 22, open_rsp(kId, 7));
  changed(story, DeviceState::open);
}

// A server gives both devices one id, until the client gives up the second; this counts like refused IO.
void give_one_id_to_two(DeviceStory& story) {
  std::uint64_t token = 23;
  lose_link(story);
  ask(story, token);
  for (unsigned times = 0; times <= kMostFutileReopens; ++times, token += 3) {
    open_both(story, token);
    done(story, token + 1, open_rsp(kId, 7));
    if (times == 0) changed(story, DeviceState::open);
    done(story, token + 2, open_rsp(kId, 7));
    if (times == kMostFutileReopens) changed(story, DeviceState::closed, geometry(), 2, kIoError);
    ask(story, token + 3);
  }
  done(story, token, sess_info(kSessInfoRsp));
  send(story, token + 1, MessageKind::open, open_message("a"), true, kOpenRspBytes);
  done(story, token + 1, open_rsp(kId, 7));
  one_io(story, {.losses = 1, .cache = 2});
  lose_link(story);
  ask(story, 40);
  open_both(story, 40);
  done(story, 41, open_rsp(kId, 7));
  changed(story, DeviceState::open);
  done(story, 42, open_rsp(kId, 7));
  ask(story, 43);
  open_both(story, 43);
  done(story, 44, open_rsp(kId, 7));
  done(story, 45, open_rsp(kSecondId, 7));
  changed(story, DeviceState::open, geometry(), 2);
  lose_server(story, 46, 2, {.cache = 2});
  lose_server(story, 49, 2, {.cache = 2});
  give_up(story, 2, {.cache = 2});
  story.add(DeviceKind::ReopenDue);
  send(story, 52, MessageKind::open, open_message("b"), true, kOpenRspBytes);
  done(story, 52, open_rsp(kSecondId, 7));
  changed(story, DeviceState::open, geometry(), 2);
}

// An OPEN is lost, so the answer to another counts no longer. A device is unmapped while its OPEN is in
// flight; the other one while its IO is, and mapped again.
void unmap_at_any_time(DeviceStory& story) {
  lose_link(story);
  ask(story, 60);
  open_both(story, 60);
  story.add(DeviceKind::MessageDone, [](DeviceEvent& e) { e.token = 62; });
  done(story, 61, "", kNoDevice);
  story.add(DeviceKind::RetryDue);
  ask(story, 63);
  open_both(story, 63);
  story.add(DeviceKind::UnmapRequested, [](DeviceEvent& e) { e.device = 2; });
  done(story, 64, open_rsp(kId, 7));
  changed(story, DeviceState::open);
  done(story, 65, open_rsp(kSecondId, 7));
  send(story, 66, MessageKind::close, close_message(kSecondId), false, 0);
  done(story, 66, "");
  changed(story, DeviceState::unmapped, geometry(), 2);
  const IoFacts facts{.losses = 1, .cache = 2};
  begin_io(story, facts, kId);
  story.add(DeviceKind::UnmapRequested, [](DeviceEvent& e) { e.device = 1; });
  map(story, "a", 4);
  io_done(story, facts, kNotConnected);
  send(story, 67, MessageKind::close, close_message(kId), false, 0);
  story.add(DeviceKind::IoJudged, [](DeviceEvent& e) { e.disposition = Disposition::fail; });
  done(story, 67, "");
  changed(story, DeviceState::unmapped);
  send(story, 68, MessageKind::open, open_message("a"), true, kOpenRspBytes);
  done(story, 68, open_rsp(kId, 7));
  changed(story, DeviceState::open, geometry(), 4);
}

// A server without extensions sends reserved bytes, and FUA without a write cache. As many devices are mapped
// as a client may have.
void meet_an_old_server(DeviceStory& story) {
  Geometry announced = geometry(), understood = geometry();
  announced.write_cache = understood.write_cache = understood.fua = false;
  announced.features = 3;
  story.add(DeviceKind::LinkDown);
  changed(story, DeviceState::closed, geometry(), 4);
  story.add(DeviceKind::LinkUp);
  ask(story, 69);
  done(story, 69, sess_info(kSessInfoRsp));
  send(story, 70, MessageKind::open, open_message("a"), true, kOpenRspBytes);
  done(story, 70, open_rsp(kId, 99, announced));
  changed(story, DeviceState::open, understood, 4);
  story.add(DeviceKind::LinkDown);
  changed(story, DeviceState::closed, understood, 4);
  for (unsigned device = 5; device < 4 + kMostClientDevices; ++device)
    map(story, "d" + std::to_string(device), device);
  map(story, "one too many", 0, kNoSpace);
}

}  // namespace

DeviceStory client_edges_story() {
  DeviceStory story;
  map_two(story);
  replace_caches(story);
  reopen_in_vain(story);
  give_one_id_to_two(story);
  unmap_at_any_time(story);
  meet_an_old_server(story);
  return story;
}

const std::vector<DeviceSpoiled>& client_edges_cases() {
  using K = DeviceKind;
  static const std::vector<DeviceSpoiled> cases = {
      {Rule::device_state, "a device becomes larger than any",
       [](DeviceStory& s) {
         s.insert_before(K::IoBegun, 0, K::DeviceChanged, [](DeviceEvent& e) {
           e.device = 1, e.state = DeviceState::open, e.geometry = geometry(kMostSectors);
         });
       }},
      {Rule::open_alone, "OPEN is sent without SESS_INFO on a new link",
       [](DeviceStory& s) { s.drop(K::SendMessage, 3), s.drop(K::MessageDone, 3); }},
      {Rule::io_device_id, "an IO of one device begins while the other one is to be opened",
       [](DeviceStory& s) {
         const std::size_t at = s.where(K::RemapRequested) + 1;
         const std::vector<DeviceEvent> io{s.events()[at - 3], s.events()[at - 2]};
         s.events().insert(s.events().begin() + static_cast<std::ptrdiff_t>(at), io.begin(), io.end());
       }},
      {Rule::io_losses, "a loss that was told to a durable change counts as told to a flush",
       [](DeviceStory& s) {
         for (const K kind : {K::IoBegun, K::IoStarted, K::IoDone}) s.at(kind, 8).io.flush_told = 1;
         s.at(K::IoStarted, 8).io.doomed = s.at(K::IoDone, 8).io.doomed = false;
         s.at(K::IoJudged, 8).disposition = Disposition::ok;
       }},
      {Rule::io_disposition, "an IO that was not delivered succeeds",
       edit(K::IoDone, 0, [](DeviceEvent& e) { e.delivered = false; })},
      {Rule::message_form, "CLOSE is a READ",
       [](DeviceStory& s) {
         for (DeviceEvent& event : s.events()) event.reads |= event.message == MessageKind::close;
       }},
      {Rule::open_alone, "CLOSE is sent while an OPEN is in flight",
       [](DeviceStory& s) {
         const std::string_view header = s.keep(close_message(kId));
         s.insert_before(K::MessageDone, 1, K::SendMessage, [&](DeviceEvent& e) {
           e.token = 4, e.message = MessageKind::close, e.header = header;
         });
       }},
      {Rule::device_state, "a device stays open when the link goes down",
       [](DeviceStory& s) {
         s.events().erase(s.events().begin() + static_cast<std::ptrdiff_t>(s.where(K::LinkDown, 1)) + 1);
       }},
      {Rule::open_alone, "nothing is sent when a retry is due",
       [](DeviceStory& s) {
         s.events().erase(s.events().begin() + static_cast<std::ptrdiff_t>(s.where(K::RetryDue)) + 1);
       }},
      {Rule::device_state, "a device that was opened for nobody is not closed",
       [](DeviceStory& s) {
         std::erase_if(s.events(), [](const DeviceEvent& one) {
           return one.token == 66 && (one.kind == K::SendMessage || one.kind == K::MessageDone);
         });
       }},
      {Rule::message_form, "CLOSE of a device whose IO is in flight",
       [](DeviceStory& s) {
         const auto at = s.events().begin() + static_cast<std::ptrdiff_t>(s.where(K::UnmapRequested, 1)) + 1;
         s.events().erase(at);
       }},
  };
  return cases;
}

}  // namespace rtrs::spec
