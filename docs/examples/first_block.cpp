// first_block ADDRESS PORT DEVICE: copies the first 4 KiB of a remote device over the next 4 KiB.
#include <boost/asio.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <urtrs/backends/bindings/asio/remote_device.hpp>
#include <urtrs/backends/tcp/tcp.hpp>
#include <vector>

boost::asio::awaitable<void> copy_first_block(rtrs::asio::RemoteDevice& device) {
  using boost::asio::use_awaitable;
  std::vector<std::byte> block(4096);
  // Connects and opens the device. Retries failed connections without a limit.
  co_await device.async_map(use_awaitable);
  co_await device.async_read(0, block, use_awaitable);
  co_await device.async_write(4096, block, false, use_awaitable);
  co_await device.async_flush(use_awaitable);
  co_await device.async_close(use_awaitable);
}

int main(int argc, char** argv) {
  const std::string_view text = argc == 4 ? argv[2] : "";
  std::uint16_t port = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), port).ptr != text.data() + text.size() ||
      port == 0) {
    std::fprintf(stderr, "usage: first_block ADDRESS PORT DEVICE\n");
    return 2;
  }
  rtrs::tcp::TcpOptions tcp;
  tcp.log = [](rtrs::tcp::LogLevel level, const std::string& text) {
    if (level >= rtrs::tcp::LogLevel::warning) std::fprintf(stderr, "first_block: %s\n", text.c_str());
  };
  auto fabric = rtrs::tcp::open_tcp_fabric(tcp);
  if (!fabric) return 1;
  rtrs::asio::RemoteDeviceOptions options;
  options.session_name = "first-block";
  options.paths = {{"", argv[1], port}};  // one or more
  options.device = argv[3];
  boost::asio::io_context context;
  rtrs::asio::RemoteDevice device(context, std::move(*fabric), options);
  auto copied = boost::asio::co_spawn(context, copy_first_block(device), boost::asio::use_future);
  context.run();  // returns when no operation is outstanding
  try {
    copied.get();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "first_block: %s: %s\n", argv[3], error.what());
    return 1;
  }
}
