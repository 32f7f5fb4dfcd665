// Merges the wire notes of several traces of one run: pairs the two ends of each connection, aligns the
// clocks of different hosts, and puts each received message after its send.
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

// A copy of one wire note.
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
  Nanos time = 0;                // time at which the note's step began, on the clock of the recording
  Nanos until = 0;               // time at which the next step began; the event happened earlier
  std::vector<std::byte> bytes;  // head of a message, or private data of a CM message
};

// One end of a connection, from one trace.
struct Half {
  std::uint32_t file = 0;
  bool client = false;
  std::uint32_t connection = 0;
  std::vector<std::byte> request;  // CON_REQ; empty if the trace begins later
  ConKey key;
  std::vector<std::uint32_t> notes;  // indices into the file's notes
};

struct ConnectionEnds {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t client = kNone;  // index in halves(); kNone: not recorded
  std::uint32_t server = kNone;
};

class Recordings {
 public:
  // Reads the records of an opened trace. Returns the final status of the reader; ok if the notes of all
  // traces would take more than `most` bytes of memory, so that not all were read.
  trace::Reader::Status add(trace::Reader& reader, std::uint64_t most = kNever);
  // Pairs the connections of all traces and aligns the clocks. Call once, after the last add().
  void join();

  // A note in the merged order. `time` is on the clock of the first trace.
  struct Told {
    Nanos time = 0;
    const StoredNote* note = nullptr;
  };
  // Returns all notes. The order within each file is kept, and each received message is after its send.
  [[nodiscard]] std::vector<Told> story() const;

  [[nodiscard]] const std::vector<Half>& halves() const noexcept { return halves_; }
  [[nodiscard]] const std::vector<ConnectionEnds>& connections() const noexcept { return connections_; }
  [[nodiscard]] std::uint64_t notes() const noexcept;
  // Number of connections for which both ends were recorded.
  [[nodiscard]] std::uint64_t paired() const noexcept;
  // Number of pairs of traces whose clocks drift too much to be aligned: with any offset, some message would
  // arrive before its send, even if it arrived at the end of its step.
  [[nodiscard]] std::uint64_t drifting() const noexcept { return drifting_; }

 private:
  struct File {
    std::vector<StoredNote> notes;
    std::int64_t offset = 0;  // ns to add to the times of the file
    bool placed = false;
  };
  // The sent note that belongs to a received note: file and index.
  struct Origin {
    std::uint32_t file = ConnectionEnds::kNone;
    std::uint32_t index = 0;
  };
  // Bounds of the offset to add to the times of the second file of a pair, in ns.
  struct Bounds {
    std::int64_t low = kNoBound;
    std::int64_t high = -kNoBound;
    [[nodiscard]] bool hold() const noexcept { return low <= high; }
    [[nodiscard]] std::int64_t best() const noexcept;
    static constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::min() / 4;
  };
  // Bounds for a pair of traces. `exact` is computed from StoredNote::time, `loose` from StoredNote::until of
  // the received notes.
  struct PairBounds {
    Bounds exact;
    Bounds loose;
  };
  using HalfKey = std::tuple<std::uint32_t, InstanceId, ConKey>;

  std::uint32_t half_of(InstanceId instance, const StoredNote& note, const ConKey& key);
  [[nodiscard]] std::int64_t matching_messages(const Half& from, const Half& to) const;
  void pair_halves();
  void match(const Half& from, const Half& to);
  void align();
  [[nodiscard]] Nanos adjusted(std::uint32_t file, Nanos time) const noexcept;

  std::vector<File> files_;
  std::vector<Half> halves_;
  std::map<HalfKey, std::uint32_t> open_;
  std::vector<ConnectionEnds> connections_;
  std::vector<std::vector<Origin>> origins_;  // indexed by file and note
  std::map<std::pair<std::uint32_t, std::uint32_t>, PairBounds> bounds_;
  std::uint64_t drifting_ = 0;
  std::uint64_t held_ = 0;  // bytes of memory for notes
};

}  // namespace rtrs::roce
