// Environment of a ServerDevices in tests: a caller that stores the actions until the test performs them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "core/base/assert.hpp"
#include "core/base/fixed_vector.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::rnbd::test {

using Header = FixedVector<std::byte, wire::rnbd::kOpenBytes>;

template <class Message>
Header encoded(const Message& message) {
  Header header;
  header.resize(wire::rnbd::kOpenBytes);
  header.resize(encode(message, header));
  return header;
}

inline Header open_message(std::string_view name, wire::rnbd::AccessMode mode) {
  return encoded(wire::rnbd::Open{mode, wire::make_name(name).value});
}

class Session {
 public:
  using AccessMode = wire::rnbd::AccessMode;
  using Opcode = wire::rnbd::Opcode;
  using Request = std::uint64_t;  // counted from 1

  explicit Session(const ServerOptions& options = {}) : devices(options) {
    geometry.nsectors = 1024;
    geometry.max_discard_sectors = geometry.max_write_zeroes_sectors = 1024;
    errnos_.fill(kUnanswered);
  }

  Request arrive(Direction direction, std::uint32_t data_len, wire::Bytes header) {
    const Request request = ++last_request_;
    step(DeviceRequest{request, data_len, direction, header});
    return request;
  }
  Request open(std::string_view name, AccessMode mode = AccessMode::read_write) {
    return arrive(Direction::read, wire::rnbd::kOpenRspBytes, open_message(name, mode));
  }
  Request close(std::uint32_t id) { return arrive(Direction::write, 0, encoded(wire::rnbd::Close{id})); }
  Request io(const wire::rnbd::Io& message) {
    const auto framing = io_framing(message);
    return arrive(framing.direction, framing.data_len, encoded(message));
  }
  Request io(std::uint32_t id, Opcode opcode, std::uint64_t sector = 0, std::uint32_t size = 4096) {
    wire::rnbd::Io message;
    message.device_id = id;
    message.opcode = opcode;
    message.sector = sector;
    message.size = size;
    return io(message);
  }
  Request durable_write(std::uint32_t id) {
    wire::rnbd::Io message;
    message.device_id = id;
    message.opcode = Opcode::write;
    message.size = 4096;
    message.fua = true;
    return io(message);
  }
  Request preflush(std::uint32_t id, Opcode opcode = Opcode::write) {
    wire::rnbd::Io message;
    message.device_id = id;
    message.opcode = opcode;
    message.size = 4096;
    message.preflush = true;
    return io(message);
  }
  // Opens a device and answers its OpenExport; returns the device id.
  std::uint32_t opened(std::string_view name, AccessMode mode = AccessMode::read_write) {
    const Request request = open(name, mode);
    export_opened(0);
    RTRS_ASSERT(errno_of(request) == 0);
    return response().device_id;
  }
  // Completes the oldest OpenExport.
  void export_opened(int error) {
    const OpenExport asked = opens[0];
    opens.erase_at(0);
    step(ExportOpened{asked.operation, error, next_handle++, geometry, instance});
  }
  void storage_done(int error, bool sync_failed = false) { storage_done_at(0, error, sync_failed); }
  void storage_done_at(std::size_t index, int error, bool sync_failed = false) {
    const Storage asked = storage[index];
    storage.erase_at(index);
    step(StorageDone{asked.operation, error, sync_failed});
  }
  template <class Input>
  void step(const Input& input) {
    actions.clear();
    devices.on(input, actions);
    for (const ServerAction& action : actions) {
      std::visit([this](const auto& what) { this->perform(what); }, action);
    }
    while (!measures.empty() && measures_automatically) measured(sectors_now);
  }
  // Completes the oldest MeasureExport.
  void measured(std::uint64_t nsectors) {
    const MeasureExport asked = measures[0];
    measures.erase_at(0);
    step(ExportMeasured{asked.operation, nsectors});
  }
  // Returns the last response that has a body.
  wire::rnbd::OpenRsp response() const {
    std::array<std::byte, wire::rnbd::kOpenRspBytes> data{};
    fill(answers[answers.size() - 1], data);
    const auto parsed = wire::rnbd::parse_open_rsp(data);
    RTRS_ASSERT(static_cast<bool>(parsed));
    return parsed.value;
  }
  static constexpr int kUnanswered = -1;
  int errno_of(Request request) const { return errnos_[request]; }
  const Storage& last_storage() const { return storage[storage.size() - 1]; }

  ServerDevices devices;
  ServerActions actions;
  Geometry geometry;                   // geometry of the exports opened next
  std::uint64_t instance = 0;          // cache instance of the exports opened next
  std::uint64_t sectors_now = 0;       // measured size of every export; 0: unchanged
  bool measures_automatically = true;  // false: the test calls measured()
  FixedVector<MeasureExport, 2048> measures;
  std::uint64_t next_handle = 100;
  FixedVector<OpenExport, 16> opens;
  FixedVector<Storage, 2048> storage;
  FixedVector<std::uint64_t, 4096> closed;
  FixedVector<WriteBack, 4096> answers;
  FixedVector<CacheDamaged, 16> damaged;
  unsigned drained = 0;

 private:
  void perform(const Storage& action) { storage.push_back(action); }
  void perform(const MeasureExport& action) { measures.push_back(action); }
  void perform(const OpenExport& action) { opens.push_back(action); }
  void perform(const CloseExport& action) { closed.push_back(action.handle); }
  void perform(const WriteBack& action) { answers.push_back(action); }
  void perform(const Respond& action) {
    RTRS_ASSERT(errnos_[action.request] == kUnanswered);
    errnos_[action.request] = action.peer_errno;
  }
  void perform(const CacheDamaged& action) { damaged.push_back(action); }
  void perform(const SessionDrained&) { ++drained; }

  std::array<int, 8192> errnos_{};
  Request last_request_ = 0;
};

}  // namespace rtrs::rnbd::test
