#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "conformance/contract/child_process.hpp"
#include "conformance/contract/libfabric_pair.hpp"

namespace rtrs::conformance {
namespace {

// Sleeps until the fabric's descriptor is readable; returns false after 10 s.
bool await(ofi::OfiFabric& fabric) {
  if (!fabric.try_wait()) return true;
  pollfd waiting{.fd = fabric.wait_fd(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 10000) == 1;
}

[[noreturn]] void pause_forever() {
  for (;;) ::pause();
}

// Opens a fabric and then sleeps.
int hold() {
  const auto fabric = ofi::open_ofi_fabric({});
  if (!fabric) return 1;
  std::puts("open");
  std::fflush(stdout);
  pause_forever();
}

// Like hold(), but SIGTERM runs a handler, which raises SIGKILL.
int hold_with_handler() {
  struct sigaction action {};
  action.sa_handler = [](int) { ::raise(SIGKILL); };
  ::sigaction(SIGTERM, &action, nullptr);
  return hold();
}

// Accepts one connection and sends the client a memory target. Does nothing more after the first immediate.
int stop_receiving() {
  const auto opened = ofi::open_ofi_fabric({});
  if (!opened) return 1;
  ofi::OfiFabric& fabric = **opened;
  const auto region = fabric.allocate(1 << 20);
  if (!region) return 1;
  const auto remote_key = fabric.make_key(region->id, 0, region->bytes.size());
  if (!remote_key || fabric.listen({.source = {}, .destination = "127.0.0.1", .port = 0}) != Errc::ok)
    return 1;
  std::printf("%u\n", fabric.listening_port());
  std::fflush(stdout);
  const ConKey key{.path = 0, .con = 0, .epoch = 1};
  std::array<FabricEvent, 16> events;
  do {
    for (const FabricEvent& event : std::span(events).first(fabric.poll(steady_now(), events))) {
      if (std::holds_alternative<event::ImmReceived>(event)) pause_forever();
      const auto* request = std::get_if<event::ConnectRequested>(&event);
      if (request == nullptr) continue;
      fabric.accept(request->request, key, {.send_depth = 16, .receive_depth = 16},
                    std::as_bytes(std::span(&*remote_key, 1)));
      fabric.post_receive(key, 16, 256);
    }
  } while (await(fabric));
  return 1;
}

}  // namespace

int play_child_role(const std::string& role) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (role == "hold") return hold();
  if (role == "hold-with-handler") return hold_with_handler();
  if (role == "go-deaf") return stop_receiving();
  return 2;
}

}  // namespace rtrs::conformance

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--child") return rtrs::conformance::play_child_role(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
