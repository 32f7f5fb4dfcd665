// polled ADDRESS PORT DEVICE: does the same as first_block without Boost.Asio; this program polls the client.
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <urtrs/backends/platform/system/clock.hpp>
#include <urtrs/backends/platform/system/identities.hpp>
#include <urtrs/backends/tcp/tcp.hpp>
#include <urtrs/core/driver/block_client.hpp>
#include <vector>

using namespace rtrs;

// Sleeps until the fabric has an event or a timer of the client is due. Returns immediately if the client is
// closed.
void sleep_until_something_is_due(Fabric& fabric, const BlockClient& client) {
  const Nanos now = platform::steady_now();
  const Nanos due = std::min(client.next_deadline(), now + seconds(60));
  if (client.closed() || due <= now || !fabric.try_wait()) return;
  pollfd news{fabric.wait_fd(), POLLIN, 0};
  ::poll(&news, 1, static_cast<int>((due - now) / milliseconds(1)) + 1);
}

int main(int argc, char** argv) {
  const std::string_view text = argc == 4 ? argv[2] : "";
  std::uint16_t port = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), port).ptr != text.data() + text.size() ||
      port == 0) {
    std::fprintf(stderr, "usage: polled ADDRESS PORT DEVICE\n");
    return 2;
  }
  auto opened = tcp::open_tcp_fabric({});
  if (!opened) return 1;
  Fabric& fabric = **opened;  // used by this client only
  BlockClientOptions options;
  options.session.session_name = "polled";
  options.session.paths = {{"", argv[1], port}};  // one or more
  platform::draw_identities(options.session);
  options.session = clamp_to(options.session, fabric.capabilities());
  std::vector<std::byte> block(4096);
  BlockClient client(options, nullptr);
  if (client.open(fabric, platform::steady_now()) != Errc::ok) return 1;
  const auto mapped = client.map(fabric, platform::steady_now(), argv[3], wire::rnbd::AccessMode::read_write);
  if (mapped.error != 0) return 1;

  // The requests run one after another. The first one waits until the device is open, at most
  // `queue_timeout`.
  std::array<BlockRequest, 3> requests;
  requests[0] = {.opcode = wire::rnbd::Opcode::read, .offset = 0, .length = 4096, .data = block.data()};
  requests[1] = {.opcode = wire::rnbd::Opcode::write, .offset = 4096, .length = 4096, .data = block.data()};
  requests[2] = {.opcode = wire::rnbd::Opcode::flush};
  std::size_t begun = 0;
  bool failed = false;
  const auto go_on = [&] {
    const bool more = !failed && begun < requests.size();
    if (more)
      failed = client.submit(fabric, platform::steady_now(), mapped.device, requests[begun++]) != Errc::ok;
    if (!more || failed) client.close(fabric, platform::steady_now());
  };
  go_on();
  while (!client.closed()) {
    std::array<BlockCompletion, 16> done;
    const std::size_t count = client.poll(fabric, platform::steady_now(), done);
    for (const BlockCompletion& one : std::span(done).first(count)) {
      failed = failed || one.result != Errc::ok;
      if (failed)
        std::fprintf(stderr, "polled: %s: %s, errno %u\n", argv[3], to_string(one.result), one.error);
      go_on();
    }
    for (BlockEvent event; client.take_event(event);) {  // events of paths are ignored here
      const auto* device = std::get_if<rnbd::DeviceChanged>(&event);
      if (device != nullptr && device->peer_errno != 0)
        std::fprintf(stderr, "polled: %s: the server answered errno %u\n", argv[3], device->peer_errno);
    }
    if (count == 0) sleep_until_something_is_due(fabric, client);
  }
  return failed ? 1 : 0;
}
