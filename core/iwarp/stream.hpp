// The receiving half of a connection once its greeting is done: octets in, events out. docs/iwarp.md has what
// is checked, in which order, and the Terminate code of each.
//
// Law: the same octets give the same events and leave the same memory, whatever the pieces they come in,
// through feed() or placed(), and whatever the size of the caller's list of events.
//
// A value of some 300 octets; no allocation, clock or threads; one thread at a time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/iwarp/events.hpp"
#include "core/iwarp/fault.hpp"
#include "core/iwarp/layout.hpp"
#include "core/iwarp/memory.hpp"

namespace rtrs::iwarp {

enum class Role : std::uint8_t { initiator, responder };

// Without CRC the payload of a segment goes to its place as it comes. With CRC nothing of an FPDU but its
// length is looked at, and nothing is placed, before its CRC was found right.
class Stream {
 public:
  struct Options {
    Role role = Role::responder;
    bool crc = false;                       // as agreed
    bool send_with_immediate = false;       // as agreed; off: the opcode is a SEND
    std::uint32_t max_message = 16U << 20;  // payload of one message, tagged or not, in octets
    // With CRC: at least kMaxFpduBytes of the caller, which hold an FPDU that comes in pieces. They outlive
    // the stream. Not used without CRC.
    MutableBytes staging{};
    std::uint32_t first_number = kFirstNumber;  // of the peer's first message; another one is for tests
  };

  explicit Stream(const Options&) noexcept;

  // Takes a prefix of the next octets and returns its length; the caller offers the rest again, with what
  // came behind it. Less than all are taken when
  //   - `events` is full: call again with an empty list, also when no octets are left over, because one event
  //     may be held back;
  //   - stalled(): call again when a receive was posted;
  //   - kQuietFpdus FPDUs without an event (empty writes, segments) were taken: call again, at the latest in
  //   the
  //     next poll.
  // After a violation, a Terminate message or fail() everything is taken and dropped. Work of a call: that of
  // the octets taken and, with CRC, one CRC over an FPDU.
  std::size_t feed(Bytes bytes, Memory& memory, Events& events) noexcept;
  static constexpr unsigned kQuietFpdus = 256;

  // Where the next octets of the wire belong, if they may be received straight to their place: payload, and
  // with CRC whatever is staged. Any number of octets may be received at its front; placed() then tells so.
  // Empty: use feed(). It ends with the payload of the segment (with CRC with the FPDU) and never reaches
  // into the next header. Good until the next call of a function that is not const; nothing may be received
  // into it after key_died().
  [[nodiscard]] MutableBytes wants() const noexcept;
  // `n` (at most wants().size()) octets are in wants().
  void placed(std::size_t n, Memory& memory, Events& events) noexcept;

  // The key is dead from now on: of a write in progress under it no further octet is taken before resolve()
  // was asked again. Call it for each key that dies while the connection lives.
  void key_died(std::uint32_t key) noexcept;

  // A message is there and no receive is posted: nothing more is taken. How long this may last is the
  // caller's to decide, who then ends it with fail(Fault::no_receive).
  [[nodiscard]] bool stalled() const noexcept { return stalled_; }
  // May FPDUs be sent? A responder may not before Greeted. Always true for an initiator, whose first FPDU is
  // an empty write (writer.hpp).
  [[nodiscard]] bool may_send() const noexcept { return greeted_; }
  // Nothing more is looked at. An event may still be held back where a list was full.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  // Of the Violated event, or of fail(); none while there was none.
  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  // An end of the connection here cuts off no FPDU and no message.
  [[nodiscard]] bool between_messages() const noexcept;

  // Ends the stream for a reason that the caller found. Makes no event, and an event held back is dropped.
  void fail(Fault fault) noexcept;

 private:
  enum class Phase : std::uint8_t { header, judge, payload, trailer, staging };
  enum class Open : std::uint8_t { none, tagged, untagged };
  // Whether there may be more to do with the octets that are left.
  enum class Step : std::uint8_t { go_on, stop };

  Step step(Bytes& bytes, Memory& memory) noexcept;
  // --- an FPDU of which all octets are there ---
  [[nodiscard]] std::size_t whole_fpdu(Bytes bytes) const noexcept;
  Step take_whole(const std::byte* fpdu, Memory& memory) noexcept;
  // --- an FPDU in pieces, without CRC ---
  Step collect_header(Bytes& bytes) noexcept;
  Step judge_collected(Memory& memory) noexcept;
  Step collect_payload(Bytes& bytes, Memory& memory) noexcept;
  Step collect_trailer(Bytes& bytes, Memory& memory) noexcept;
  Fault resolve_again(Memory& memory) noexcept;
  // --- an FPDU in pieces, with CRC ---
  [[nodiscard]] std::size_t staged_goal() const noexcept;
  Step collect_staged(Bytes& bytes, Memory& memory) noexcept;
  Step staged(std::size_t n, Memory& memory) noexcept;

  // --- stream_judge.cpp ---
  static Fault judge_control(const std::byte* header) noexcept;
  // Judges a header with a good control part, and says where the payload belongs: left_ and place_. Sets
  // stalled_ and changes nothing else where a receive is missing.
  Fault judge(const std::byte* header, Memory& memory) noexcept;
  Fault judge_tagged(const std::byte* header, std::uint32_t n, Memory& memory) noexcept;
  Fault judge_untagged(const std::byte* header, std::uint32_t n, Memory& memory) noexcept;
  Fault judge_continuation(std::uint32_t field, std::uint32_t offset) const noexcept;
  Fault judge_terminate(const std::byte* header, std::uint32_t n) noexcept;
  [[nodiscard]] bool field_matters() const noexcept;
  // The FPDU is whole and, where there is one, its CRC good.
  Fault finish(Memory& memory) noexcept;
  Fault finish_message(Memory& memory, std::optional<Event>& event) noexcept;

  Step violate(Fault fault) noexcept;
  void emit(const Event& event) noexcept;
  void begin(Events& events) noexcept;

  // --- what was agreed ---
  bool crc_;
  bool send_with_immediate_;
  std::uint32_t max_message_;
  std::byte* staging_;

  // --- where the stream is ---
  bool greeted_;
  bool ended_ = false;
  bool stalled_ = false;
  Fault fault_ = Fault::none;
  Phase phase_ = Phase::header;
  unsigned quiet_ = 0;  // FPDUs of this call without an event

  // --- the segment ---
  bool last_ = false;
  bool key_died_ = false;
  Opcode opcode_ = Opcode::write;
  std::uint32_t collected_ = 0;  // octets of the header, the trailer, or the staged FPDU
  std::uint32_t trailer_ = 0;    // octets of padding and CRC
  std::uint32_t left_ = 0;       // payload that is missing
  std::byte* place_ = nullptr;   // of the next octet of payload
  std::array<std::byte, kMaxHeaderBytes> header_;
  std::array<std::byte, kMaxTerminateBytes> small_;  // payload of an immediate or a Terminate message

  // --- the message ---
  Open open_ = Open::none;
  Opcode open_opcode_ = Opcode::write;
  std::uint32_t field_ = 0;   // key of a write; else the four octets that are reserved in a SEND
  std::uint64_t next_ = 0;    // tagged offset behind the segment
  std::uint32_t length_ = 0;  // payload so far, with that of the segment
  std::uint32_t number_;      // of the message that is open or comes next
  MutableBytes receive_{};

  Events* events_ = nullptr;  // during a call
  std::optional<Event> held_;
};

}  // namespace rtrs::iwarp
