// Fuzzes the RNBD server with random requests, failing exports and storage completions in any order. Every
// request must be answered once, storage access must stay inside the device, and a session that ends must
// leave no device open.
#include <map>
#include <vector>

#include "conformance/fuzz/draws.hpp"
#include "conformance/fuzz/fuzz.hpp"
#include "conformance/fuzz/state_pairs.hpp"
#include "core/rnbd/server_devices.hpp"

using namespace rtrs;
using namespace rtrs::rnbd;
using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;
using Bytes = std::vector<std::byte>;

namespace {

struct OpenedExport {
  Geometry geometry;
  AccessMode mode = AccessMode::read_only;
  unsigned in_flight = 0;
  bool damaged = false;
};

class World {
 public:
  explicit World(fuzz::Draws& draws)
      : draws_(draws), devices_(ServerOptions{draws.below(4), 1 + draws.below(4)}) {}

  void act() {
    const std::uint32_t what = draws_.below(8);
    if (what <= 2) return arrive();
    if (!measures_.empty() && what <= 6) return finish_measure(draws_.below(130));
    if (what == 3) return finish_open(draws_.below(6));
    if (what <= 5) return finish_storage(draws_.below(3) * 255);
    if (what == 6 && draws_.rarely(3)) return step(DeviceForceClosed{some_id()}, what);
    if (what == 7 && draws_.rarely(20)) return step(SessionClosed{}, what);
  }
  void end() {
    if (!closed_) step(SessionClosed{}, 7);
    while (!opens_.empty() || !storage_.empty() || !measures_.empty()) {
      finish_measure(0);
      finish_open(0);
      finish_storage(0);
    }
    RTRS_FUZZ_CHECK(unanswered_.empty() && exports_.empty() && drained_ == 1);
  }
  bool ended() const { return closed_; }

 private:
  template <class Input>
  void step(const Input& input, std::uint32_t event) {
    if constexpr (std::is_same_v<Input, SessionClosed>) closed_ = true;
    actions_.clear();
    devices_.on(input, actions_);
    for (const rnbd::ServerAction& action : actions_)
      std::visit([this](const auto& one) { this->perform(one); }, action);
    RTRS_FUZZ_CHECK(devices_.unanswered() == unanswered_.size());
    std::uint64_t state =
        opens_.size() * 64 + measures_.size() * 1024 + storage_.size() * 8 + unanswered_.size();
    for (const ServerDevices::Device& device : devices_)
      state = state * 5 + static_cast<std::uint64_t>(device.state);
    pairs_.reached(state, event);
  }
  void perform(const Storage& action) {
    RTRS_FUZZ_CHECK(unanswered_.count(action.request) == 1 && exports_.count(action.handle) == 1);
    OpenedExport& target = exports_.at(action.handle);
    const bool changes = action.opcode != Opcode::read && action.opcode != Opcode::flush;
    RTRS_FUZZ_CHECK(action.opcode != Opcode::secure_erase && (!changes || is_writable(target.mode)));
    if (action.opcode != Opcode::flush) {
      RTRS_FUZZ_CHECK(action.bytes > 0 && action.bytes % target.geometry.logical_block_size == 0);
      RTRS_FUZZ_CHECK(action.sector <= target.geometry.nsectors &&
                      action.bytes / 512 <= target.geometry.nsectors - action.sector);
    }
    RTRS_FUZZ_CHECK(action.opcode != Opcode::flush || !target.damaged);
    const bool has_data = action.opcode == Opcode::read || action.opcode == Opcode::write;
    RTRS_FUZZ_CHECK(!action.nounmap || action.opcode == Opcode::write_zeroes);
    RTRS_FUZZ_CHECK(!has_data || action.bytes == unanswered_.at(action.request));
    ++target.in_flight;
    storage_.push_back(action);
  }
  void perform(const MeasureExport& action) {
    RTRS_FUZZ_CHECK(exports_.count(action.handle) == 1);
    ++exports_.at(action.handle).in_flight;
    measures_.push_back(action);
  }
  void perform(const OpenExport& action) { opens_.push_back(action); }
  void perform(const CloseExport& action) {
    RTRS_FUZZ_CHECK(exports_.count(action.handle) == 1 && exports_.at(action.handle).in_flight == 0);
    exports_.erase(action.handle);
  }
  void perform(const WriteBack& action) {
    RTRS_FUZZ_CHECK(unanswered_.count(action.request) == 1 &&
                    action.response.size() <= unanswered_.at(action.request));
  }
  void perform(const Respond& action) {
    RTRS_FUZZ_CHECK(action.peer_errno <= kMaxWireErrno && unanswered_.erase(action.request) == 1);
  }
  void perform(const CacheDamaged& action) { RTRS_FUZZ_CHECK(exports_.at(action.handle).damaged); }
  void perform(const SessionDrained&) { ++drained_; }

