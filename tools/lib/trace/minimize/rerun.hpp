// Runs the core of this program again on some of a machine's inputs, in a process of its own, and says how
// that fails: the core stops, breaks one of its invariants, or did what a judge objects to.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "tools/lib/trace/minimize/judges.hpp"
#include "tools/lib/trace/minimize/run_writer.hpp"

namespace rtrs::tools {

struct Failing {
  Inputs inputs;  // those that were fed, up to the failure
  std::string failure;
  std::string seen;
};

class Rerun {
 public:
  static constexpr std::size_t kMaxInputs = 4'000'000;

  // The candidate is written to `path` again and again. `judge` may be empty.
  Rerun(std::string path, Judge judge);
  ~Rerun();
  Rerun(const Rerun&) = delete;
  Rerun& operator=(const Rerun&) = delete;
  bool works() const noexcept { return shared_ != nullptr; }

  std::optional<Failing> run(const MachineTrace&, const Inputs& candidate, const RunOptions& = {});
  // Why the last run could not be judged; empty when it could.
  const std::string& error() const noexcept { return error_; }
  // Of the last run.
  std::uint64_t records() const;
  bool stopped() const noexcept { return stopped_; }  // the core did

 private:
  // Between the processes.
  struct Shared;
  std::uint32_t* fed() const;
  std::uint32_t* record_of() const;
  void child(const MachineTrace&, const Inputs&, const RunOptions&) noexcept;
  std::optional<Failing> judged(Inputs used);
  std::string last_words(int signal) const;

  std::string path_;
  Judge judge_;
  Shared* shared_ = nullptr;
  int stderr_ = -1;  // of the child, a file in memory
  std::string error_;
  bool stopped_ = false;
};

}  // namespace rtrs::tools
