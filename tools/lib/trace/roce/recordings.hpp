// The wire notes of several traces, which belong to one run, as one story: the two ends of each connection
// found, clocks of different machines aligned, and every message told after it was sent.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/wire_reader.hpp"

namespace rtrs::roce {

// One wire note, on its own.
struct StoredNote {
  enum class Kind : std::uint8_t { sent, received, cm };
  Kind kind = Kind::sent;
  trace::WireOp op = trace::WireOp::write;
  bool has_imm = false;
  trace::WireCmKind cm = trace::WireCmKind::req;
  bool cm_sent = false;
  std::uint32_t half = 0;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t remote_addr = 0;
  std::uint64_t digest = 0;
  Nanos time = 0;                // of the recording's clock, when the step began that it belongs to
  Nanos until = 0;               // when the step after it began: it happened before
  std::vector<std::byte> bytes;  // head, or private data
};

// One end of a connection as one trace has it.
struct Half {
  std::uint32_t file = 0;
  bool client = false;
  std::uint32_t connection = 0;
  std::vector<std::byte> request;  // CON_REQ; empty when the trace begins later
  ConKey key;
  std::vector<std::uint32_t> notes;  // indices into the file's notes
};

struct ConnectionEnds {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t client = kNone;  // index of the half
  std::uint32_t server = kNone;
};

class Recordings {
 public:
  // Reads the rest of an opened trace. The status that ended it.
  trace::Reader::Status add(trace::Reader& reader);
  // After the last add().
  void join();

  // A note in its turn; `time` is on the clock of the first trace.
  struct Told {
    Nanos time = 0;
    const StoredNote* note = nullptr;
  };
  // Notes of each file in their order, and each received one after the one that was sent.
  [[nodiscard]] std::vector<Told> story() const;

  [[nodiscard]] const std::vector<Half>& halves() const noexcept { return halves_; }
  [[nodiscard]] const std::vector<ConnectionEnds>& connections() const noexcept { return connections_; }
  [[nodiscard]] std::uint64_t notes() const noexcept;
  // Connections of which both ends were found.
  [[nodiscard]] std::uint64_t paired() const noexcept;
  // Pairs of traces whose clocks run so differently that some message arrives before it was sent, also when
  // the length of the step is taken into account in which it arrived.
  [[nodiscard]] std::uint64_t drifting() const noexcept { return drifting_; }

 private:
  struct File {
    std::vector<StoredNote> notes;
    std::int64_t offset = 0;  // what to add to its times
    bool placed = false;
  };
  // Where the note was sent that this one received: file and index.
  struct Origin {
    std::uint32_t file = ConnectionEnds::kNone;
    std::uint32_t index = 0;
  };
  // Of what is to be added to the times of the second file of a pair.
  struct Bounds {
    std::int64_t low = kNoBound;
    std::int64_t high = -kNoBound;
    [[nodiscard]] bool hold() const noexcept { return low <= high; }
    [[nodiscard]] std::int64_t best() const noexcept;
    static constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::min() / 4;
  };
  // By the times as they stand, and by when it happened at the latest.
  struct PairBounds {
    Bounds exact;
    Bounds loose;
  };
  using HalfKey = std::tuple<std::uint32_t, InstanceId, ConKey>;

  std::uint32_t half_of(InstanceId instance, const StoredNote& note, const ConKey& key);
  [[nodiscard]] std::int64_t heard_of(const Half& from, const Half& to) const;
  void pair_halves();
  void match(const Half& from, const Half& to);
  void align();
  [[nodiscard]] Nanos adjusted(std::uint32_t file, Nanos time) const noexcept;

  std::vector<File> files_;
  std::vector<Half> halves_;
  std::map<HalfKey, std::uint32_t> open_;
  std::vector<ConnectionEnds> connections_;
  std::vector<std::vector<Origin>> origins_;  // by file and note
  std::map<std::pair<std::uint32_t, std::uint32_t>, PairBounds> bounds_;
  std::uint64_t drifting_ = 0;
};

}  // namespace rtrs::roce
