#include "tools/urtrs-perf/server.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "backends/platform/address/socket_address.hpp"
#include "core/driver/server.hpp"
#include "core/record/recorder.hpp"
#include "tools/urtrs-perf/fabric.hpp"
#include "tools/urtrs-perf/interrupt.hpp"
#include "tools/urtrs-perf/pattern.hpp"
#include "tools/urtrs-perf/recording.hpp"
#include "tools/urtrs-perf/run_loop.hpp"

namespace rtrs::perf {
namespace {

std::uint16_t answer(const ServerEvent& request) {
  const auto header = parse_header(request.user_header);
  if (!header) return EINVAL;
  if (!header->verify) return 0;
  if (request.direction == Direction::read) {
    fill_pattern(request.data, header->offset, header->seed);
    return 0;
  }
  return first_difference(request.data, header->offset, header->seed) ? EBADMSG : 0;
}

class PerfServer {
 public:
  PerfServer(const Options& options, Fabric& fabric)
      : options_(options),
        fabric_(fabric),
        server_(config_of(options, fabric), options.recorder ? &recorder_ : nullptr) {}

  int run() {
    if (options_.fresh_keys && !fabric_.capabilities().invalidation) {
      fmt::print(stderr,
                 "urtrs-perf: --rdma-invalidation: this fabric cannot invalidate keys; remove the option\n");
      return kPrecondition;
    }
    if (!open_record(recorder_, options_, "server", fabric_.capabilities().name)) return kPrecondition;
    const Errc listening = listen();
    if (listening != Errc::ok) {
      fmt::print(stderr, "urtrs-perf: cannot listen on {} port {}: {}{}\n",
                 options_.listen.empty() ? "any address" : options_.listen, options_.port,
                 to_string(listening),
                 listening == Errc::address_in_use  ? "; --port chooses another port"
                 : listening == Errc::no_permission ? "; ports below 1024 need root or CAP_NET_BIND_SERVICE"
                                                    : "");
      return listening == Errc::invalid ? kUsage : kPrecondition;
    }
    fmt::print("listening on port {}\n", fabric_.listening_port());
    std::fflush(stdout);
    serve([] { return caught_signal() != 0; });
    server_.close(fabric_, asio::steady_now());
    const Nanos end = asio::steady_now() + kCloseTime;
    serve([this, end] { return server_.closed() || asio::steady_now() >= end; });
    const ServerStats& stats = server_.stats();
    fmt::print("{} requests, {} sessions, {} errors, {} refused messages\n", stats.requests,
               stats.sessions_opened, stats.error_responses, stats.refused_messages);
    return close_record(recorder_, options_) ? kOk : kFailed;
  }

 private:
  // Listens on all addresses; a host name stands for all its addresses.
  Errc listen() {
    std::string why;
    std::vector<std::string> addresses{options_.listen};
    if (!options_.listen.empty()) addresses = net::listen_addresses(options_.listen, why);
    Errc result = Errc::bad_address;
    for (const std::string& address : addresses) {
      result = server_.listen(fabric_, asio::steady_now(), {address, "", options_.port});
      if (result != Errc::ok) break;
    }
    return result;
  }
  static ServerConfig config_of(const Options& options, const Fabric& fabric) {
    ServerConfig config;
    config.queue_depth = options.queue_depth;
    config.chunk_size = options.chunk_size;
    config.heartbeat = options.protocol.heartbeat;
    config.always_invalidate = options.fresh_keys;
    return clamp_to(config, fabric.capabilities());
  }

  template <class Done>
  void serve(Done done) {
    run_until(
        fabric_, options_.wait,
        [this](Nanos now) {
          const bool again = step(now);
          // While there is no session, even a busy-polling server sleeps, to save CPU time.
          if (options_.wait == Wait::busy && server_.session_count() == 0) nap(now);
          return again;
        },
        [this] { return std::min(server_.next_deadline(), asio::steady_now() + kNap); }, done);
  }

  bool step(Nanos now) {
    const std::size_t count = server_.poll(fabric_, now, events_);
    const Server::ResponseBatch answers(server_, fabric_);
    for (const ServerEvent& event : std::span(events_).first(count)) {
      if (event.kind == ServerEvent::Kind::request) server_.respond(fabric_, now, event.id, answer(event));
    }
    return count != 0;
  }

  void nap(Nanos now) {
    if (server_.next_deadline() <= now || !fabric_.try_wait()) return;
    pollfd ready{fabric_.wait_fd(), POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(kNap / milliseconds(1)));
  }

  const Options& options_;
  Fabric& fabric_;
  Recorder recorder_;
  Server server_;
  std::array<ServerEvent, 64> events_;
};

}  // namespace

int run_server(const Options& options) {
  const auto fabric = open_fabric(options);
  if (fabric == nullptr) return kPrecondition;
  return PerfServer(options, *fabric).run();
}

}  // namespace rtrs::perf
