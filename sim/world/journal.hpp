// The most recent events of a world, for reports. Adding an entry is cheap; text is formatted on demand.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "core/proto/ids.hpp"

namespace rtrs::sim {

class Journal {
 public:
  enum class Kind : std::uint8_t {
    submitted,  // a = request, b = sector, c = sectors | direction << 32
    completed,  // a = request, b = Errc, c = errno
    delivered,  // a = request, b = chunk, c = session
    applied,    // a = request
    answered,   // a = request, b = errno
    path,       // a = session << 32 | path, b = PathState, c = Reason
    link,       // a = up
    session,    // a = session, b = opened
    crashed,
    restarted,
    paused,    // a = until
    closing,   // the node's user calls close()
    operated,  // a = operation, b = path
    phase,     // a = number
    struck,    // a = FaultClass, b = until, c = place: way << 48 | connection << 32 | path << 16 | client
  };
  struct Entry {
    Nanos time = 0;
    Kind kind = Kind::phase;
    std::uint32_t node = 0;
    std::uint64_t a = 0, b = 0, c = 0;
  };
  void add(const Entry& entry) {
    ring_[count_++ % kKept] = entry;
    if (print_) print(entry);
  }
  // Prints a script step without storing it.
  void add_step(Nanos time, const std::string& text);
  void print_all(bool on) noexcept { print_ = on; }
  // Returns the last `lines` entries, oldest first, one per line.
  std::string tail(std::size_t lines) const;

 private:
  static constexpr std::size_t kKept = 64;
  static void print(const Entry&);
  std::array<Entry, kKept> ring_{};
  std::uint64_t count_ = 0;
  bool print_ = false;
};
std::string to_text(const Journal::Entry&);
// Formats a time as "12.345678901 s".
std::string to_seconds(Nanos);

}  // namespace rtrs::sim
