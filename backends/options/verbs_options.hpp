// Converts FabricOptions to VerbsOptions, for builds that have the verbs fabric.
#pragma once
#include "backends/options/connection.hpp"
#include "backends/verbs/verbs.hpp"

namespace rtrs::options {

inline verbs::VerbsOptions verbs_options(const FabricOptions& options) {
  using verbs::Invalidation, verbs::Posting;
  const std::string& invalidation = options.invalidation;
  verbs::VerbsOptions made;
  made.device = options.device;
  made.invalidation = invalidation == "windows"        ? Invalidation::windows
                      : invalidation == "registration" ? Invalidation::registration
                      : invalidation == "off"          ? Invalidation::off
                                                       : Invalidation::automatic;
  made.retry_count = static_cast<std::uint8_t>(options.retry_count);
  made.ack_timeout = static_cast<std::uint8_t>(options.ack_timeout);
  made.tos = static_cast<std::uint8_t>(options.tos);
  made.relaxed_ordering = options.relaxed_ordering;
  made.thread_domains = options.thread_domains;
  made.posting = options.post == "auto" ? Posting::automatic
                 : options.post == "wr" ? Posting::calls
                                        : Posting::send;
  return made;
}

}  // namespace rtrs::options
