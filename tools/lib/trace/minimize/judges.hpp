// A judge looks for a failure in a trace. Its failure text contains no details that differ between runs, so
// that the text stays the same while the trace gets shorter.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "tools/lib/trace/hangs/unanswered.hpp"

namespace rtrs::tools {

struct Fault {
  std::string failure;           // failure, without details that differ between runs
  std::uint64_t record = kLast;  // record of the failure; later records do not matter
  static constexpr std::uint64_t kLast = ~std::uint64_t{0};
  std::string seen;         // details of the failure, as text
  std::uint64_t count = 1;  // number of violations
};
// Judges the trace at `path`. Returns nullopt if it has no failure. The error says why it cannot be judged.
using Judge = std::function<tl::expected<std::optional<Fault>, std::string>(const std::string& path)>;

// Finds the first violated rule of the specification (docs/conformance.md).
Judge judge_by_check();
// Finds the first difference between the trace and a replay of it by `command`, another build of
// urtrs-replay.
Judge judge_by_reference(std::string command);
// A trace fails if the shell command `command` exits with 0. The path of the trace replaces "{}" in the
// command, or is appended if there is no "{}". A command that still runs after `seconds` is killed with its
// process group, and judging fails.
Judge judge_by_command(std::string command, double seconds);
// A trace fails if it contains records that match the marks, in this order. A mark is EVENT or EVENT
// FIELD=VALUE..., as printed by `urtrs-replay cat`.
Judge judge_by_marks(std::vector<std::string> marks);

// Requests that judge_by_unanswered() accepts. Empty fields accept any.
struct HangWanted {
  std::uint64_t hang_after = trace::kHangAfter;  // in ns
  std::optional<bool> reads;
  std::optional<std::uint32_t> bytes;
};
// A trace fails if a request is unanswered at its end.
Judge judge_by_unanswered(HangWanted wanted);

// Returns the path quoted for a shell command.
std::string quoted(const std::string& path);

}  // namespace rtrs::tools
