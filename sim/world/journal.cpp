#include "sim/world/journal.hpp"

#include <algorithm>
#include <cstdio>

#include "core/proto/actions.hpp"
#include "core/proto/errc.hpp"
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

std::string to_seconds(Nanos time) {
  char text[48];
  std::snprintf(text, sizeof text, "%llu.%09llu s", static_cast<unsigned long long>(time / seconds(1)),
                static_cast<unsigned long long>(time % seconds(1)));
  return text;
}

namespace {

// Formats a packed place, see Journal::Kind::struck; 0xffff: any.
std::string place_text(std::uint64_t place) {
  const auto part = [place](unsigned shift) { return static_cast<unsigned>(place >> shift & 0xffff); };
  std::string text;
  if (part(0) != 0xffff) text += " of client " + std::to_string(part(0));
  if (part(16) != 0xffff) text += " path " + std::to_string(part(16));
  if (part(32) != 0xffff) text += " connection " + std::to_string(part(32));
  if (part(48) == 1) text += ", to the server";
  if (part(48) == 2) text += ", to the client";
  return text;
}

std::string struck(const Journal::Entry& entry) {
  std::string text =
      std::string("fault ") + to_string(static_cast<FaultClass>(entry.a)) + place_text(entry.c);
  if (entry.b != 0) text += ", until " + to_seconds(entry.b);
  return text;
}

std::string described(const Journal::Entry& entry) {
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  switch (entry.kind) {
    case Journal::Kind::submitted:
      return std::string(entry.c >> 32 != 0 ? "write " : "read ") + number(entry.a) + " of sectors " +
             number(entry.b) + "+" + number(entry.c & 0xffffffff);
    case Journal::Kind::completed:
      return "request " + number(entry.a) + " over: " + to_string(static_cast<Errc>(entry.b)) + ", errno " +
             number(entry.c);
    case Journal::Kind::delivered:
      return "request " + number(entry.a) + " reached storage, chunk " + number(entry.b) + " of session " +
             number(entry.c);
    case Journal::Kind::applied:
      return "request " + number(entry.a) + " took effect";
    case Journal::Kind::answered:
      return "request " + number(entry.a) + " answered, errno " + number(entry.b);
    case Journal::Kind::path:
      return "session " + number(entry.a >> 32) + " path " + number(entry.a & 0xffffffff) + " " +
             to_string(static_cast<PathState>(entry.b)) + " (" + to_string(static_cast<Reason>(entry.c)) +
             ")";
    case Journal::Kind::link:
      return entry.a != 0 ? "link up" : "link down";
    case Journal::Kind::session:
      return "session " + number(entry.a) + (entry.b != 0 ? " opened" : " closed");
    case Journal::Kind::crashed:
      return "crashed";
    case Journal::Kind::restarted:
      return "restarted";
    case Journal::Kind::paused:
      return "paused until " + to_seconds(entry.a);
    case Journal::Kind::closing:
      return "is requested to close";
    case Journal::Kind::operated: {
      constexpr std::uint64_t kRecovers = 6;
      if (entry.a == kRecovers) return "operator recovers the session";
      constexpr const char* kNames[] = {"disconnects", "reconnects",        "removes",
                                        "adds",        "changes policy of", "disconnects at the server"};
      return std::string("operator ") + kNames[std::min<std::uint64_t>(entry.a, 5)] + " path " +
             number(entry.b);
    }
    case Journal::Kind::phase: {
      constexpr const char* kNames[] = {"start", "faults begin", "all healed", "probe", "close", "end"};
      return std::string("phase: ") + kNames[std::min<std::uint64_t>(entry.a, 5)];
    }
    case Journal::Kind::struck:
      return struck(entry);
  }
  return "";
}

}  // namespace

bool Journal::is_fault(Kind kind) noexcept {
  return kind == Kind::crashed || kind == Kind::restarted || kind == Kind::paused || kind == Kind::operated ||
         kind == Kind::struck;
}

std::string Journal::fault_text(const Entry& entry) {
  if (entry.node == kNone || entry.kind == Kind::struck) return described(entry);
  return (entry.node == 0 ? "server " : "client " + std::to_string(entry.node) + ' ') + described(entry);
}

std::string to_text(const Journal::Entry& entry) {
  std::string who = entry.node == 0 ? "server  " : "client " + std::to_string(entry.node);
  if (entry.node == kNone) who = "network ";
  return to_seconds(entry.time) + "  " + who + "  " + described(entry);
}

std::string Journal::tail(std::size_t lines) const {
  std::string text;
  const std::uint64_t kept = std::min<std::uint64_t>({count_, kKept, lines});
  for (std::uint64_t at = count_ - kept; at < count_; ++at) text += "  " + to_text(ring_[at % kKept]) + "\n";
  return text;
}

void Journal::add_step(Nanos time, const std::string& text) {
  if (print_) std::printf("%s  script    %s\n", to_seconds(time).c_str(), text.c_str());
}

void Journal::print(const Entry& entry) {
  std::printf("%s\n", to_text(entry).c_str());
}

}  // namespace rtrs::sim
