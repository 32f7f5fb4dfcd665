// bench_device [COUNT]: runs COUNT writes and reads of 4 KiB with RemoteDevice, 16 in flight, to a server in
// the same thread, without a network. To count instructions per IO, run it with two counts and take the
// difference.
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "conformance/asio/loop_server.hpp"

namespace {

using namespace rtrs;

class Bench {
 public:
  explicit Bench(unsigned long count) : left_(count) { disks_["disk"].bytes.resize(1 << 20); }

  bool run() {
    asio::RemoteDeviceOptions options;
    options.session_name = "bench_device";
    options.paths = {PathAddress{"", "loop", 1}};
    options.device = "disk";
    options.wait = asio::WaitMode::busy_poll;
    asio::RemoteDevice device(context_, server_.take_client_fabric(), options);
    bool mapped = false;
    device.async_map([&](const boost::system::error_code& error) { mapped = !error; });
    while (!mapped) turn();
    device_ = &device;
    for (unsigned depth = 0; depth < 16; ++depth) next();
    while (in_flight_ != 0) turn();
    return !failed_;
  }

 private:
  void turn() {
    server_.step();
    context_.restart();
    context_.run_one();
  }
  void next() {
    if (left_ == 0) return;
    --left_;
    ++in_flight_;
    const auto done = [this](const boost::system::error_code& error) {
      --in_flight_;
      failed_ = failed_ || error;
      next();
    };
    if (left_ % 2 == 0)
      device_->async_write(4096, data_, false, done);
    else
      device_->async_read(4096, data_, done);
  }

  boost::asio::io_context context_{1};
  sim::MemoryDisks disks_;
  conformance::LoopServer server_{disks_};
  asio::RemoteDevice* device_ = nullptr;
  std::vector<std::byte> data_ = std::vector<std::byte>(4096);
  unsigned long left_;
  unsigned in_flight_ = 0;
  bool failed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned long count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100'000;
  if (Bench(count).run()) return 0;
  std::fprintf(stderr, "bench_device: a request failed\n");
  return 1;
}
