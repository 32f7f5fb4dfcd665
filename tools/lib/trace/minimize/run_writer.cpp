#include "tools/lib/trace/minimize/run_writer.hpp"

#include "core/record/writer.hpp"
#include "tools/lib/trace/minimize/players.hpp"

namespace rtrs::tools {

namespace {

int append_begin(trace::Writer& writer, const MachineTrace& machine, const ClientInputs& trace) {
  const trace::BeginClient begin{machine.begin, trace.config};
  return writer.append(trace::kKindOf<trace::BeginClient>, machine.instance, &begin);
}
int append_begin(trace::Writer& writer, const MachineTrace& machine, const ServerInputs& trace) {
  const trace::BeginServerSession begin{machine.begin, trace.session, trace.config};
  return writer.append(trace::kKindOf<trace::BeginServerSession>, machine.instance, &begin);
}

int append_begin(trace::Writer& writer, const MachineTrace& machine, const ClientDevicesInputs&) {
  const trace::BeginClientDevices begin{machine.begin};
  return writer.append(trace::kKindOf<trace::BeginClientDevices>, machine.instance, &begin);
}
int append_begin(trace::Writer& writer, const MachineTrace& machine, const ServerDevicesInputs& trace) {
  const trace::BeginServerDevices begin{machine.begin, trace.session, trace.config};
  return writer.append(trace::kKindOf<trace::BeginServerDevices>, machine.instance, &begin);
}

template <class Action>
int append_action(trace::Writer& writer, InstanceId instance, const Action& action) {
  return visit_event(
      [&](const auto& one) {
        return writer.append(trace::kKindOf<std::remove_cvref_t<decltype(one)>>, instance, &one);
      },
      action);
}

template <class Machine>
void play_and_write(const MachineTrace& machine, const Machine& trace, const Inputs& kept,
                    trace::Writer& writer, const RunOptions& options, Written& written) {
  auto player = player_of(trace);
  const auto keep = [&written](int error) { written.error = written.error != 0 ? written.error : error; };
  keep(append_begin(writer, machine, trace));
  typename decltype(player)::Actions actions;
  for (const std::uint32_t number : kept) {
    const auto fed = player.prepare(trace.inputs[number], number, trace.metas[number]);
    if (!fed) continue;
    if (options.before) options.before(number, writer.records());
    visit_event(
        [&](const auto& input) {
          keep(writer.append(trace::kKindOf<std::remove_cvref_t<decltype(input)>>, machine.instance, &input));
        },
        *fed);
    if (number == options.stop_at) return;
    if (options.last_actions != nullptr && number == kept.back()) {
      using RecordedActions = std::remove_cvref_t<decltype(trace.actions)>;
      for (const auto& action : std::get<RecordedActions>(*options.last_actions))
        keep(append_action(writer, machine.instance, action));
      return;
    }
    actions.clear();
    player.step(*fed, actions);
    for (const auto& action : actions) keep(append_action(writer, machine.instance, action));
    if (options.hashes) {
      const trace::StateHash state{player.fingerprint()};
      keep(writer.append(trace::kKindOf<trace::StateHash>, machine.instance, &state));
    }
    written.broken = player.broken_invariant();
    if (written.broken != nullptr) return;
  }
}

}  // namespace

Written write_run(const MachineTrace& machine, const Inputs& kept, const std::string& path,
                  const RunOptions& options) {
  Written written;
  auto sink = trace::FdSink::create(path.c_str(), written.error);
  if (!sink) return written;
  trace::Writer writer(std::move(sink));
  trace::Header header;
  header.origin = machine.origin;
  header.origin.options.emplace_back("made_by=urtrs-replay min");
  header.schema = trace::builtin_schema();
  written.error = writer.start(header);
  std::visit([&](const auto& trace) { play_and_write(machine, trace, kept, writer, options, written); },
             machine.machine);
  written.records = writer.records();
  const int error = writer.finish();
  if (written.error == 0) written.error = error;
  return written;
}

}  // namespace rtrs::tools
