#include "tools/minimize/minimize.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/trace/writer.hpp"
#include "tools/minimize/client_player.hpp"
#include "tools/minimize/server_player.hpp"

namespace rtrs::tool {

namespace {

using Inputs = std::vector<std::uint32_t>;
constexpr unsigned kMaxSeconds = 20;  // of one run

ClientPlayer player_of(const MachineInputs<ClientConfig, ClientInput>& trace) {
  return ClientPlayer(trace);
}
ServerPlayer player_of(const MachineInputs<ServerConfig, ServerInput>& trace) {
  return ServerPlayer(trace);
}

int append_begin(trace::Writer& writer, const MachineTrace& machine,
                 const MachineInputs<ClientConfig, ClientInput>& trace) {
  const trace::BeginClient begin{machine.begin, trace.config};
  return writer.append(trace::kKindOf<trace::BeginClient>, machine.instance, &begin);
}
int append_begin(trace::Writer& writer, const MachineTrace& machine,
                 const MachineInputs<ServerConfig, ServerInput>& trace) {
  const trace::BeginServerSession begin{machine.begin, trace.session, trace.config};
  return writer.append(trace::kKindOf<trace::BeginServerSession>, machine.instance, &begin);
}

template <class Machine>
void play_and_write(const MachineTrace& machine, const Machine& trace, const Inputs& kept,
                    trace::Writer& writer, const WriteHooks& hooks, Written& written) {
  auto player = player_of(trace);
  const auto keep = [&written](int error) { written.error = written.error != 0 ? written.error : error; };
  keep(append_begin(writer, machine, trace));
  ActionList actions;
  for (const std::uint32_t number : kept) {
    const auto fed = player.prepare(trace.inputs[number], number, trace.metas[number]);
    if (!fed) continue;
    if (hooks.before) hooks.before(number, writer.records());
    std::visit(
        [&](const auto& input) {
          keep(writer.append(trace::kKindOf<std::remove_cvref_t<decltype(input)>>, machine.instance, &input));
        },
        *fed);
    if (number == hooks.stop_at) return;
    actions.clear();
    player.step(*fed, actions);
    for (const Action& action : actions) keep(writer.append_action(machine.instance, action));
    written.broken = player.broken_invariant();
    if (written.broken != nullptr) return;
  }
}

// Of a run in a process of its own.
struct Shared {
  bool done;
  std::uint64_t records;
  std::uint32_t fed;
  char broken[256];
};

}  // namespace

Written write_run(const MachineTrace& machine, const Inputs& kept, const std::string& path,
                  const WriteHooks& hooks) {
  Written written;
  auto sink = trace::FdSink::create(path.c_str(), written.error);
  if (!sink) return written;
  trace::Writer writer(std::move(sink));
  trace::Header header;
  header.origin = machine.origin;
  header.origin.options.emplace_back("made_by=urtrs-replay min");
  header.schema = trace::builtin_schema();
  written.error = writer.start(header);
  std::visit([&](const auto& trace) { play_and_write(machine, trace, kept, writer, hooks, written); },
             machine.machine);
  written.records = writer.records();
  const int error = writer.finish();
  if (written.error == 0) written.error = error;
  return written;
}

namespace {

class Minimizer {
 public:
  explicit Minimizer(const MinimizeOptions& options) : options_(options) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) shared_ = static_cast<Shared*>(memory);
    stderr_ = memfd_create("urtrs-replay-stderr", MFD_CLOEXEC);
  }
  ~Minimizer() {
    if (shared_ != nullptr) munmap(shared_, kBytes);
    if (stderr_ >= 0) close(stderr_);
  }
  Minimizer(const Minimizer&) = delete;
  Minimizer& operator=(const Minimizer&) = delete;

  Minimized run(const LoadedTrace& trace) {
    Minimized result;
    if (shared_ == nullptr) result.error = "no memory to share with the runs";
    for (const MachineTrace& machine : trace.machines) {
      if (!result.error.empty() || machine.size() > kMaxInputs) continue;
      machine_ = &machine;
      signature_.clear();
      Inputs all(machine.size());
      std::iota(all.begin(), all.end(), 0U);
      if (auto failing = attempt(all)) {
        finish(result, machine, std::move(*failing));
        break;
      }
      if (!error_.empty()) result.error = error_;
    }
    result.runs = runs_;
    result.seconds = elapsed();
    return result;
  }

 private:
  static constexpr std::size_t kMaxInputs = 4'000'000;
  static constexpr std::size_t kBytes = sizeof(Shared) + (kMaxInputs + 1) * sizeof(std::uint32_t) * 3;

  std::uint32_t* fed() const { return reinterpret_cast<std::uint32_t*>(shared_ + 1); }
  std::uint32_t* record_of() const { return fed() + kMaxInputs; }

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  bool over() const { return elapsed() > options_.seconds; }
  std::string path() const { return options_.directory + "/candidate.rtrc"; }

  void finish(Minimized& result, const MachineTrace& machine, Inputs kept) {
    result.fails = true;
    result.instance = machine.instance;
    result.inputs_before = machine.size();
    result.complete = thin_out(kept);
    result.failure = signature_;
    result.inputs = kept.size();
    // Once more, because the last candidate need not have failed. Where the core stops, its last input is
    // written and not fed.
    if (stops_ && !kept.empty()) stop_at_ = kept.back();
    std::string ignored;
    outcome(kept, ignored);
    result.file = path();
    result.records = shared_->records;
  }

