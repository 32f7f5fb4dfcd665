// Fuzzes the RNBD client with random responses, link losses and resends. While the OPEN of a device is in
// flight, no IO or CLOSE of the device may be. After recovery, every mapped device must be usable or refused.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "conformance/fuzz/draws.hpp"
#include "conformance/fuzz/fuzz.hpp"
#include "conformance/fuzz/state_pairs.hpp"
#include "core/rnbd/client_devices.hpp"

using namespace rtrs;
using namespace rtrs::rnbd;
using Bytes = std::vector<std::byte>;

namespace {

struct Pending {
  bool is_io = false;
  SendMessage message{};
  DeviceHandle device = 0;
  IoTicket ticket{};
};

class World {
 public:
  explicit World(fuzz::Draws& draws) : draws_(draws) {}

  void act() {
    const std::uint32_t what = draws_.below(11);
    const DeviceHandle device = some_device();
    if (what == 0) return map();
    if (what == 1) return step(LinkUp{draws_.below(2) != 0}, what);
    if (what == 2) return step(LinkDown{}, what);
    if (what == 3) return step(UnmapRequested{device}, what);
    if (what == 4) return step(RemapRequested{device}, what);
    if (what == 5) return step(RetryDue{}, what);
    if (what <= 7) return begin_io(device);
    if (what == 10) return step(ResizeRequested{device, draws_.below(64)}, what);
    if (!pending_.empty()) finish(draws_.below(static_cast<std::uint32_t>(pending_.size())), false);
  }
  // Recovery: connects to a server that accepts every OPEN.
  void heal() {
    step(LinkUp{}, 1);
    for (unsigned turn = 0; turn < 1000 && (!pending_.empty() || client_.retry_wanted()); ++turn) {
      if (client_.retry_wanted()) step(RetryDue{}, 5);
      if (!pending_.empty()) finish(0, true);
    }
    RTRS_FUZZ_CHECK(pending_.empty());
    RTRS_FUZZ_CHECK(client_.io_in_flight() == 0 && client_.messages_in_flight() == 0);
    unsigned mapped = 0;
    for (const DeviceHandle device : devices_) {
      const DeviceState state = client_.state(device);
      RTRS_FUZZ_CHECK(state == DeviceState::open || state == DeviceState::closed ||
                      state == DeviceState::unmapped);
      RTRS_FUZZ_CHECK(client_.gate(device) == (state == DeviceState::open ? Gate::go : Gate::refuse));
      mapped += state == DeviceState::unmapped ? 0 : 1;
    }
    RTRS_FUZZ_CHECK(mapped == client_.mapped_count());
  }

