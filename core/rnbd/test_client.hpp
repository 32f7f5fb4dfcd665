// Environment of a ClientDevices in tests: a caller that stores the messages until the test answers them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "core/base/assert.hpp"
#include "core/base/fixed_vector.hpp"
#include "core/rnbd/client_devices.hpp"

namespace rtrs::rnbd::test {

inline wire::rnbd::OpenRsp disk(std::uint32_t id, std::uint64_t nsectors = 1024, std::uint64_t instance = 0) {
  Geometry geometry;
  geometry.nsectors = nsectors;
  return make_open_rsp(id, geometry, instance);
}

class Client {
 public:
  template <class Input>
  auto step(const Input& input) {
    actions_.clear();
    if constexpr (std::is_void_v<decltype(devices.on(input, actions_))>) {
      devices.on(input, actions_);
      keep();
    } else {
      const auto result = devices.on(input, actions_);
      keep();
      return result;
    }
  }
  DeviceHandle map(std::string_view name, wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_write) {
    const MapOutcome outcome = step(MapRequested{name, mode});
    RTRS_ASSERT(outcome.error == 0);
    return outcome.device;
  }
  // Answers the oldest message of this kind; returns false if there is none.
  bool answer(MessageKind kind, std::uint16_t peer_errno, wire::Bytes response) {
    const std::uint64_t token = take(kind);
    if (token == 0) return false;
    step(MessageDone{token, true, peer_errno, response});
    return true;
  }
  bool answer_info(std::uint8_t version = 2) {
    std::array<std::byte, wire::rnbd::kSessInfoRspBytes> response{};
    RTRS_ASSERT(encode(wire::rnbd::SessInfoRsp{version}, response) != 0);
    return answer(MessageKind::sess_info, 0, response);
  }
  bool answer_open(const wire::rnbd::OpenRsp& message) {
    std::array<std::byte, wire::rnbd::kOpenRspBytes> response{};
    RTRS_ASSERT(encode(message, response) != 0);
    return answer(MessageKind::open, 0, response);
  }
  bool answer_close() { return answer(MessageKind::close, 0, {}); }
  bool lose(MessageKind kind) {
    const std::uint64_t token = take(kind);
    if (token == 0) return false;
    step(MessageDone{token, false, 0, {}});
    return true;
  }
  // Maps and opens a device while the link is up.
  DeviceHandle opened(std::string_view name, std::uint32_t id) {
    if (!devices.link_up()) step(LinkUp{});
    const DeviceHandle handle = map(name);
    answer_info();
    RTRS_ASSERT(answer_open(disk(id)));
    RTRS_ASSERT(devices.state(handle) == DeviceState::open);
    news.clear();
    return handle;
  }
  Disposition io_done(DeviceHandle handle, std::uint16_t peer_errno, bool delivered = true) {
    return step(IoDone{handle, delivered, peer_errno});
  }
  // Begins an IO that neither changes the export's cache nor flushes it.
  std::uint32_t begin(DeviceHandle handle) { return devices.begin_io({handle}).device_id; }
  bool only_message_is(MessageKind kind) const { return messages.size() == 1 && messages[0].kind == kind; }
  const DeviceChanged& last_news() const { return news[news.size() - 1]; }

  ClientDevices devices;
  FixedVector<SendMessage, 2 * kMaxClientDevices> messages;
  FixedVector<DeviceChanged, 4 * kMaxClientDevices> news;
  FixedVector<CacheReplaced, 64> replaced;

 private:
  // Takes the oldest message of this kind; returns its token, or 0 if there is none.
  std::uint64_t take(MessageKind kind) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].kind != kind) continue;
      const std::uint64_t token = messages[i].token;
      messages.erase_at(i);
      return token;
    }
    return 0;
  }
  void keep() {
    for (const ClientAction& action : actions_) {
      if (const auto* message = std::get_if<SendMessage>(&action)) messages.push_back(*message);
      if (const auto* change = std::get_if<DeviceChanged>(&action)) news.push_back(*change);
      if (const auto* one = std::get_if<CacheReplaced>(&action)) replaced.push_back(*one);
    }
  }
  ClientActions actions_;
};

}  // namespace rtrs::rnbd::test
