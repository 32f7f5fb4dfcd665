// Options of long-running programs (urtrsd and the nbdkit plugin): traces and the control socket.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "backends/options/option.hpp"
#include "core/record/recorder.hpp"

namespace rtrs::options {

// An empty text means that the option is unset. The rows below describe the values.
struct ProcessOptions {
  std::string trace, trace_detail = "machines", trace_dump, control = "auto", control_group;
  std::uint64_t trace_size = 0;  // size in bytes at which the next trace file begins; 0: never
  std::uint32_t trace_files = 4;
  bool operator==(const ProcessOptions&) const = default;

  trace::FileOptions file_options() const {
    const auto detail = trace_detail == "wire"      ? trace::Detail::wire
                        : trace_detail == "payload" ? trace::Detail::payload
                                                    : trace::Detail::machines;
    return {
        .detail = detail, .flush_every = seconds(1), .rotate_bytes = trace_size, .rotate_files = trace_files};
  }
};

inline constexpr Rule kTraceSize = [] {
  Rule rule = mebibytes(1 << 20, std::int64_t{1} << 40);
  rule.or_zero = true;
  return rule;
}();

// `Target` is derived from ProcessOptions.
template <class Target>
constexpr std::array<Option<Target*>, 7> kProcessOptions{
    Option<Target*>{{"trace", file_or_empty(), "", "record the protocol for urtrs-replay"},
                    [](Target* const& at) { return &at->trace; }},
    Option<Target*>{{"trace_detail", words("machines|wire|payload"), "machines",
                     "also record messages (wire), with their data (payload)"},
                    [](Target* const& at) { return &at->trace_detail; }},
    Option<Target*>{{"trace_size", kTraceSize, "", "start the next file at this size, e.g. 64M; 0: never"},
                    [](Target* const& at) { return &at->trace_size; }},
    Option<Target*>{
        {"trace_files", number(1, 1000), "4", "number of files to keep: FILE, FILE.1, FILE.2 ..."},
        [](Target* const& at) { return &at->trace_files; }},
    Option<Target*>{
        {"trace_dump", file_or_empty(), "",
         "write the last records here if an error closes a path, and on SIGUSR1; without this option SIGUSR1 "
         "writes urtrsd-PID.rtrc or nbdkit-urtrs-PID.rtrc in the directory of the start"},
        [](Target* const& at) { return &at->trace_dump; }},
    Option<Target*>{
        {"control", file_or_empty(), "auto",
         "socket for the command urtrs, which shows and changes this program at run time; auto: "
         "urtrsd-PID.sock or client-PID.sock in $URTRS_RUNTIME_DIR, else /run/urtrs for root, else "
         "$XDG_RUNTIME_DIR/urtrs, else /tmp/urtrs-UID; empty: none"},
        [](Target* const& at) { return &at->control; }},
    Option<Target*>{{"control_group", text("GROUP"), "",
                     "group whose members may use the control socket; unset: that of the process"},
                    [](Target* const& at) { return &at->control_group; }},
};

}  // namespace rtrs::options
