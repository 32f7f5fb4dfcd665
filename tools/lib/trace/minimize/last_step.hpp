// Finds the first step of a recorded trace that differs from this core, to show the difference with few
// inputs. The core that recorded the trace is not available. So this core executes the steps before the
// difference, which are equal in both cores, and the different step is kept as recorded, with the identifiers
// of the shorter run.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/lib/trace/minimize/run_writer.hpp"

namespace rtrs::tools {

class LastStep {
 public:
  // Searches for the first recorded action that this core would not take. Calls `over` periodically; if it
  // returns true, the search ends and out_of_time() is true. `over` may be empty.
  explicit LastStep(const MachineTrace&, const std::function<bool()>& over = {});
  ~LastStep();
  LastStep(const LastStep&) = delete;
  LastStep& operator=(const LastStep&) = delete;

  bool differs() const;
  // True if time ran out before all inputs were compared and no difference was found.
  bool out_of_time() const;
  // First record whose state hash differs although all actions so far are equal; nullopt: none.
  std::optional<std::uint64_t> hidden_since() const;
  // Kinds of the recorded action and of the action of this core, as text.
  std::string failure() const;
  std::string seen() const;
  std::size_t inputs() const;  // number of inputs up to the difference

  struct Candidate {
    Inputs inputs;            // the kept inputs, without impossible ones
    RecordedActions actions;  // actions of the last input, as recorded
  };
  // Runs the inputs `kept`. Returns nullopt if the last step does not differ in the same way any more. `as`:
  // the trace, possibly with another configuration.
  std::optional<Candidate> attempt(const Inputs& kept, const MachineTrace& as) const;

 private:
  struct Search;
  std::unique_ptr<Search> search_;
};

}  // namespace rtrs::tools
