// The most recent events of a world, for reports. Adding an entry is cheap; text is formatted on demand.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
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
    if (watch_ && is_fault(entry.kind)) watch_(entry.time, fault_text(entry));
  }
  // Prints a script step without storing it.
  void add_step(Nanos time, const std::string& text);
  void print_all(bool on) noexcept { print_ = on; }
  // Called for each fault, with its text.
  using Watch = std::function<void(Nanos, const std::string&)>;
  void watch_faults(Watch watch) { watch_ = std::move(watch); }
  // A step of the script that causes a fault.
  void add_fault(Nanos time, const std::string& text) {
    if (watch_) watch_(time, text);
  }
  // Returns the last `lines` entries, oldest first, one per line.
  std::string tail(std::size_t lines) const;

 private:
  static constexpr std::size_t kKept = 64;
  static bool is_fault(Kind) noexcept;
  static std::string fault_text(const Entry&);
  static void print(const Entry&);
  std::array<Entry, kKept> ring_{};
  std::uint64_t count_ = 0;
  bool print_ = false;
  Watch watch_;
};
std::string to_text(const Journal::Entry&);
// Formats a time as "12.345678901 s".
std::string to_seconds(Nanos);

}  // namespace rtrs::sim
