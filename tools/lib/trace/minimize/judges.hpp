// What is wrong with a trace, said in words that stay the same while the trace gets shorter.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace rtrs::tools {

struct Fault {
  std::string failure;           // what it is, without what changes from run to run
  std::uint64_t record = kLast;  // nothing behind this one matters
  static constexpr std::uint64_t kLast = ~std::uint64_t{0};
  std::string seen;         // more of it, in words
  std::uint64_t count = 1;  // of things that are wrong
};
// Of the trace at `path`. Nothing when it is sound; the error is why there is no judgement at all.
using Judge = std::function<tl::expected<std::optional<Fault>, std::string>(const std::string& path)>;

// The first rule of the specification that it breaks (docs/conformance.md).
Judge judge_by_check();
// The first difference between it and what `command`, another build of urtrs-replay, does on its inputs.
Judge judge_by_reference(std::string command);
// Fails when the shell says that `command` ends with 0; {} in it stands for the path, which otherwise
// follows. `seconds` from now on what runs of it, with its process group, is killed, and nothing is judged.
Judge judge_by_command(std::string command, double seconds);
// Fails when it has records of these kinds in this order: EVENT, or EVENT FIELD=VALUE..., as `cat` prints
// them.
Judge judge_by_marks(std::vector<std::string> marks);

// In a command of the shell.
std::string quoted(const std::string& path);

}  // namespace rtrs::tools
