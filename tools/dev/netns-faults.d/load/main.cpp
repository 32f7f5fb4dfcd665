// netns-load: the client program of tools/dev/netns-faults.
#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/bindings/asio/path_syntax.hpp"
#include "tools/dev/netns-faults.d/load/cell.hpp"
#include "tools/dev/netns-faults.d/load/load.hpp"
#include "tools/dev/netns-faults.d/load/orders.hpp"
#include "tools/lib/control/fabric/open_fabric.hpp"

namespace {

using namespace rtrs;
using namespace rtrs::real;
using Error = boost::system::error_code;

constexpr int kOk = 0;
constexpr int kBad = 1;
constexpr int kUsage = 2;

constexpr const char* kFooter = R"(
Examples:
  netns-load run --path 10.0.0.2@10.0.0.1 --device disk --history load.history --trace client.rtrc
  netns-load judge load.history --image disk.img

Orders of `run` on standard input, one a line: "add SRC@DST" and "remove N" change paths, "finish" (also the end of
the input, SIGINT and SIGTERM) ends it. On standard output it says what happens, one JSON object a line.
Exit codes: 0 done, or all is well; 1 it could not, or a rule is broken (the output says which); 2 wrong usage.
)";

struct Timing {
  std::uint32_t heartbeat_ms = 200;
  std::uint32_t missed = 5;
  std::uint32_t connect_ms = 3000;
  std::uint32_t info_ms = 3000;
  std::uint32_t fence_ms = 10000;
  std::uint32_t queue_ms = 60000;
  std::uint32_t reconnect_min_ms = 200;
  std::uint32_t reconnect_max_ms = 1000;
  std::uint32_t jitter_ms = 200;
};

struct Given {
  LoadOptions load;
  Timing timing;
  std::vector<std::string> paths;
  std::uint16_t port = 1234;
  std::string session = "netns";
  std::string device = "disk";
  std::string history;
  std::string trace;
  std::vector<std::string> histories;
  std::string image;
};

ClientConfig config_of(const Given& given) {
  ClientConfig config;
  config.seed = given.load.seed * 1000 + given.load.client;
  config.heartbeat = {milliseconds(given.timing.heartbeat_ms), given.timing.missed};
  config.connect_timeout = milliseconds(given.timing.connect_ms);
  config.info_timeout = milliseconds(given.timing.info_ms);
  config.fence_timeout = milliseconds(given.timing.fence_ms);
  config.queue_timeout = milliseconds(given.timing.queue_ms);
  config.reconnect_min = milliseconds(given.timing.reconnect_min_ms);
  config.reconnect_max = milliseconds(given.timing.reconnect_max_ms);
  config.reconnect_jitter = milliseconds(given.timing.jitter_ms);
  return config;
}

void say(const nlohmann::json& what) {
  std::printf("%s\n", what.dump().c_str());
  std::fflush(stdout);
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "netns-load: %s\n", why.c_str());
  return kUsage;
}

class Runner {
 public:
  explicit Runner(const Given& given)
      : given_(given), orders_(context_, [this](const std::string& line) { execute_command(line); }) {}

  int run() {
    if (const int failed = open()) return failed;
    device_->async_map([this](const Error& error) { on_mapped(error); });
    context_.run();
    return exit_code_;
  }

 private:
  int open() {
    if (const int error =
            history_.open(given_.history, given_.load.client, given_.load.seed, given_.load.cells))
      return refuse("cannot write " + given_.history + ": " + std::strerror(error));
    auto fabric = tools::open_fabric({});
    if (!fabric) return refuse(fabric.error());
    asio::RemoteDeviceOptions options;
    options.session_name = given_.session;
    options.device = given_.device;
    options.protocol = config_of(given_);
    options.on_path = [](const PathEvent& news) { on_path(news); };
    options.on_device = [](const asio::DeviceNews& news) {
      say({{"event", "device"},
           {"at", asio::steady_now()},
           {"state", news.cache_replaced ? "cache_replaced" : rnbd::to_string(news.state)},
           {"errno", news.error}});
    };
    for (const std::string& text : given_.paths) {
      const auto path = asio::parse_path(text, given_.port);
      if (!path) return refuse(path.error());
      options.paths.push_back(*path);
    }
    const std::string backend = (*fabric)->capabilities().name;
    device_ = std::make_unique<asio::RemoteDevice>(context_, std::move(*fabric), std::move(options));
    if (given_.trace.empty()) return kOk;
    trace::FileOptions file;
    file.detail = trace::Detail::wire;
    const trace::Origin origin{"netns-load", "client", backend, given_.load.seed, {}};
    if (const int error = device_->open_trace(given_.trace, origin, file))
      return refuse("cannot write the trace " + given_.trace + ": " + std::strerror(error));
    return kOk;
  }

