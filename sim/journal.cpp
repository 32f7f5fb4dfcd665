#include "sim/journal.hpp"

#include <algorithm>
#include <cstdio>

#include "core/proto/actions.hpp"
#include "core/proto/errc.hpp"

namespace rtrs::sim {

std::string to_seconds(Nanos time) {
  char text[48];
  std::snprintf(text, sizeof text, "%llu.%09llu s", static_cast<unsigned long long>(time / seconds(1)),
                static_cast<unsigned long long>(time % seconds(1)));
  return text;
}

namespace {

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
    case Journal::Kind::operated: {
      constexpr const char* kNames[] = {"disconnects", "reconnects",        "removes",
                                        "adds",        "changes policy of", "disconnects at the server"};
      return std::string("operator ") + kNames[std::min<std::uint64_t>(entry.a, 5)] + " path " +
             number(entry.b);
    }
    case Journal::Kind::phase: {
      constexpr const char* kNames[] = {"start", "faults begin", "all healed", "probe", "close", "end"};
      return std::string("phase: ") + kNames[std::min<std::uint64_t>(entry.a, 5)];
    }
  }
  return "";
}

}  // namespace

std::string to_text(const Journal::Entry& entry) {
  const std::string who = entry.node == 0 ? "server  " : "client " + std::to_string(entry.node);
  return to_seconds(entry.time) + "  " + who + "  " + described(entry);
}

std::string Journal::tail(std::size_t lines) const {
  std::string text;
  const std::uint64_t kept = std::min<std::uint64_t>({count_, kKept, lines});
  for (std::uint64_t at = count_ - kept; at < count_; ++at) text += "  " + to_text(ring_[at % kKept]) + "\n";
  return text;
}

void Journal::print(const Entry& entry) {
  std::printf("%s\n", to_text(entry).c_str());
}

}  // namespace rtrs::sim
