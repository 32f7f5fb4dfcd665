#include "tools/lib/trace/minimize/minimize.hpp"

#include <chrono>
#include <numeric>
#include <optional>

#include "tools/lib/trace/minimize/cut_records.hpp"
#include "tools/lib/trace/minimize/last_step.hpp"
#include "tools/lib/trace/minimize/rerun.hpp"
#include "tools/lib/trace/minimize/thin_out.hpp"

namespace rtrs::tools {

namespace {

using Looks = MinimizeOptions::Looks;

Inputs first_numbers(std::size_t count) {
  Inputs all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

// Returns the group of an input for Thinning. The inputs of one path or device are a group; with `attempts`,
// the inputs of one connection attempt or device.
std::uint32_t group_of(const MachineTrace& machine, std::uint32_t input, bool attempts) {
  return std::visit(
      [&](const auto& trace) {
        return visit_event(
            [attempts](const auto& one) -> std::uint32_t {
              if constexpr (requires { one.key; })
                return attempts ? (one.key.epoch << 8U) + one.key.path : one.key.path;
              else if constexpr (requires { one.path; })
                return attempts ? Thinning::kNoGroup : one.path;
              else if constexpr (requires { one.device; })
                return one.device;
              else
                return Thinning::kNoGroup;
            },
            trace.inputs[input]);
      },
      machine.machine);
}

// Swaps connections `con` and 1, and reduces the configuration to two connections per path.
void keep_two_connections(ClientInputs& trace, std::uint16_t con) {
  for (ClientInput& input : trace.inputs) {
    std::visit(
        [con](auto& one) {
          if constexpr (requires { one.key; }) {
            if (one.key.con == con || one.key.con == 1)
              one.key.con = static_cast<std::uint16_t>(one.key.con == 1 ? con : 1);
          }
        },
        input);
  }
  trace.config.con_num = 2;
}

// Returns the connection of the last input; 1 if it has none or the service connection.
std::uint16_t last_connection(const ClientInputs& trace, const Inputs& kept) {
  return std::visit(
      [](const auto& one) -> std::uint16_t {
        if constexpr (requires { one.key; }) return one.key.con == 0 ? 1 : one.key.con;
        return 1;
      },
      trace.inputs[kept.back()]);
}

class Minimizer {
 public:
  Minimizer(std::string_view trace, const MinimizeOptions& options) : bytes_(trace), options_(options) {}

  Minimized run() {
    trace::MemorySource source(bytes_);
    const auto loaded = load_machines(source);
    const bool by_records = options_.looks != Looks::invariant && options_.looks != Looks::replay;
    bool found = false;
    if (loaded) {
      result_.records_before = loaded->records;
      result_.damage = loaded->damage;
      if (options_.looks != Looks::replay) found = by_rerun(*loaded);
      if (!found && may_differ()) found = by_last_step(*loaded);
    } else if (options_.judge || !by_records || !lacks_beginning()) {
      result_.error = loaded.error();
    }
    // Removing single records is the last resort, because the records of a machine depend on each other.
    if (!found && result_.error.empty() && hidden_.empty() && !options_.judge && by_records)
      found = by_cutting();
    result_.fails = found;
    if (found) result_.error.clear();
    if (!found && result_.error.empty() && !hidden_.empty()) result_.error = hidden_;
    result_.runs = runs_;
    result_.seconds = elapsed();
    return std::move(result_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  bool over() const { return elapsed() >= options_.seconds; }
  std::string path() const { return options_.directory + "/candidate.rtrc"; }
  void tell(std::size_t left) {
    if (options_.progress) options_.progress(left, runs_);
  }
  bool may_differ() const {
    return !options_.judge && (options_.looks == Looks::all || options_.looks == Looks::replay);
  }

  // Returns true if the trace lacks its beginning or its actions. No core can replay such a trace, but the
  // trace can still violate the specification.
  bool lacks_beginning() const {
    trace::MemorySource source(bytes_);
    trace::Reader reader(source);
    return reader.open() == trace::Reader::Status::ok &&
           (reader.header().flags & (trace::partial | trace::action_counts)) != 0;
  }

  bool by_rerun(const LoadedTrace& trace) {
    const bool check = options_.looks == Looks::all || options_.looks == Looks::check;
    Rerun rerun(path(), options_.judge ? options_.judge : check ? judge_by_check() : Judge());
    if (!rerun.works()) {
      result_.error = "cannot allocate shared memory";
      return false;
    }
    for (const MachineTrace& machine : trace.machines) {
      ++runs_;
      auto whole = rerun.run(machine, first_numbers(machine.size()));
      if (!rerun.error().empty()) {
        result_.error = rerun.error();
        return false;
      }
      if (!whole) continue;
      result_.failure = whole->failure;
      thin_rerun(rerun, machine, std::move(whole->inputs));
      return true;
    }
    return false;
  }

  void thin_rerun(Rerun& rerun, const MachineTrace& machine, Inputs kept) {
    bool stops = rerun.stopped();
    const Attempt attempt = [&](const Inputs& candidate, const MachineTrace& as) -> std::optional<Inputs> {
      ++runs_;
      auto failing = rerun.run(as, candidate);
      if (!failing || failing->failure != result_.failure) return std::nullopt;
      stops = rerun.stopped();
      tell(failing->inputs.size());
      return std::move(failing->inputs);
    };
    const MachineTrace smallest = thin(machine, kept, attempt);
    // Writes the result again, because the file contains the last candidate, which may not have failed. If
    // the last input crashes the core, the input is written, but not executed.
    RunOptions options;
    options.hashes = options_.hashes;
    if (stops && !kept.empty()) options.stop_at = kept.back();
    const auto last = rerun.run(smallest, kept, options);
    if (last) result_.seen = last->seen;
    describe(machine, kept.size(), rerun.records());
  }

  // Runs a candidate. Returns its inputs up to the failure, or nullopt if it does not fail.
  using Attempt = std::function<std::optional<Inputs>(const Inputs&, const MachineTrace& as)>;

  // Removes inputs, then connections, then inputs again. Returns the trace with the resulting configuration.
  MachineTrace thin(const MachineTrace& machine, Inputs& kept, const Attempt& attempt) {
    MachineTrace smallest = machine;
    Thinning how = thinning(smallest);
    how.trial = [&](const Inputs& candidate) { return attempt(candidate, smallest); };
    result_.complete = thin_out(kept, how);
    auto* client = std::get_if<ClientInputs>(&smallest.machine);
    if (client == nullptr || client->config.con_num <= 2 || kept.empty() || over()) return smallest;
    const std::uint16_t connections = client->config.con_num;
    const std::uint16_t con = last_connection(*client, kept);
    keep_two_connections(*client, con);
    if (auto failing = attempt(kept, smallest)) {
      kept = std::move(*failing);
      result_.complete = thin_out(kept, how);
    } else {
      keep_two_connections(*client, con);
      client->config.con_num = connections;
    }
    return smallest;
  }

  Thinning thinning(const MachineTrace& machine) const {
    Thinning how;
    how.over = [this] { return over(); };
    for (const bool attempts : {false, true})
      how.groupings.emplace_back(
          [&machine, attempts](std::uint32_t input) { return group_of(machine, input, attempts); });
    return how;
  }

  void describe(const MachineTrace& machine, std::size_t inputs, std::uint64_t records) {
    result_.instance = machine.instance;
    result_.inputs_before = machine.size();
    result_.inputs = inputs;
    result_.records = records;
    result_.file = path();
  }

  // If the different step violates the specification, each candidate must violate it in the same way.
  bool by_last_step(const LoadedTrace& trace) {
    // Candidates are first run in a separate process, because the core may crash.
    Rerun probe(path(), Judge());
    if (!probe.works()) {
      result_.error = "cannot allocate shared memory";
      return false;
    }
    for (const MachineTrace& machine : trace.machines) {
      if (const auto stops = probe.run(machine, first_numbers(machine.size()))) {
        result_.error = stops->failure + "; use --for invariant to minimize this failure";
        return false;
      }
      const LastStep last(machine, [this] { return over(); });
      if (last.out_of_time()) {
        result_.error = "time ran out before the first step that differs was found; give a longer --time";
        return false;
      }
      if (const auto record = last.hidden_since(); record && hidden_.empty())
        hidden_ = "from record " + std::to_string(*record) +
                  " on its states differ from this core, but its actions do not; give --reference, the "
                  "urtrs-replay of the build that recorded it";
      if (!last.differs()) continue;
      Inputs kept = first_numbers(last.inputs());
      const auto whole = last.attempt(kept, machine);
      if (!whole) continue;
      const auto broken = write_and_judge(machine, *whole);
      if (!result_.error.empty()) return false;
      result_.failure = last.failure();
      thin_last_step(probe, last, machine, std::move(kept), broken);
      result_.seen = last.seen();
      return true;
    }
    return false;
  }

  void thin_last_step(Rerun& probe, const LastStep& last, const MachineTrace& machine, Inputs kept,
                      const std::optional<Fault>& broken) {
    const Attempt attempt = [&](const Inputs& given, const MachineTrace& as) -> std::optional<Inputs> {
      ++runs_;
      if (probe.run(as, given)) return std::nullopt;
      auto candidate = last.attempt(given, as);
      if (!candidate) return std::nullopt;
      const auto fault = write_and_judge(as, *candidate);
      if (fault.has_value() != broken.has_value()) return std::nullopt;
      if (fault && (fault->failure != broken->failure || fault->count > broken->count)) return std::nullopt;
      tell(candidate->inputs.size());
      return std::move(candidate->inputs);
    };
    const MachineTrace smallest = thin(machine, kept, attempt);
    const auto shortest = last.attempt(kept, smallest);
    RunOptions options;
    options.hashes = options_.hashes;
    options.last_actions = &shortest->actions;
    const Written written = write_run(smallest, shortest->inputs, path(), options);
    if (broken) result_.failure += "; " + broken->failure;
    result_.recorded = true;
    describe(machine, kept.size(), written.records);
  }

  std::optional<Fault> write_and_judge(const MachineTrace& machine, const LastStep::Candidate& candidate) {
    RunOptions options;
    options.last_actions = &candidate.actions;
    const Written written = write_run(machine, candidate.inputs, path(), options);
    if (written.error != 0) result_.error = "cannot write " + path();
    const auto fault = judge_by_check()(path());
    return fault ? *fault : std::nullopt;
  }

  bool by_cutting() {
    trace::MemorySource source(bytes_);
    const auto cut = RecordCut::load(source);
    if (!cut) {
      result_.error = cut.error();
      return false;
    }
    result_.damage = cut->damage();
    result_.records_before = cut->records();
    const Judge judge = judge_by_check();
    const auto judged = [&](const Inputs& candidate) -> std::optional<Fault> {
      ++runs_;
      if (cut->write(candidate, path(), result_.records) != 0) {
        result_.error = "cannot write " + path();
        return std::nullopt;
      }
      const auto fault = judge(path());
      return fault ? *fault : std::nullopt;
    };
    Inputs kept = first_numbers(cut->size());
    const auto whole = judged(kept);
    if (!whole) return false;
    result_.failure = whole->failure;
    Thinning how;
    how.over = [this] { return over(); };
    how.groupings.emplace_back([&cut](std::uint32_t index) { return cut->connection(index); });
    how.trial = [&](const Inputs& candidate) -> std::optional<Inputs> {
      const auto fault = judged(candidate);
      if (!fault || fault->failure != result_.failure) return std::nullopt;
      Inputs used = candidate;
      used.resize(cut->up_to(candidate, fault->record));
      tell(used.size());
      return used;
    };
    result_.complete = thin_out(kept, how);
    if (const auto last = judged(kept)) result_.seen = last->seen;
    result_.recorded = true;
    result_.file = path();
    return true;
  }

  std::string_view bytes_;
  const MinimizeOptions& options_;
  const Clock::time_point began_ = Clock::now();
  Minimized result_;
  std::uint64_t runs_ = 0;
  std::string hidden_;  // error text if the states of both cores differ, but no action does
};

}  // namespace

Minimized minimize(std::string_view trace, const MinimizeOptions& options) {
  return Minimizer(trace, options).run();
}

}  // namespace rtrs::tools