 private:
  DeviceHandle some_device() {
    if (devices_.empty() || draws_.rarely(16)) return draws_.below(1024);
    return devices_[draws_.below(static_cast<std::uint32_t>(devices_.size()))];
  }
  template <class Input>
  void step(const Input& input, std::uint32_t event) {
    actions_.clear();
    client_.on(input, actions_);
    perform(event);
  }
  void perform(std::uint32_t event) {
    for (const rnbd::ClientAction& action : actions_) {
      if (const auto* message = std::get_if<SendMessage>(&action)) pending_.push_back({false, *message, 0});
    }
    const auto is = [](MessageKind kind) {
      return [kind](const Pending& one) { return !one.is_io && one.message.kind == kind; };
    };
    const bool opens = std::any_of(pending_.begin(), pending_.end(), is(MessageKind::open));
    const bool closes = std::any_of(pending_.begin(), pending_.end(), is(MessageKind::close));
    const auto ios =
        std::count_if(pending_.begin(), pending_.end(), [](const Pending& one) { return one.is_io; });
    RTRS_FUZZ_CHECK(!opens || (!closes && ios == 0));
    RTRS_FUZZ_CHECK(client_.io_in_flight() == static_cast<unsigned>(ios));
    RTRS_FUZZ_CHECK(client_.messages_in_flight() == pending_.size() - static_cast<std::size_t>(ios));
    std::uint64_t state = (client_.link_up() ? 1U : 0U) + (opens ? 2U : 0U) + (closes ? 4U : 0U) +
                          (client_.retry_wanted() ? 8U : 0U) + (ios > 0 ? 16U : 0U);
    for (std::size_t i = devices_.size() > 3 ? devices_.size() - 3 : 0; i < devices_.size(); ++i)
      state = state * 5 + static_cast<std::uint64_t>(client_.state(devices_[i]));
    pairs_.reached(state, event);
  }
  void map() {
    constexpr std::array<const char*, 4> kNames{"a", "b", "c", ""};
    actions_.clear();
    const MapOutcome outcome = client_.on(MapRequested{kNames[draws_.below(4)]}, actions_);
    if (outcome.error == 0) devices_.push_back(outcome.device);
    perform(0);
  }
  void begin_io(DeviceHandle device) {
    if (client_.gate(device) != Gate::go) return;
    actions_.clear();
    constexpr std::array<IoNature, 4> kNatures{{{}, {true}, {true, true}, {false, false, true}}};
    const IoBegun fresh{device, kNatures[draws_.below(4)], client_.arrive(device)};
    pending_.push_back({true, {}, device, client_.begin_io(fresh).ticket});
    perform(6);
  }
  void finish(std::size_t index, bool calm) {
    const Pending one = pending_[index];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
    constexpr std::array<std::uint16_t, 5> kErrnos{0, 107, 5, 2, 511};
    const std::uint16_t peer_errno = calm ? std::uint16_t{0} : kErrnos[draws_.below(5)];
    const bool delivered = calm || !draws_.rarely(5);
    const bool well = delivered && peer_errno == 0;
    if (!one.is_io) {
      const Bytes response = peer_errno == 0 && delivered ? answer(one.message, calm) : Bytes{};
      return step(MessageDone{one.message.token, delivered, peer_errno, response}, 8);
    }
    actions_.clear();
    const std::uint64_t before = client_.unflushed(one.device);
    const Disposition end = client_.on(IoDone{one.device, delivered, peer_errno, one.ticket}, actions_);
    RTRS_FUZZ_CHECK((end == Disposition::ok || end == Disposition::lost) == well);
    RTRS_FUZZ_CHECK(end != Disposition::lost || one.ticket.nature.flushes || one.ticket.nature.durable);
    const bool counts = well && one.ticket.nature.changes && !one.ticket.nature.durable;
    RTRS_FUZZ_CHECK(client_.unflushed(one.device) <= before + (counts ? 1 : 0));
    perform(9);
  }
  Bytes answer(const SendMessage& message, bool calm) {
    Bytes bytes(wire::rnbd::kOpenRspBytes);
    if (message.kind == MessageKind::sess_info) {
      bytes.resize(encode(wire::rnbd::SessInfoRsp{2}, bytes));
    } else if (message.kind == MessageKind::open) {
      Geometry geometry;
      geometry.nsectors = 8;
      // A correct server assigns new ids; a misbehaving one repeats ids.
      const std::uint32_t id = calm ? 1000 + ++last_id_ : draws_.below(4);
      bytes.resize(encode(make_open_rsp(id, geometry, draws_.below(3)), bytes));
    } else {
      bytes.clear();
    }
    if (calm) return bytes;
    if (!bytes.empty() && draws_.rarely(6))
      bytes[draws_.below(static_cast<std::uint32_t>(bytes.size()))] =
          static_cast<std::byte>(draws_.below(256));
    if (draws_.rarely(12)) bytes.resize(draws_.below(2 * wire::rnbd::kOpenRspBytes));
    return bytes;
  }

  fuzz::Draws& draws_;
  fuzz::StatePairs pairs_;
  ClientDevices client_;
  rnbd::ClientActions actions_;
  std::vector<Pending> pending_;
  std::vector<DeviceHandle> devices_;
  std::uint32_t last_id_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Draws draws(data, size);
  World world(draws);
  while (draws.left()) world.act();
  world.heal();
  return 0;
}
