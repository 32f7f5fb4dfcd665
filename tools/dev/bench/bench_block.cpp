// bench_block COUNT read|write BYTES DEPTH: runs COUNT requests of BYTES through RemoteDevice and the Daemon
// of urtrsd, with DEPTH in flight, in one thread, without a network, on an export in memory. To count
// instructions, run it under `valgrind --tool=callgrind` with --toggle-collect='*client_turn*' for the client
// or '*server_turn*' for the server. Connecting and opening are not counted: a second thread opens the
// export, so the number of turns until then differs from run to run.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "conformance/bench/loop_fabric.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace {

using namespace rtrs;

struct Load {
  unsigned long count = 0;
  bool write = false;
  std::size_t bytes = 0;
  unsigned depth = 0;
};

daemon::DaemonConfig config() {
  daemon::DaemonConfig config = *daemon::parse_command_line({"--export", "disk=mem:8M", "--busy-poll"}).run;
  config.assume_kernel_6_12_clients = true;
  return config;
}

std::unique_ptr<Fabric> server_fabric(bench::LoopFabric& client) {
  auto fabric = std::make_unique<bench::LoopFabric>();
  bench::LoopFabric::join(client, *fabric);
  return fabric;
}

std::unique_ptr<daemon::StorageEngine> storage() {
  daemon::StorageEngine::Options options;
  options.pollable = false;
  return std::move(daemon::StorageEngine::create(options)).value();
}

class Bench {
 public:
  explicit Bench(const Load& load) : load_(load), data_(load.bytes) {}

  bool run() {
    if (daemon_.start() != 0) return false;
    asio::RemoteDeviceOptions options;
    options.session_name = "bench_block";
    options.paths = {PathAddress{"", "loop", 1}};
    options.device = "disk";
    options.wait = asio::WaitMode::busy_poll;
    asio::RemoteDevice device(client_, std::move(fabric_), options);
    bool mapped = false;
    device.async_map([&](const boost::system::error_code& error) { mapped = !error; });
    while (!mapped) connecting();
    device_ = &device;
    for (unsigned i = 0; i < load_.depth; ++i) next();
    while (in_flight_ != 0) turn();
    return !failed_;
  }

 private:
  [[gnu::noinline]] void connecting() {
    server_.poll_one();
    client_.restart();
    client_.poll_one();
  }
  void turn() {
    server_turn();
    client_turn();
  }
  [[gnu::noinline]] void server_turn() { server_.poll_one(); }
  [[gnu::noinline]] void client_turn() {
    client_.restart();
    client_.poll_one();
  }
  void next() {
    if (load_.count == 0) return;
    --load_.count;
    ++in_flight_;
    const auto done = [this](const boost::system::error_code& error) {
      --in_flight_;
      failed_ = failed_ || error;
      next();
    };
    if (load_.write)
      device_->async_write(4096, data_, false, done);
    else
      device_->async_read(4096, data_, done);
  }

  Load load_;
  std::vector<std::byte> data_;
  boost::asio::io_context client_{1};
  boost::asio::io_context server_{1};
  std::unique_ptr<bench::LoopFabric> fabric_ = std::make_unique<bench::LoopFabric>();
  daemon::Daemon daemon_{server_,
                         config(),
                         server_fabric(*fabric_),
                         daemon::Catalog::create(config().exports, std::nullopt).value(),
                         storage(),
                         daemon::ServiceEnvironment{}};
  asio::RemoteDevice* device_ = nullptr;
  unsigned in_flight_ = 0;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_block COUNT read|write BYTES DEPTH\n");
    return 2;
  }
  const Load load{std::strtoul(argv[1], nullptr, 10), std::string(argv[2]) == "write",
                  std::strtoul(argv[3], nullptr, 10),
                  static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10))};
  if (Bench(load).run()) return 0;
  std::fprintf(stderr, "bench_block: a request failed\n");
  return 1;
}
