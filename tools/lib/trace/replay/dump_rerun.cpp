#include "tools/lib/trace/replay/dump_rerun.hpp"

#include "core/record/format.hpp"
#include "tools/lib/trace/replay/abort_guard.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::trace {

void DumpRerun::begin(const Record& record) {
  std::string why;
  auto machine = core_machines()(record, compatibility_.map(record.event->id), why);
  machines_.erase(record.instance);
  if (machine) machines_[record.instance].machine = std::move(machine);
}

void DumpRerun::resume(InstanceId instance, MachineKind kind, std::string_view state, std::uint64_t layout) {
  if (machines_.contains(instance)) return;
  auto machine = blank_core_machines()(kind);
  if (machine && machine->load(state, layout) == nullptr) machines_[instance].machine = std::move(machine);
}

bool DumpRerun::agrees(InstanceId instance, Machine& machine, std::uint64_t recorded) {
  machine.counted = true;
  if (machine.actions.size() == recorded) return true;
  if (difference_.empty())
    difference_ = "this core takes " + std::to_string(machine.actions.size()) + " actions for record " +
                  std::to_string(machine.last_input) + ", which caused " + std::to_string(recorded);
  machines_.erase(instance);
  return false;
}

bool DumpRerun::input(const Record& record) {
  const auto found = machines_.find(record.instance);
  if (found == machines_.end() || compatibility_.problem(record.event->id) != nullptr) return false;
  Machine& machine = found->second;
  // An input without actions has no count.
  if (!machine.counted && !agrees(record.instance, machine, 0)) return false;
  machine.actions.clear();
  const AbortGuard guard;
  AbortGuard::position() = record.seq;
  if (!machine.machine->feed(record, compatibility_.map(record.event->id), machine.actions)) return false;
  machine.last_input = record.seq;
  machine.counted = false;
  return true;
}

void DumpRerun::count(const Record& record, const std::function<void(const Record&)>& take) {
  const auto found = machines_.find(record.instance);
  if (found == machines_.end() || found->second.counted) return;
  Machine& machine = found->second;
  const auto recorded = get_struct<ActionCount>(record, compatibility_.map(record.event->id)).count;
  if (!agrees(record.instance, machine, recorded)) return;
  values_.resize(kMaxFields);
  for (std::size_t at = 0; at < machine.actions.size(); ++at) {
    Record action = record;
    action.seq = machine.last_input;
    action.event = builtin_schema().find(machine.actions.kind(at));
    action.fields = machine.actions.fields(at);
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(action.fields.data());
    get_values(bytes, bytes + action.fields.size(), *action.event, values_.data());
    action.values = {values_.data(), action.event->fields.size()};
    take(action);
  }
}

}  // namespace rtrs::trace
