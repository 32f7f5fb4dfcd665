// Reruns the core of this program on some inputs of a state machine, in a separate process. A run fails if
// the core crashes or breaks an invariant, or if a judge rejects the trace of the run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "tools/lib/trace/minimize/judges.hpp"
#include "tools/lib/trace/minimize/run_writer.hpp"

namespace rtrs::tools {

struct Failing {
  Inputs inputs;  // executed inputs, up to the failure
  std::string failure;
  std::string seen;
};

class Rerun {
 public:
  static constexpr std::size_t kMaxInputs = 4'000'000;

  // Each run writes its trace to `path`. `judge` may be empty.
  Rerun(std::string path, Judge judge);
  ~Rerun();
  Rerun(const Rerun&) = delete;
  Rerun& operator=(const Rerun&) = delete;
  bool works() const noexcept { return shared_ != nullptr; }

  std::optional<Failing> run(const MachineTrace&, const Inputs& candidate, const RunOptions& = {});
  // Reason why the last run could not be judged; empty if it was judged.
  const std::string& error() const noexcept { return error_; }
  // Number of records of the last run.
  std::uint64_t records() const;
  bool stopped() const noexcept { return stopped_; }  // the core crashed in the last run

 private:
  // Shared memory of the two processes.
  struct Shared;
  std::uint32_t* fed() const;
  std::uint32_t* record_of() const;
  void child(const MachineTrace&, const Inputs&, const RunOptions&) noexcept;
  std::optional<Failing> judged(Inputs used);
  std::string last_words(int signal) const;

  std::string path_;
  Judge judge_;
  Shared* shared_ = nullptr;
  int stderr_ = -1;  // in-memory file for stderr of the child
  std::string error_;
  bool stopped_ = false;
};

}  // namespace rtrs::tools