  std::uint32_t some_id() { return draws_.below(4) * 256 + draws_.below(4); }
  template <class Message>
  static Bytes encoded(const Message& message) {
    Bytes bytes(wire::rnbd::kOpenBytes);
    bytes.resize(encode(message, bytes));
    return bytes;
  }
  Bytes header() {
    switch (draws_.below(5)) {
      case 0:
        return encoded(wire::rnbd::SessInfo{static_cast<std::uint8_t>(draws_.below(256))});
      case 1: {
        constexpr const char* kNames[] = {"a", "b", "c"};
        return encoded(wire::rnbd::Open{static_cast<AccessMode>(draws_.below(3)),
                                        wire::make_name(kNames[draws_.below(3)]).value});
      }
      case 2:
        return encoded(wire::rnbd::Close{some_id()});
      case 3: {
        constexpr std::uint32_t kSizes[] = {512, 4096, 0, 1000, 32768, 0xfffffe00U};
        wire::rnbd::Io io;
        io.device_id = some_id();
        io.opcode = static_cast<Opcode>(draws_.below(7));
        io.sector = draws_.below(70);
        io.size = kSizes[draws_.below(6)];
        io.fua = draws_.below(2) != 0;
        return encoded(io);
      }
      default: {
        Bytes bytes(draws_.below(40));
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(draws_.below(256));
        return bytes;
      }
    }
  }
  void arrive() {
    constexpr std::uint32_t kLengths[] = {0, wire::rnbd::kOpenRspBytes, 512, 4096, 32768, 36};
    Bytes bytes = header();
    if (!bytes.empty() && draws_.rarely(8))
      bytes[draws_.below(static_cast<std::uint32_t>(bytes.size()))] =
          static_cast<std::byte>(draws_.below(256));
    if (draws_.rarely(16)) bytes.resize(draws_.below(static_cast<std::uint32_t>(bytes.size() + 1)));
    const std::uint32_t length = kLengths[draws_.below(6)];
    const auto direction = draws_.below(2) == 0 ? Direction::read : Direction::write;
    unanswered_[++last_request_] = length;
    step(DeviceRequest{last_request_, length, direction, bytes}, 0);
  }
  void finish_open(std::uint32_t mood) {
    if (opens_.empty()) return;
    const OpenExport asked = opens_.front();
    opens_.erase(opens_.begin());
    Geometry geometry;
    geometry.nsectors = 64;
    geometry.max_discard_sectors = geometry.max_write_zeroes_sectors = 64;
    // Sometimes an unusable block size.
    if (mood == 4) geometry.logical_block_size = static_cast<std::uint16_t>(draws_.below(1U << 16));
    const int error = mood == 5 ? 2 : 0;
    if (error == 0) exports_[++last_handle_] = OpenedExport{geometry, asked.mode, 0};
    step(ExportOpened{asked.operation, error, last_handle_, geometry}, 1);
  }
  void finish_measure(std::uint64_t nsectors) {
    if (measures_.empty()) return;
    const MeasureExport asked = measures_.front();
    measures_.erase(measures_.begin());
    OpenedExport& target = exports_.at(asked.handle);
    --target.in_flight;
    const std::uint64_t block = target.geometry.logical_block_size / 512;
    if (nsectors != 0) target.geometry.nsectors = nsectors - nsectors % block;
    step(ExportMeasured{asked.operation, nsectors}, 3);
  }
  void finish_storage(std::uint32_t error) {
    if (storage_.empty()) return;
    const auto at = draws_.below(static_cast<std::uint32_t>(storage_.size()));
    const Storage asked = storage_[at];
    storage_.erase(storage_.begin() + at);
    OpenedExport& target = exports_.at(asked.handle);
    --target.in_flight;
    const bool sync_failed = error != 0 && asked.opcode == Opcode::flush;
    target.damaged = target.damaged || sync_failed;
    step(StorageDone{asked.operation, static_cast<int>(error), sync_failed}, 2);
  }

  fuzz::Draws& draws_;
  fuzz::StatePairs pairs_;
  ServerDevices devices_;
  rnbd::ServerActions actions_;
  std::uint64_t last_request_ = 0;
  std::uint64_t last_handle_ = 0;
  std::map<std::uint64_t, std::uint32_t> unanswered_;  // data length by request
  std::vector<OpenExport> opens_;
  std::vector<MeasureExport> measures_;
  std::vector<Storage> storage_;
  std::map<std::uint64_t, OpenedExport> exports_;
  bool closed_ = false;
  unsigned drained_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Draws draws(data, size);
  World world(draws);
  while (draws.left() && !world.ended()) world.act();
  world.end();
  return 0;
}
