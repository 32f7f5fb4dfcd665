// Stages of a request, and the time that it spent in each.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace rtrs::trace {

enum class Stage : std::uint8_t {
  queue,       // client: not sent, or its path was lost
  wire_out,    // sent, not arrived
  server,      // at the server, not in storage
  storage,     // storage has it
  wire_back,   // answered, not arrived
  sent,        // sent and not answered; the trace of one side does not tell where it was
  completion,  // client: the response has arrived
};
inline constexpr unsigned kStageCount = 7;

constexpr const char* to_string(Stage stage) noexcept {  // one word
  constexpr const char* kNames[kStageCount] = {"client_queue", "wire_out", "server",    "storage",
                                               "wire_back",    "sent",     "completion"};
  return kNames[static_cast<unsigned>(stage)];
}
constexpr const char* name_of(Stage stage) noexcept {  // for a text
  constexpr const char* kNames[kStageCount] = {"client queue", "wire out", "server",    "storage",
                                               "wire back",    "sent",     "completion"};
  return kNames[static_cast<unsigned>(stage)];
}

struct StageTimes {
  std::array<std::uint64_t, kStageCount> ns{};
  std::uint64_t& operator[](Stage stage) noexcept { return ns[static_cast<unsigned>(stage)]; }
  std::uint64_t operator[](Stage stage) const noexcept { return ns[static_cast<unsigned>(stage)]; }
  Stage longest() const noexcept {
    return static_cast<Stage>(std::max_element(ns.begin(), ns.end()) - ns.begin());
  }
};

}  // namespace rtrs::trace
