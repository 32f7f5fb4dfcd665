#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/rnbd/server_devices.hpp"

namespace rtrs::rnbd::server_devices_property_test {
namespace {

using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;
using Bytes = std::vector<std::byte>;

struct OpenedExport {
  Geometry geometry;
  AccessMode mode = AccessMode::read_only;
  unsigned in_flight = 0;
  bool damaged = false;
};

// Storage that checks the actions it gets, and a record of unanswered requests.
struct World {
  ServerDevices devices;
  ServerActions actions;
  std::uint64_t last_request = 0;
  std::uint64_t last_handle = 0;
  std::map<std::uint64_t, std::uint32_t> unanswered;  // data length by request
  std::vector<OpenExport> opens;
  std::vector<MeasureExport> measures;
  std::vector<Storage> storage;
  std::map<std::uint64_t, OpenedExport> exports;
  bool drained = false;

  template <class Input>
  void step(const Input& input) {
    actions.clear();
    devices.on(input, actions);
    for (const ServerAction& action : actions) {
      std::visit([this](const auto& what) { this->perform(what); }, action);
    }
    RC_ASSERT(devices.unanswered() == unanswered.size());
    const char* const broken = devices.broken_invariant();
    if (broken != nullptr) RC_FAIL(broken);
  }
  void arrive(Direction direction, std::uint32_t data_len, const Bytes& header) {
    unanswered[++last_request] = data_len;
    step(DeviceRequest{last_request, data_len, direction, header});
  }
  void perform(const Storage& action) {
    RC_ASSERT(unanswered.count(action.request) == 1U);
    auto& target = exports.at(action.handle);
    RC_ASSERT(action.opcode != Opcode::flush || !target.damaged);
    const bool changes = action.opcode != Opcode::read && action.opcode != Opcode::flush;
    RC_ASSERT(action.opcode != Opcode::secure_erase);
    RC_ASSERT(!changes || is_writable(target.mode));
    if (action.opcode != Opcode::flush) {
      RC_ASSERT(action.bytes > 0U && action.bytes % target.geometry.logical_block_size == 0U);
      RC_ASSERT(action.sector <= target.geometry.nsectors &&
                action.bytes / 512 <= target.geometry.nsectors - action.sector);
    }
    const bool has_data = action.opcode == Opcode::read || action.opcode == Opcode::write;
    RC_ASSERT(!has_data || action.bytes == unanswered.at(action.request));
    ++target.in_flight;
    storage.push_back(action);
  }
  void perform(const MeasureExport& action) {
    ++exports.at(action.handle).in_flight;
    measures.push_back(action);
  }
  void perform(const OpenExport& action) { opens.push_back(action); }
  void perform(const CloseExport& action) {
    RC_ASSERT(exports.at(action.handle).in_flight == 0U);
    exports.erase(action.handle);
  }
  void perform(const WriteBack& action) {
    RC_ASSERT(action.response.size() <= unanswered.at(action.request));
  }
  void perform(const Respond& action) {
    RC_ASSERT(action.peer_errno <= kMaxWireErrno);
    RC_ASSERT(unanswered.erase(action.request) == 1U);
  }
  void perform(const CacheDamaged& action) { RC_ASSERT(exports.at(action.handle).damaged); }
  void perform(const SessionDrained&) {
    RC_ASSERT(!drained);
    drained = true;
  }
  void finish_open(std::size_t index, int error) {
    const OpenExport asked = opens.at(index);
    opens.erase(opens.begin() + static_cast<std::ptrdiff_t>(index));
    Geometry geometry;
    geometry.nsectors = 64;
    geometry.max_discard_sectors = geometry.max_write_zeroes_sectors = 64;
    const std::uint64_t handle = ++last_handle;
    if (error == 0) exports[handle] = OpenedExport{geometry, asked.mode, 0};
    step(ExportOpened{asked.operation, error, handle, geometry});
  }
  void finish_storage(std::size_t index, int error) {
    const Storage asked = storage.at(index);
    storage.erase(storage.begin() + static_cast<std::ptrdiff_t>(index));
    OpenedExport& target = exports.at(asked.handle);
    --target.in_flight;
    const bool sync_failed = error != 0 && asked.opcode == Opcode::flush;
    target.damaged = target.damaged || sync_failed;
    step(StorageDone{asked.operation, error, sync_failed});
  }
  // Completes a measurement. `nsectors` 0: the size is unknown.
  void finish_measure(std::size_t index, std::uint64_t nsectors) {
    const MeasureExport asked = measures.at(index);
    measures.erase(measures.begin() + static_cast<std::ptrdiff_t>(index));
    OpenedExport& target = exports.at(asked.handle);
    --target.in_flight;
    if (nsectors != 0) target.geometry.nsectors = nsectors;
    step(ExportMeasured{asked.operation, nsectors});
  }
  void finish_all() {
    while (!opens.empty() || !storage.empty() || !measures.empty()) {
      if (!measures.empty()) finish_measure(0, 0);
      if (!opens.empty()) finish_open(0, 0);
      if (!storage.empty()) finish_storage(0, 0);
    }
  }
};

template <class Message>
Bytes encoded(const Message& message) {
  Bytes bytes(wire::rnbd::kOpenBytes);
  bytes.resize(encode(message, bytes));
  return bytes;
}

std::uint32_t some_id() {
  return static_cast<std::uint32_t>(*rc::gen::inRange(0, 4)) * 256 +
         static_cast<std::uint32_t>(*rc::gen::inRange(0, 3));
}

// Returns a plausible message, sometimes corrupted.
Bytes some_header() {
  Bytes bytes;
  switch (*rc::gen::weightedElement<int>({{1, 0}, {3, 1}, {3, 2}, {12, 3}, {1, 4}})) {
    case 0:
      bytes = encoded(wire::rnbd::SessInfo{*rc::gen::arbitrary<std::uint8_t>()});
      break;
    case 1: {
      const auto name = wire::make_name(*rc::gen::element<std::string>("a", "b", "c"));
      bytes = encoded(wire::rnbd::Open{static_cast<AccessMode>(*rc::gen::inRange(0, 3)), name.value});
      break;
    }
    case 2:
      bytes = encoded(wire::rnbd::Close{some_id()});
      break;
    case 3: {
      wire::rnbd::Io io;
      io.device_id = some_id();
      io.opcode = static_cast<Opcode>(*rc::gen::inRange(0, 6));
      io.sector = *rc::gen::inRange<std::uint64_t>(0, 70);
      io.size = *rc::gen::element(0U, 512U, 4096U, 1000U, 32768U, 0xfffffe00U);
      io.fua = *rc::gen::arbitrary<bool>();
      bytes = encoded(io);
      break;
    }
    default:
      bytes = *rc::gen::container<Bytes>(
          rc::gen::map(rc::gen::arbitrary<std::uint8_t>(), [](std::uint8_t b) { return std::byte{b}; }));
  }
  if (!bytes.empty() && *rc::gen::inRange(0, 8) == 0) {
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = std::byte{*rc::gen::arbitrary<std::uint8_t>()};
  }
  if (*rc::gen::inRange(0, 16) == 0) bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
  return bytes;
}

void random_step(World& world) {
  switch (*rc::gen::weightedElement<int>({{10, 0}, {3, 1}, {6, 2}, {3, 3}, {1, 4}})) {
    case 0: {
      const Direction direction = *rc::gen::element(Direction::read, Direction::write);
      const auto data_len = *rc::gen::element(0U, 36U, 56U, 512U, 4096U, 32768U);
      world.arrive(direction, data_len, some_header());
      break;
    }
    case 1:
      if (!world.opens.empty()) {
        const auto index = *rc::gen::inRange<std::size_t>(0, world.opens.size());
        world.finish_open(index, *rc::gen::weightedElement<int>({{4, 0}, {1, 2}}));
      }
      break;
    case 2:
      if (!world.storage.empty()) {
        const auto index = *rc::gen::inRange<std::size_t>(0, world.storage.size());
        world.finish_storage(index, *rc::gen::element(0, 5, 512));
      }
      break;
    case 3:
      if (!world.measures.empty()) {
        const auto index = *rc::gen::inRange<std::size_t>(0, world.measures.size());
        world.finish_measure(index, *rc::gen::element<std::uint64_t>(0, 32, 64, 100));
      }
      break;
    default:
      world.step(DeviceForceClosed{some_id()});
  }
}

RC_GTEST_PROP(ServerDevicesProperty, ArbitraryHeadersGetOneResponse, (const std::string& text)) {
  World world;
  Bytes header;
  for (const char c : text) header.push_back(static_cast<std::byte>(c));
  const auto data_len = *rc::gen::arbitrary<std::uint32_t>();
  world.arrive(*rc::gen::element(Direction::read, Direction::write), data_len, header);
  RC_ASSERT(world.storage.empty());
  world.finish_all();
  RC_ASSERT(world.unanswered.empty());
}

RC_GTEST_PROP(ServerDevicesProperty, EveryRequestIsAnsweredOnceAndStorageStaysInside, ()) {
  World world;
  world.devices = ServerDevices(ServerOptions{0, 4});
  for (const char* name : {"a", "b"}) {
    world.arrive(Direction::read, 56,
                 encoded(wire::rnbd::Open{AccessMode::read_write, wire::make_name(name).value}));
    world.finish_open(0, 0);
  }
  const int steps = *rc::gen::inRange(0, 150);
  for (int i = 0; i < steps; ++i) {
    const ServerDevices before = world.devices;
    random_step(world);
    // Detects a field that equality or the fingerprint omits.
    RC_ASSERT((before == world.devices) == (before.fingerprint() == world.devices.fingerprint()));
  }
  const bool lost_early = *rc::gen::arbitrary<bool>();
  if (lost_early) world.step(SessionClosed{});
  world.finish_all();
  RC_ASSERT(world.unanswered.empty());
  if (!lost_early) world.step(SessionClosed{});
  RC_ASSERT(world.drained);
  RC_ASSERT(world.exports.empty());
}

}  // namespace
}  // namespace rtrs::rnbd::server_devices_property_test
