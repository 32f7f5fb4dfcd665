// A trace of another core, whose difference from this one is to be shown with as few inputs as possible. The
// other core is not there to be asked: this one takes the steps before the difference, which both take alike,
// and the step that differs is kept as it was recorded, under the names that things have in the shorter run.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/lib/trace/minimize/run_writer.hpp"

namespace rtrs::tools {

class LastStep {
 public:
  // Looks for the first action of the machine that this core would not take.
  // `over` is asked now and then: true ends the search, and out_of_time() tells it. May be empty.
  explicit LastStep(const MachineTrace&, const std::function<bool()>& over = {});
  ~LastStep();
  LastStep(const LastStep&) = delete;
  LastStep& operator=(const LastStep&) = delete;

  bool differs() const;
  // Time was over before all inputs were compared, and those that were do not differ.
  bool out_of_time() const;
  // Only hashes of the state differ, from this record on: no action shows it.
  std::optional<std::uint64_t> hidden_since() const;
  // In words: what was recorded, what this core does.
  std::string failure() const;
  std::string seen() const;
  std::size_t inputs() const;  // up to the difference

  struct Candidate {
    Inputs inputs;            // possible ones
    RecordedActions actions;  // of the last, as recorded
  };
  // Nothing when the two cores need not differ in the same way any more. `as` is the trace, maybe with
  // another configuration.
  std::optional<Candidate> attempt(const Inputs& kept, const MachineTrace& as) const;

 private:
  struct Search;
  std::unique_ptr<Search> search_;
};

}  // namespace rtrs::tools