  // False when time was over.
  bool thin_out(Inputs& kept) {
    bool again = true;
    while (again && !over()) {
      again = false;
      for (std::uint16_t path = 0; path < kMaxPaths * kMaxSessions && !over(); ++path)
        again = drop([&](std::uint32_t input) { return path_of(input) == path; }, kept) || again;
      for (std::size_t step = kept.size() / 2; step != 0 && !over(); step /= 2) {
        for (std::size_t end = kept.size(); end > 0 && !over();) {
          const std::size_t begin = end > step ? end - step : 0;
          Inputs candidate = kept;
          candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(begin),
                          candidate.begin() + static_cast<std::ptrdiff_t>(end));
          if (auto failing = attempt(candidate)) {
            kept = std::move(*failing);
            again = true;
          }
          end = std::min(begin, kept.size());
        }
      }
    }
    return !over();
  }

  template <class Which>
  bool drop(Which which, Inputs& kept) {
    Inputs candidate = kept;
    std::erase_if(candidate, which);
    if (candidate.size() == kept.size() || candidate.empty()) return false;
    auto failing = attempt(candidate);
    if (failing) kept = std::move(*failing);
    return failing.has_value();
  }

  std::uint32_t path_of(std::uint32_t input) const {
    return std::visit(
        [input](const auto& machine) {
          return std::visit(
              [](const auto& one) -> std::uint32_t {
                if constexpr (requires { one.key; }) return one.key.path;
                if constexpr (requires { one.path; }) return one.path;
                return ~0U;
              },
              machine.inputs[input]);
        },
        machine_->machine);
  }

  void child(const Inputs& kept) noexcept {
    if (stderr_ >= 0) dup2(stderr_, STDERR_FILENO);
    alarm(kMaxSeconds);
    WriteHooks hooks;
    hooks.before = [this](std::uint32_t input, std::uint64_t record) {
      fed()[shared_->fed] = input;
      record_of()[shared_->fed++] = static_cast<std::uint32_t>(record);
    };
    hooks.stop_at = stop_at_;
    const Written written = write_run(*machine_, kept, path(), hooks);
    shared_->records = written.records;
    if (written.broken != nullptr)
      std::snprintf(shared_->broken, sizeof shared_->broken, "%s", written.broken);
    shared_->done = written.error == 0;
  }

  // The inputs that were really fed, up to the failure, when the candidate fails as the first one did.
  std::optional<Inputs> attempt(const Inputs& candidate) {
    ++runs_;
    std::string failure;
    std::optional<Inputs> failing = outcome(candidate, failure);
    if (!failing || (!signature_.empty() && failure != signature_)) return std::nullopt;
    if (signature_.empty()) signature_ = failure;
    if (options_.progress) options_.progress(failing->size(), runs_);
    return failing;
  }

  std::optional<Inputs> outcome(const Inputs& candidate, std::string& failure) {
    shared_->done = false;
    shared_->fed = 0;
    shared_->broken[0] = 0;
    if (stderr_ >= 0 && ftruncate(stderr_, 0) == 0) lseek(stderr_, 0, SEEK_SET);
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
      child(candidate);
      _exit(0);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return std::nullopt;
    if (WIFSIGNALED(status)) {
      failure = "the core stops: " + last_words(WTERMSIG(status));
      stops_ = true;
      return Inputs(fed(), fed() + shared_->fed);
    }
    if (!shared_->done) {
      error_ = "cannot write " + path();
      return std::nullopt;
    }
    Inputs used(fed(), fed() + shared_->fed);
    if (shared_->broken[0] != 0) {
      failure = std::string("not true any more: ") + shared_->broken;
      return used;
    }
    if (options_.reference.empty()) return std::nullopt;
    return compared(std::move(used), failure);
  }

  // What the reference does with the run that was just written.
  std::optional<Inputs> compared(Inputs used, std::string& failure) {
    const std::string command = options_.reference + " replay --json '" + path() + "' 2>/dev/null";
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
      error_ = "cannot run " + options_.reference;
      return std::nullopt;
    }
    std::string text;
    char buffer[4096];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) != 0;)
      text.append(buffer, got);
    pclose(pipe);
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("verdict")) {
      // It may have stopped, which it would not do on inputs that are possible.
      if (signature_.empty()) error_ = options_.reference + " does not replay";
      return std::nullopt;
    }
    if (json["verdict"] != "diverged") return std::nullopt;
    const auto& at = json["divergence"];
    const auto first_word = [](const std::string& words) { return words.substr(0, words.find(' ')); };
    const auto record = at["input_record"].get<std::uint64_t>();
    std::size_t inputs = 0;
    while (inputs < used.size() && record_of()[inputs] <= record) ++inputs;
    failure = "this core: " + first_word(at["recorded"]) + ", the reference: " + first_word(at["rerun"]);
    used.resize(inputs);
    return used;
  }

  std::string last_words(int signal) const {
    char text[512];
    const ssize_t size = stderr_ < 0 ? 0 : pread(stderr_, text, sizeof text, 0);
    const std::string words(text, size < 0 ? 0 : static_cast<std::size_t>(size));
    return words.empty() ? "signal " + std::to_string(signal) : words.substr(0, words.find('\n'));
  }

  using Clock = std::chrono::steady_clock;
  const MinimizeOptions& options_;
  const Clock::time_point began_ = Clock::now();
  const MachineTrace* machine_ = nullptr;
  Shared* shared_ = nullptr;
  int stderr_ = -1;
  std::string signature_;
  std::string error_;
  std::uint64_t runs_ = 0;
  bool stops_ = false;  // the failure is that the core stops
  std::uint32_t stop_at_ = ~std::uint32_t{0};
};

}  // namespace

Minimized minimize(const LoadedTrace& trace, const MinimizeOptions& options) {
  return Minimizer(options).run(trace);
}

}  // namespace rtrs::tool
