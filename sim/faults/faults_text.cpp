// Texts for faults.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

const char* to_string(FaultClass c) noexcept {
  static constexpr auto kNames = std::to_array<const char*>({"cut_both",
                                                             "cut_one_way",
                                                             "cut_port",
                                                             "break_qp",
                                                             "break_path",
                                                             "starve",
                                                             "latency",
                                                             "crash",
                                                             "crash_orderly",
                                                             "pause",
                                                             "flap",
                                                             "qp_error_at_step",
                                                             "request_lost_or_late",
                                                             "reply_lost_or_late",
                                                             "reject_lost_or_late",
                                                             "disconnect_lost_or_late",
                                                             "info_cut",
                                                             "torn_writes",
                                                             "ghosts",
                                                             "slow_drain",
                                                             "black_hole",
                                                             "device_gone",
                                                             "resource_short",
                                                             "resolve_failed",
                                                             "accept_failed",
                                                             "post_short",
                                                             "crowd",
                                                             "hang",
                                                             "blackout"});
  static_assert(kNames.size() == kFaultClasses);
  const auto index = static_cast<std::size_t>(c);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string FaultOptions::describe() const {
  std::string text;
  for (unsigned i = 0; i < kFaultClasses; ++i) {
    if (weight[i] == 0) continue;
    text += std::string(text.empty() ? "" : " ") + to_string(static_cast<FaultClass>(i)) + "=" +
            std::to_string(weight[i]);
  }
  if (text.empty()) text = "none";
  if (pause_factor > 1) text += " pauses " + std::to_string(pause_factor) + " times as long";
  if (bias > 1) text += " bias=" + std::to_string(bias);
  return text + " budget=" + (budget == kUnlimited ? "unlimited" : std::to_string(budget));
}

}  // namespace rtrs::sim
