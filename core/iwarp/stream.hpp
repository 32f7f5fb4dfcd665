// The receiving half of a connection after the MPA greeting: consumes bytes, reports events. docs/iwarp.md
// lists the checks, their order and the Terminate code of each.
//
// Invariant: the same bytes give the same events and the same memory contents. The sizes of the pieces, the
// choice of feed() or placed(), and the size of the caller's event list make no difference.
//
// A value of about 300 bytes; no allocation, clock or threads. Not thread-safe.
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

// Without CRC, payload is written to its destination as it arrives. With CRC, the stream checks the CRC
// before it looks at anything but the length, and places no data before the check.
class Stream {
 public:
  struct Options {
    Role role = Role::responder;
    bool crc = false;                  // CRC was agreed
    bool send_with_immediate = false;  // was agreed; if off, the opcode is a plain SEND with Solicited Event
    std::uint32_t max_message = 16U << 20;  // maximum payload of one message in bytes, tagged or not
    // With CRC: at least kMaxFpduBytes of the caller's memory, for FPDUs that arrive in pieces. Must outlive
    // the stream. Not used without CRC.
    MutableBytes staging{};
    std::uint32_t first_number = kFirstNumber;  // sequence number of the peer's first message
  };

  explicit Stream(const Options&) noexcept;

  // Consumes a prefix of the next bytes and returns its length. The caller offers the rest again, followed by
  // newly arrived bytes. Consumes less than everything if
  //   - `events` is full: call again with an empty list, even without bytes left, because one event may be
  //     held back;
  //   - stalled(): call again after a receive was posted;
  //   - kQuietFpdus FPDUs without an event (empty writes, segments) were consumed: call again in the next
  //   poll.
  // After a violation, a Terminate message or fail(), everything is consumed and dropped. The cost of a call
  // is that of the consumed bytes plus, with CRC, one CRC over an FPDU.
  std::size_t feed(Bytes bytes, Memory& memory, Events& events) noexcept;
  static constexpr unsigned kQuietFpdus = 256;

  // Destination of the next bytes of the wire, if they may be received directly into place: payload, or with
  // CRC anything that is staged. Receive any number of bytes at its front, then call placed(). Use feed() if
  // the returned range is empty. The range ends with the payload of the segment (with CRC: with the FPDU) and
  // never reaches into the next header. Valid until the next call of a non-const function. Receive nothing
  // into it after key_died().
  [[nodiscard]] MutableBytes wants() const noexcept;
  // Reports that `n` bytes (at most wants().size()) were received into wants().
  void placed(std::size_t n, Memory& memory, Events& events) noexcept;

  // Reports that the key is invalid from now on. A write in progress with this key calls resolve() again
  // before its next byte. Call it for each key that is invalidated while the connection is open.
  void key_died(std::uint32_t key) noexcept;

  // True if a message has arrived and no receive is posted; nothing more is consumed then. The caller sets
  // the timeout and ends the stall with fail(Fault::no_receive).
  [[nodiscard]] bool stalled() const noexcept { return stalled_; }
  // True if FPDUs may be sent. A responder must wait for `Greeted`. Always true for an initiator, whose first
  // FPDU is an empty write (writer.hpp).
  [[nodiscard]] bool may_send() const noexcept { return greeted_; }
  // True if further input is ignored. An event may still be held back if a list was full.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  // Fault of the `Violated` event or of fail(); Fault::none before either.
  [[nodiscard]] Fault fault() const noexcept { return fault_; }
  // True if closing the connection at this point truncates no FPDU and no message.
  [[nodiscard]] bool between_messages() const noexcept;

  // Ends the stream because of a fault that the caller detected. Reports no event, and drops an event that is
  // held back.
  void fail(Fault fault) noexcept;

 private:
  enum class Phase : std::uint8_t { header, judge, payload, trailer, staging };
  enum class Open : std::uint8_t { none, tagged, untagged };
  // Tells whether to process the remaining bytes.
  enum class Step : std::uint8_t { go_on, stop };

  Step step(Bytes& bytes, Memory& memory) noexcept;
  // --- an FPDU that has arrived completely ---
  [[nodiscard]] std::size_t whole_fpdu(Bytes bytes) const noexcept;
  Step process_fpdu(const std::byte* fpdu, Memory& memory) noexcept;
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

  // --- checks of received headers, defined in stream_judge.cpp ---
  static Fault judge_control(const std::byte* header) noexcept;
  // Checks a header with a valid control part and sets left_ and place_, the destination of the payload. If a
  // receive is missing, sets stalled_ and changes nothing else.
  Fault judge(const std::byte* header, Memory& memory) noexcept;
  Fault judge_tagged(const std::byte* header, std::uint32_t n, Memory& memory) noexcept;
  Fault judge_untagged(const std::byte* header, std::uint32_t n, Memory& memory) noexcept;
  Fault judge_continuation(std::uint32_t field, std::uint32_t offset) const noexcept;
  Fault judge_terminate(const std::byte* header, std::uint32_t n) noexcept;
  [[nodiscard]] bool field_matters() const noexcept;
  // Precondition: the FPDU is complete and its CRC, if any, is correct.
  Fault finish(Memory& memory) noexcept;
  Fault finish_message(Memory& memory, std::optional<Event>& event) noexcept;

  Step violate(Fault fault) noexcept;
  void emit(const Event& event) noexcept;
  void begin(Events& events) noexcept;

  // --- agreed options ---
  bool crc_;
  bool send_with_immediate_;
  std::uint32_t max_message_;
  std::byte* staging_;

  // --- state of the stream ---
  bool greeted_;
  bool ended_ = false;
  bool stalled_ = false;
  Fault fault_ = Fault::none;
  Phase phase_ = Phase::header;
  unsigned quiet_ = 0;  // number of FPDUs in this call that caused no event

  // --- the segment ---
  bool last_ = false;
  bool key_died_ = false;
  Opcode opcode_ = Opcode::write;
  std::uint32_t collected_ = 0;  // collected bytes of the header, the trailer, or the staged FPDU
  std::uint32_t trailer_ = 0;    // size of padding and CRC in bytes
  std::uint32_t left_ = 0;       // missing payload bytes
  std::byte* place_ = nullptr;   // destination of the next payload byte
  std::array<std::byte, kMaxHeaderBytes> header_;
  std::array<std::byte, kMaxTerminateBytes> small_;  // payload of an immediate or a Terminate message

  // --- the message ---
  Open open_ = Open::none;
  Opcode open_opcode_ = Opcode::write;
  std::uint32_t field_ = 0;   // key of a write; else the four bytes that are reserved in a SEND
  std::uint64_t next_ = 0;    // tagged offset after the segment
  std::uint32_t length_ = 0;  // payload bytes so far, including this segment
  std::uint32_t number_;      // sequence number of the open message; if none is open, of the next message
  MutableBytes receive_{};

  Events* events_ = nullptr;  // set during a call
  std::optional<Event> held_;
};

}  // namespace rtrs::iwarp