  static void on_path(const PathEvent& news) {
    if (news.kind != PathEvent::Kind::path)
      return say({{"event", "link"},
                  {"at", news.at},
                  {"state", news.kind == PathEvent::Kind::link_up     ? "up"
                            : news.kind == PathEvent::Kind::link_down ? "down"
                                                                      : "ended"},
                  {"reason", to_string(news.reason)}});
    say({{"event", "path"},
         {"at", news.at},
         {"path", news.path.path},
         {"state", to_string(news.path.state)},
         {"reason", to_string(news.path.reason)}});
  }

  void on_mapped(const Error& error) {
    if (error) {
      say({{"event", "unmappable"}, {"why", error.message()}});
      exit_code_ = kBad;
      return end();
    }
    if (device_->size_bytes() < given_.load.base + std::uint64_t{given_.load.cells} * kCellBytes) {
      say({{"event", "unmappable"}, {"why", "the device is too small for the cells"}});
      exit_code_ = kBad;
      return close();
    }
    load_.emplace(context_, *device_, history_, given_.load);
    say({{"event", "mapped"}, {"at", asio::steady_now()}});
    load_->start();
    if (finishing_) finish();
  }

  void execute_command(const std::string& line) {
    if (line == "finish") {
      if (finishing_) return;
      finishing_ = true;
      if (load_) finish();
      return;
    }
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    const auto path = asio::parse_path(rest, given_.port);
    if (word == "add" && path) {
      device_->add_path(*path);
      return;
    }
    if (word == "remove" && !rest.empty() && rest.find_first_not_of("0123456789") == std::string::npos &&
        rest.size() < 3) {
      device_->remove_path(static_cast<unsigned>(std::stoul(rest)));
      return;
    }
    say({{"event", "order refused"}, {"order", line}});
  }

  void finish() {
    load_->finish([this] { close(); });
  }
  void close() {
    if (load_) summarize();
    device_->async_close([this](const Error& error) {
      say({{"event", "closed"}, {"error", error ? error.message() : ""}});
      end();
    });
  }
  void summarize() {
    nlohmann::json summary = load_->summary();
    const ClientStats& stats = device_->session().stats();
    summary["event"] = "done";
    summary["failovers"] = stats.failovers;
    summary["unfenced_failovers"] = stats.unfenced_failovers;
    summary["stale_responses"] = stats.stale_responses;
    summary["refused_messages"] = stats.refused_messages;
    for (const PathStatus& path : device_->paths())
      summary["paths"].push_back({{"state", to_string(path.state)},
                                  {"ios", path.ios},
                                  {"reconnects", path.reconnects},
                                  {"failed_attempts", path.failed_attempts}});
    say(summary);
  }
  void end() {
    orders_.stop();
    context_.stop();
  }

  Given given_;
  boost::asio::io_context context_{1};
  Orders orders_;
  HistoryWriter history_;
  std::unique_ptr<asio::RemoteDevice> device_;
  std::optional<Load> load_;
  bool finishing_ = false;
  int exit_code_ = kOk;
};

// Reads the final content of the cells from the image into `book`. Returns an error message; an empty string
// on success.
std::string read_image(const Given& given, Book& book) {
  std::ifstream image(given.image, std::ios::binary);
  image.seekg(static_cast<std::streamoff>(given.load.base));
  std::vector<std::uint32_t> values;
  std::vector<std::byte> cell(kCellBytes);
  for (std::uint32_t at = 0; at < book.cells(); ++at) {
    if (!image.read(reinterpret_cast<char*>(cell.data()), kCellBytes))
      return "cannot read cell " + std::to_string(at) + " of " + given.image;
    values.push_back(value_of(cell, at, book.seed()).value_or(kBroken));
  }
  book.add_final_content(std::move(values));
  return {};
}

