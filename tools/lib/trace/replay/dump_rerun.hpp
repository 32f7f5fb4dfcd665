// Computes the actions of a ring dump, which has only their number, by running the machines of this build.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/lib/trace/replay/replay.hpp"

namespace rtrs::trace {

class DumpRerun {
 public:
  // `schema`: from the header of the dump; must outlive this object.
  explicit DumpRerun(const Schema& schema) : compatibility_(schema) {}

  // The machine begins with this record.
  void begin(const Record& record);
  // The machine has this state. Does nothing if its state is known.
  void resume(InstanceId instance, MachineKind kind, std::string_view state, std::uint64_t layout);
  // Runs an input. Returns false if the state of the machine is not known.
  bool input(const Record& record);
  // Compares the recorded number of actions of the last input. If it is right, passes the actions to `take`,
  // as records with the number of the input; they refer to builtin_schema(). Otherwise the state of the
  // machine is unknown from here on.
  void count(const Record& record, const std::function<void(const Record&)>& take);
  void end(InstanceId instance) { machines_.erase(instance); }
  // Reason why the first machine was given up; empty: none.
  const std::string& difference() const noexcept { return difference_; }

 private:
  struct Machine {
    std::unique_ptr<ReplayMachine> machine;
    std::uint64_t last_input = 0;  // number of the record
    bool counted = true;           // the number of actions of the last input was compared
    Effects actions;
  };
  bool agrees(InstanceId instance, Machine& machine, std::uint64_t recorded);

  Compatibility compatibility_;
  std::map<InstanceId, Machine> machines_;
  std::vector<Value> values_;
  std::string difference_;
};

}  // namespace rtrs::trace
