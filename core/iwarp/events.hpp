// What a stream reports, in the order of the wire.
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

// Responder only, once, before any other event of good FPDUs: the initiator's first FPDU is whole, may_send()
// is true from now on.
struct Greeted {
  bool operator==(const Greeted&) const = default;
};
// An Immediate Data message, and with it all that was written before. Took one receive.
struct Immediate {
  std::uint32_t imm = 0;
  bool operator==(const Immediate&) const = default;
};
// A SEND. `payload` is the front of the receive that it took.
struct Message {
  std::optional<std::uint32_t> imm;  // of a SEND with immediate
  Bytes payload{};
};
// A SEND with invalidate. Memory::invalidate() was called. `payload` as of a Message; ours are empty.
struct Invalidated {
  std::uint32_t key = 0;
  Bytes payload{};
};
// The last event: the peer did what it must not. answer_to() says what follows.
struct Violated {
  Fault fault = Fault::none;
  bool operator==(const Violated&) const = default;
};
// The last event: a Terminate message. Never answered; the code is only to be shown (some peers put its parts
// in another order).
struct PeerTerminated {
  TerminateCode code{};
  bool operator==(const PeerTerminated&) const = default;
};

using Event = std::variant<Immediate, Message, Greeted, Invalidated, Violated, PeerTerminated>;

// A list in memory of the caller, of at least one event.
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
