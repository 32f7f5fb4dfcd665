// Unanswered requests of a server, for display: what each waits for, and since when.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/direction.hpp"
#include "core/proto/ids.hpp"

namespace rtrs {

struct RequestInFlight {
  enum class Waits : std::uint8_t {
    key,         // the server invalidates the key of the request's chunk
    gate,        // an older request uses the chunk
    devices,     // the device state machine waits for another operation, or for the device size
    storage,     // the caller executes StartStorage
    open,        // the caller executes OpenExport
    send_queue,  // the response waits for room in the send queue
  };
  std::uint16_t session = 0;  // session index
  std::uint16_t chunk = 0;    // the client's permit
  std::uint16_t con = 0;
  unsigned path = 0;  // path index
  Waits waits = Waits::devices;
  Direction direction = Direction::read;
  std::uint32_t data_len = 0;  // size of the request's data in bytes
  Nanos arrived = 0;
  Nanos since = 0;              // `storage` and `open`: start of this wait; otherwise equal to `arrived`
  std::uint64_t operation = 0;  // `storage` and `open`: the block::OpId
  // User header as the client sent it. Valid until the next non-const call on the server.
  std::span<const std::byte> user_header{};
};

constexpr const char* to_string(RequestInFlight::Waits waits) noexcept {
  using Waits = RequestInFlight::Waits;
  switch (waits) {
    case Waits::key:
      return "key";
    case Waits::gate:
      return "gate";
    case Waits::devices:
      return "devices";
    case Waits::storage:
      return "storage";
    case Waits::open:
      return "open";
    case Waits::send_queue:
      return "send_queue";
  }
  return "unknown";
}

}  // namespace rtrs