int judge(const Given& given) {
  Book book;
  for (const std::string& name : given.histories) {
    std::ifstream text(name);
    if (!text) return refuse("cannot read " + name);
    const auto added = book.add(text, name);
    if (added) continue;
    say({{"broken", {added.error()}}});
    return kBad;
  }
  if (!given.image.empty())
    if (const std::string why = read_image(given, book); !why.empty()) return refuse(why);
  const Findings found = book.judge();
  say({{"broken", found.broken},
       {"writes", found.writes},
       {"reads", found.reads},
       {"failed", found.failed},
       {"unanswered", found.unanswered},
       {"compared", found.compared}});
  return found.broken.empty() ? kOk : kBad;
}

void number(CLI::App& app, const char* name, std::uint32_t& value, const char* help, std::uint32_t least,
            std::uint32_t most) {
  app.add_option(name, value, help)->capture_default_str()->check(CLI::Range(least, most));
}

void load_options(CLI::App& run, Given& given) {
  LoadOptions& load = given.load;
  run.add_option("--path", given.paths, "SRC@DST, one a path")->required();
  run.add_option("--port", given.port)->capture_default_str();
  run.add_option("--session", given.session)->capture_default_str();
  run.add_option("--device", given.device)->capture_default_str();
  run.add_option("--history", given.history, "file of what was asked and answered")->required();
  run.add_option("--trace", given.trace, "file for urtrs-replay, with what went over the wire");
  run.add_option("--seed", load.seed)->capture_default_str();
  run.add_option("--base", load.base, "first byte of the cells")->capture_default_str();
  number(run, "--client", load.client, "its number; no two loads of a device have the same", 0, kMaxClient);
  number(run, "--cells", load.cells, "cells of 4 KiB, of all clients", 1, kMaxCells);
  number(run, "--first", load.first, "cell of this client", 0, kMaxCells);
  number(run, "--used", load.used, "cells of this client; 0: all from there on", 0, kMaxCells);
  number(run, "--depth", load.depth, "requests in flight at most", 1, 512);
  number(run, "--rate", load.rate, "requests a second", 1, 1'000'000);
  number(run, "--longest", load.longest, "cells of one request", 1, 31);
  number(run, "--write-percent", load.write_percent, "of the requests", 0, 100);
  Timing& timing = given.timing;
  constexpr std::uint32_t kHour = 3'600'000;
  number(run, "--heartbeat-ms", timing.heartbeat_ms, "between heartbeats", 10, kHour);
  number(run, "--missed", timing.missed, "heartbeats until the peer counts as dead", 1, 1000);
  number(run, "--connect-ms", timing.connect_ms, "for each connection", 10, kHour);
  number(run, "--info-ms", timing.info_ms, "for the exchange after them", 10, kHour);
  number(run, "--fence-ms", timing.fence_ms, "for the answer to a fence", 10, kHour);
  number(run, "--queue-ms", timing.queue_ms, "that requests wait without any path", 10, kHour);
  number(run, "--reconnect-min-ms", timing.reconnect_min_ms, "before the first attempt", 1, kHour);
  number(run, "--reconnect-max-ms", timing.reconnect_max_ms, "before an attempt", 1, kHour);
  number(run, "--jitter-ms", timing.jitter_ms, "added to that at most", 0, kHour);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  tools::expect_removed_devices();
  Given given;
  CLI::App app{"A load on an urtrs device that knows what it wrote, and its judge", "netns-load"};
  app.require_subcommand(1);
  app.footer(kFooter);
  CLI::App* run = app.add_subcommand("run", "read and write cells until told to finish");
  load_options(*run, given);
  CLI::App* verdict = app.add_subcommand("judge", "does every read agree with what was written?");
  verdict->add_option("HISTORY", given.histories, "of all clients of the device")->required();
  verdict->add_option("--image", given.image, "the device afterwards");
  verdict->add_option("--base", given.load.base, "first byte of the cells")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  }
  if (*verdict) return judge(given);
  const LoadOptions& load = given.load;
  if (load.first >= load.cells || load.used > load.cells - load.first)
    return refuse("--first and --used must lie within --cells");
  return Runner(given).run();
}
