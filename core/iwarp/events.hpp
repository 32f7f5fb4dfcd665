// Events that a stream reports, in wire order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "core/base/assert.hpp"
#include "core/iwarp/fault.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::iwarp {

// Reported to a responder only, once, before any other event: the initiator's first FPDU is complete and
// valid. may_send() is true from now on.
struct Greeted {
  bool operator==(const Greeted&) const = default;
};
// An Immediate Data message has arrived, and consumed one receive. All earlier writes of the peer are placed.
struct Immediate {
  std::uint32_t imm = 0;
  bool operator==(const Immediate&) const = default;
};
// A SEND has arrived. `payload` is the filled first part of the receive that the SEND consumed.
struct Message {
  std::optional<std::uint32_t> imm;  // set for a SEND with immediate
  Bytes payload{};
};
// A SEND with invalidate has arrived, and Memory::invalidate() was called. `payload` as in `Message`. urtrs
// sends no such SEND.
struct Invalidated {
  std::uint32_t key = 0;
  Bytes payload{};
};
// The last event: the peer violated the protocol. answer_to() returns the response.
struct Violated {
  Fault fault = Fault::none;
  bool operator==(const Violated&) const = default;
};
// The last event: the peer sent a Terminate message, which is never answered. Use the code for logging only,
// because some peers order its parts differently.
struct PeerTerminated {
  TerminateCode code{};
  bool operator==(const PeerTerminated&) const = default;
};

using Event = std::variant<Immediate, Message, Greeted, Invalidated, Violated, PeerTerminated>;

// A list of events in the caller's memory, with room for at least one event.
class Events {
 public:
  explicit Events(std::span<Event> storage) noexcept : storage_(storage) { RTRS_ASSERT(!storage.empty()); }
  [[nodiscard]] bool full() const noexcept { return size_ == storage_.size(); }
  [[nodiscard]] std::span<const Event> all() const noexcept { return storage_.first(size_); }
  void clear() noexcept { size_ = 0; }
  void push(const Event& event) noexcept {
    RTRS_ASSERT(!full());
    storage_[size_++] = event;
  }

 private:
  std::span<Event> storage_;
  std::size_t size_ = 0;
};

}  // namespace rtrs::iwarp
