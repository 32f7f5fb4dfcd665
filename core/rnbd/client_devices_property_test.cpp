#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/rnbd/client_devices.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd::client_devices_property_test {
namespace {

using namespace wire::linux_errno;
using Bytes = std::vector<std::byte>;

// A request that the transport holds. The transport resends the request until it is answered, so a server may
// receive it twice.
struct Pending {
  bool is_io = false;
  SendMessage message{};        // valid if the request is not an IO
  DeviceHandle device = 0;      // device of an IO
  std::uint32_t device_id = 0;  // id in the header of an IO
  std::string expected;         // name of the device for which an IO is meant
  bool answered = false;        // the response is in flight
  std::uint16_t peer_errno = 0;
  Bytes response;
};

// A client with a server like the kernel's: it assigns the lowest free device ids, so that after a restart
// the same ids name other devices.
struct World {
  ClientDevices client;
  ClientActions actions;
  std::vector<Pending> pending;
  std::map<std::uint32_t, std::string> devices;  // device names by id, on the server
  std::map<std::string, DeviceHandle> mapped;

  template <class Input>
  auto step(const Input& input) {
    actions.clear();
    if constexpr (std::is_void_v<decltype(client.on(input, actions))>) {
      client.on(input, actions);
      perform();
    } else {
      const auto result = client.on(input, actions);
      perform();
      return result;
    }
  }
  void perform() {
    for (const ClientAction& action : actions) {
      if (const auto* message = std::get_if<SendMessage>(&action)) {
        Pending sent;
        sent.message = *message;
        pending.push_back(sent);
      }
      if (const auto* change = std::get_if<DeviceChanged>(&action)) forget_if_unmapped(*change);
    }
    check_law();
  }
  void forget_if_unmapped(const DeviceChanged& change) {
    if (change.state != DeviceState::unmapped) return;
    for (auto entry = mapped.begin(); entry != mapped.end();) {
      entry = entry->second == change.device ? mapped.erase(entry) : std::next(entry);
    }
  }
  // Checks the invariant: while an OPEN is unanswered, no IO and no CLOSE is unanswered.
  void check_law() const {
    const auto count = [this](auto which) { return std::count_if(pending.begin(), pending.end(), which); };
    const auto opens =
        count([](const Pending& p) { return !p.is_io && p.message.kind == MessageKind::open; });
    const auto others =
        count([](const Pending& p) { return p.is_io || p.message.kind == MessageKind::close; });
    RC_ASSERT(opens == 0 || others == 0);
  }

  void map(const std::string& name) {
    const MapOutcome outcome = step(MapRequested{name, wire::rnbd::AccessMode::read_write});
    if (outcome.error == 0 && client.state(outcome.device) != DeviceState::unmapped)
      mapped[name] = outcome.device;
  }
  void begin_io(const std::string& name) {
    const auto found = mapped.find(name);
    if (found == mapped.end() || client.gate(found->second) != Gate::go) return;
    Pending io;
    io.is_io = true;
    io.device = found->second;
    io.device_id = client.begin_io({found->second}).device_id;
    io.expected = name;
    pending.push_back(io);
    check_law();
  }
  // The server executes one request.
  void serve(Pending& request) {
    request.answered = true;
    request.peer_errno = 0;
    request.response.clear();
    if (request.is_io) {
      const auto found = devices.find(request.device_id);
      request.peer_errno = found == devices.end() ? kEnotconn : 0;
      RC_ASSERT(found == devices.end() || found->second == request.expected);
      return;
    }
    switch (request.message.kind) {
      case MessageKind::sess_info:
        request.response.resize(wire::rnbd::kSessInfoRspBytes);
        RC_ASSERT(encode(wire::rnbd::SessInfoRsp{}, request.response) != 0U);
        break;
      case MessageKind::open:
        serve_open(request);
        break;
      case MessageKind::close:
        devices.erase(wire::rnbd::parse_close(request.message.header.span()).value.device_id);
        break;
    }
  }
  void serve_open(Pending& request) {
    const auto open = wire::rnbd::parse_open(request.message.header.span());
    const std::string name(open.value.device_name.view());
    std::uint32_t id = 0;
    const auto known = std::find_if(devices.begin(), devices.end(),
                                    [&name](const auto& device) { return device.second == name; });
    if (known != devices.end()) {
      id = known->first;
    } else {
      while (devices.count(id) != 0) ++id;
      devices[id] = name;
    }
    Geometry geometry;
    geometry.nsectors = 8;
    request.response.resize(wire::rnbd::kOpenRspBytes);
    RC_ASSERT(encode(make_open_rsp(id, geometry), request.response) != 0U);
  }
  // The response reaches the client, or the transport fails the request.
  void finish(std::size_t index, bool delivered) {
    const Pending done = pending[index];
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(index));
    if (!done.is_io) return step(MessageDone{done.message.token, delivered, done.peer_errno, done.response});
    const Disposition disposition = step(IoDone{done.device, delivered, done.peer_errno});
    RC_ASSERT((disposition == Disposition::ok) == (delivered && done.peer_errno == 0));
    RC_ASSERT(delivered || disposition == Disposition::fail);
  }
  // Loses the responses in flight, so that the transport resends their requests.
  void lose_responses() {
    for (Pending& request : pending) request.answered = false;
  }
  void restart_server() {
    devices.clear();
    lose_responses();
  }
};

