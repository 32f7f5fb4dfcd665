// Turns the bytes of one direction of an iWARP connection into messages. core/iwarp decodes each FPDU; this
// class finds FPDUs, also after bytes that the capture lacks.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/iwarp/greeting.hpp"
#include "core/iwarp/stream.hpp"
#include "tools/lib/trace/iwarp/reassembly.hpp"
#include "tools/lib/trace/roce/message.hpp"

namespace rtrs::iwarp_capture {

class MessageReader final : iwarp::Memory {
 public:
  struct Sink {
    // `end`: position after the message.
    std::function<void(Position end, roce::Message&&)> message;
    // Messages are missing since the message before, or since the beginning.
    std::function<void()> gap;
  };
  // `start`: position of the first byte.
  MessageReader(Position start, const iwarp::Wishes& agreed, Sink sink);

  void bytes(Bytes bytes);
  void lost(std::uint64_t count);
  // Reports a gap if bytes were lost since the last message.
  void report_loss();
  // Reports a gap here, although its bytes may follow.
  void report_hole() { unsure_ = true, report_loss(); }
  // Reports what is known. Call after the last piece, or before others learn that the connection ends.
  void pause();
  // Call after the last piece, before skipped().
  void finish();

  // Fault of the peer, after which nothing is decoded; Fault::none if there is none.
  [[nodiscard]] iwarp::Fault fault() const noexcept { return fault_; }
  // Number of bytes that were not decoded, because they follow a fault, or because no FPDU was found after
  // lost bytes.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }

 private:
  // Messages that are dropped after lost bytes, because their beginning may be missing.
  enum class Drop : std::uint8_t {
    none,
    send_rest,  // the remaining segments of a SEND
    unclear,    // all until a SEND begins or an immediate ends the message that may have lost its data
  };
  enum class State : std::uint8_t { reading, seeking, stopped };

  iwarp::Fault resolve(std::uint32_t key, std::uint64_t to, std::size_t n,
                       iwarp::MutableBytes& place) noexcept override;
  std::optional<iwarp::MutableBytes> take_receive() noexcept override;
  iwarp::Fault invalidate(std::uint32_t) noexcept override { return iwarp::Fault::none; }

  [[nodiscard]] iwarp::Stream new_stream(std::uint32_t first_number) const noexcept;
  [[nodiscard]] std::size_t size_of_fpdu() const noexcept;
  void read(Bytes& bytes);
  // `before`: start of the last piece. Messages that end before it are dropped: messages of the other
  // direction that followed them have been reported.
  void seek(Position before);
  [[nodiscard]] bool begins_fpdu(Bytes bytes, std::size_t size);
  void take(Bytes fpdu);
  [[nodiscard]] bool drops(Bytes fpdu) noexcept;
  void end_damaged();
  void interrupt(Drop drop);
  void deliver(Position end, roce::Message&& message);
  void stop();
  void on(const iwarp::Event& event);
  void flush();

  Sink sink_;
  iwarp::Wishes agreed_;
  State state_ = State::reading;
  Drop drop_ = Drop::none;
  Position start_;
  Position next_;                // position after the last byte that was given to this object
  Position end_;                 // position after the last FPDU
  std::vector<std::byte> fpdu_;  // first bytes of the FPDU; while seeking, all bytes that may contain one
  bool damaged_ = false;         // bytes of the FPDU were lost
  std::uint64_t ignored_ = 0;    // number of bytes of a damaged FPDU after those in `fpdu_`
  std::unique_ptr<std::byte[]> staging_;  // only with CRC; the stream needs it, but gets whole FPDUs
  iwarp::Stream stream_;
  iwarp::Fault fault_ = iwarp::Fault::none;
  std::optional<std::uint32_t> number_;  // sequence number of the next message; nullopt after lost bytes
  std::uint32_t last_number_ = 0;        // last known sequence number
  std::unique_ptr<std::byte[]> receive_;
  std::optional<roce::Message> open_;  // a write whose last segment has not arrived
  std::optional<roce::Message> held_;  // a write that may be followed by its immediate
  Position held_end_ = 0;
  std::uint64_t skipped_ = 0;
  Position late_until_ = 0;
  bool unsure_ = false;      // a gap has to be reported before the next message
  std::uint64_t tried_ = 0;  // number of bytes of FPDUs whose CRC was computed while seeking
};

}  // namespace rtrs::iwarp_capture
