#include "tools/urtrs-perf/pair.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "tools/urtrs-perf/interrupt.hpp"

namespace rtrs::perf {
namespace {

// A child process that runs this program and writes its standard output to a pipe. The destructor kills the
// child and waits for its end.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<char*> argv{const_cast<char*>("urtrs-perf")};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    if (::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (output_ >= 0) ::close(output_);
  }

  // Returns the first line, or everything, that the child prints; empty after a timeout.
  std::string read(bool one_line, Nanos patience) {
    std::string text;
    const Nanos end = asio::steady_now() + patience;
    while (caught_signal() == 0 && asio::steady_now() < end) {
      pollfd ready{output_, POLLIN, 0};
      if (::poll(&ready, 1, 100) <= 0) continue;
      char bytes[4096];
      const ssize_t count = ::read(output_, bytes, sizeof bytes);
      if (count <= 0) return text;
      text.append(bytes, static_cast<std::size_t>(count));
      if (one_line && text.find('\n') != std::string::npos) return text;
    }
    return {};
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

std::vector<std::string> common(const Options& options, bool raw, unsigned cpu) {
  std::vector<std::string> arguments{"--fabric", raw ? "libfabric" : options.fabric, "--provider",
                                     options.provider};
  if (std::thread::hardware_concurrency() > 1) {
    arguments.insert(arguments.end(), {"--cpu", std::to_string(cpu)});
  }
  if (raw)
    arguments.push_back("--raw");
  else if (options.wait == Wait::events)
    arguments.push_back("--events");
  else if (options.wait == Wait::pump)
    arguments.push_back("--pump");
  if (!options.recorder) arguments.push_back("--no-recorder");
  return arguments;
}

}  // namespace

tl::expected<PairResult, std::string> run_pair(const Options& options, bool raw, unsigned iodepth) {
  const char* name = raw ? "the bare ping-pong" : "urtrs";
  std::vector<std::string> arguments = common(options, raw, 1);
  arguments.insert(arguments.end(), {"--port", "0", "--listen", "127.0.0.1"});
  Child server(arguments);
  constexpr const char* kReady = "listening on port ";
  const std::string line = server.read(true, seconds(10));
  if (line.rfind(kReady, 0) != 0) return tl::unexpected(fmt::format("the server of {} did not start", name));
  const std::string port = std::to_string(std::atoi(line.c_str() + std::char_traits<char>::length(kReady)));

  arguments = common(options, raw, 0);
  arguments.insert(arguments.end(),
                   {"127.0.0.1", "--port", port, "--rw", to_string(options.rw), "--bs",
                    std::to_string(options.block_size), "--iodepth", std::to_string(iodepth), "--json"});
  if (options.iterations)
    arguments.insert(arguments.end(), {"--iterations", std::to_string(*options.iterations)});
  else
    arguments.insert(arguments.end(), {"--runtime", fmt::format("{}ms", options.runtime / milliseconds(1))});
  if (!raw)
    arguments.insert(arguments.end(), {"--connections", std::to_string(options.protocol.con_num - 1)});
  Child client(arguments);
  const std::string text =
      client.read(false, (options.iterations ? seconds(600) : options.runtime) + seconds(20));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("results"))
    return tl::unexpected(fmt::format("the client of {} gave no result", name));
  if (const auto& error = json["error"]; error.is_object())
    return tl::unexpected(
        fmt::format("the client of {} gave no result: {}", name, error["message"].get<std::string>()));
  if (json["results"].size() != 1 || json["exit_code"] != 0)
    return tl::unexpected(fmt::format("the client of {} completed no IO in the time", name));
  const auto& result = json["results"][0];
  return PairResult{result["latency_usec"]["p50"].get<double>(), result["iops_median_50ms"].get<double>()};
}

}  // namespace rtrs::perf
