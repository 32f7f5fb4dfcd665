// Finds the first step in which a recorded trace differs from what this core does, and shows it with few
// inputs. The core that recorded the trace is not available. Therefore this core executes the steps before
// the difference, which are equal in both cores. The different step is kept as recorded, but with the
// identifiers of the shorter run.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/lib/trace/minimize/run_writer.hpp"

namespace rtrs::tools {

class LastStep {
 public:
  // Searches for the first recorded action that this core would not take. Calls `over` periodically; when it
  // returns true, the search ends and out_of_time() returns true. `over` may be empty.
  explicit LastStep(const MachineTrace&, const std::function<bool()>& over = {});
  ~LastStep();
  LastStep(const LastStep&) = delete;
  LastStep& operator=(const LastStep&) = delete;

  bool differs() const;
  // True if the time limit was reached before all inputs were compared and before a difference was found.
  bool out_of_time() const;
  // Returns the first record whose state hash differs although all actions up to it are equal; nullopt if
  // there is none.
  std::optional<std::uint64_t> hidden_since() const;
  // Returns the kinds of the recorded action and of this core's action, as text.
  std::string failure() const;
  std::string seen() const;
  std::size_t inputs() const;  // number of inputs up to the difference

  struct Candidate {
    Inputs inputs;            // the kept inputs, without impossible ones
    RecordedActions actions;  // actions of the last input, as recorded
  };
  // Runs the inputs `kept`. Returns nullopt unless the last step differs in the same way as in the whole
  // trace. `as`: the trace, possibly with another configuration.
  std::optional<Candidate> attempt(const Inputs& kept, const MachineTrace& as) const;

 private:
  struct Search;
  std::unique_ptr<Search> search_;
};

}  // namespace rtrs::tools