std::size_t some_index(std::size_t size) {
  return *rc::gen::inRange<std::size_t>(0, size);
}

void random_step(World& world) {
  const std::string name = *rc::gen::element<std::string>("a", "b", "c");
  const int what = *rc::gen::weightedElement<int>(
      {{2, 0}, {1, 1}, {8, 2}, {8, 3}, {8, 4}, {1, 5}, {1, 6}, {1, 7}, {2, 8}, {1, 9}, {1, 10}});
  const bool any = !world.pending.empty();
  if (what == 0) world.map(name);
  if (what == 1 && world.mapped.count(name) != 0) world.step(UnmapRequested{world.mapped.at(name)});
  if (what == 2) world.begin_io(name);
  if (what == 3 && any) world.serve(world.pending[some_index(world.pending.size())]);
  if (what == 4 && any) {
    const std::size_t index = some_index(world.pending.size());
    if (world.pending[index].answered) world.finish(index, true);
  }
  if (what == 5) world.restart_server();  // the client gets no event
  if (what == 6) world.lose_responses();
  if (what == 7) world.step(LinkDown{});
  if (what == 8) world.step(LinkUp{});
  if (what == 9 && any && !world.client.link_up()) world.finish(some_index(world.pending.size()), false);
  if (what == 10) world.step(RetryDue{});
}

void heal(World& world) {
  world.step(LinkUp{});
  for (int i = 0; i < 2000 && !world.pending.empty(); ++i) {
    if (!world.pending[0].answered) world.serve(world.pending[0]);
    world.finish(0, true);
  }
}

RC_GTEST_PROP(ClientDevicesProperty, NoIoReachesAnotherDeviceAndAllDevicesReopen, ()) {
  World world;
  for (const char* name : {"a", "b"}) world.map(name);
  heal(world);
  const int steps = *rc::gen::inRange(0, 250);
  for (int i = 0; i < steps; ++i) {
    const ClientDevices before = world.client;
    random_step(world);
    const char* const broken = world.client.broken_invariant();
    if (broken != nullptr) RC_FAIL(broken);
    // Detects a field that equality or the fingerprint omits.
    RC_ASSERT((before == world.client) == (before.fingerprint() == world.client.fingerprint()));
  }
  heal(world);
  RC_ASSERT(world.pending.empty());
  RC_ASSERT(world.client.io_in_flight() == 0U && world.client.messages_in_flight() == 0U);
  RC_ASSERT(world.client.mapped_count() == world.mapped.size());
  for (const auto& entry : world.mapped) {
    RC_ASSERT(world.client.state(entry.second) == DeviceState::open);
    RC_ASSERT(world.client.gate(entry.second) == Gate::go);
  }
}

RC_GTEST_PROP(ClientDevicesProperty, ArbitraryAnswersNeverCrash, ()) {
  World world;
  world.step(LinkUp{});
  world.map("a");
  const auto answers = *rc::gen::container<std::vector<std::vector<std::uint8_t>>>(
      rc::gen::container<std::vector<std::uint8_t>>(rc::gen::arbitrary<std::uint8_t>()));
  for (const auto& answer : answers) {
    if (world.pending.empty()) break;
    Pending& request = world.pending[0];
    request.peer_errno = *rc::gen::weightedElement<std::uint16_t>({{4, 0}, {1, 5}});
    request.response.clear();
    for (const std::uint8_t byte : answer) request.response.push_back(std::byte{byte});
    if (*rc::gen::arbitrary<bool>()) {
      // Header and type are valid, so that the rest is parsed.
      request.response.resize(*rc::gen::inRange<std::size_t>(0, 2 * wire::rnbd::kOpenRspBytes), std::byte{1});
      if (!request.response.empty()) {
        request.response[0] = request.message.kind == MessageKind::open ? std::byte{3} : std::byte{1};
      }
      if (request.response.size() > 1) request.response[1] = std::byte{0};
    }
    world.finish(0, true);
    world.map("a");
  }
}

}  // namespace
}  // namespace rtrs::rnbd::client_devices_property_test
