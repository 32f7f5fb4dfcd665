#include "conformance/contract/verbs_pair.hpp"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

namespace rtrs::conformance {
namespace {

std::string text_of(const ibv_gid& gid, int family) {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool mapped = std::equal(kMapped.begin(), kMapped.end(), gid.raw);
  const bool local = gid.raw[0] == 0xfe && gid.raw[1] == 0x80;
  const bool empty = std::all_of(std::begin(gid.raw), std::end(gid.raw), [](auto byte) { return byte == 0; });
  if (local || empty || mapped != (family == AF_INET)) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, mapped ? gid.raw + kMapped.size() : gid.raw, text.data(), text.size());
  return text.data();
}

std::string address_of(ibv_device* device, int family) {
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) return {};
  std::string found;
  ibv_gid gid{};
  for (int index = 0; found.empty() && index < 16; ++index) {
    if (ibv_query_gid(context, 1, index, &gid) == 0) found = text_of(gid, family);
  }
  ibv_close_device(context);
  return found;
}

}  // namespace

std::string verbs_address(int family) {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  std::string found;
  for (int i = 0; found.empty() && i < count; ++i) found = address_of(devices[i], family);
  if (devices != nullptr) ibv_free_device_list(devices);
  return found;
}

std::unique_ptr<VerbsPair> VerbsPair::open(const std::string& host, const verbs::VerbsOptions& wanted,
                                           int idle_ms) {
  verbs::VerbsOptions options = wanted;
  options.log = [](verbs::LogLevel level, const std::string& text) {
    if (level >= verbs::LogLevel::warning) std::fprintf(stderr, "verbs: %s\n", text.c_str());
  };
  auto client = verbs::open_verbs_fabric(options);
  auto server = verbs::open_verbs_fabric(options);
  if (!client || !server) return nullptr;
  auto pair = std::make_unique<VerbsPair>();
  pair->host_ = host;
  pair->idle_ms_ = idle_ms;
  pair->client_ = std::move(*client);
  pair->server_ = std::move(*server);
  return pair;
}

PathAddress VerbsPair::unused_address() {
  // The port was free a moment ago and is not assigned again soon.
  const auto probe = verbs::open_verbs_fabric({});
  PathAddress address = listen_address();
  if (probe && (*probe)->listen(address) == Errc::ok) address.port = (*probe)->listening_port();
  return address;
}

Nanos VerbsPair::now() {
  return static_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool VerbsPair::idle() {
  const bool client_sleeps = client_->try_wait();
  const bool server_sleeps = server_ == nullptr || server_->try_wait();
  if (!client_sleeps || !server_sleeps) return true;
  std::array<pollfd, 2> fds{};
  fds[0] = {.fd = client_->wait_fd(), .events = POLLIN, .revents = 0};
  fds[1] = {.fd = server_ == nullptr ? -1 : server_->wait_fd(), .events = POLLIN, .revents = 0};
  return ::poll(fds.data(), fds.size(), idle_ms_) > 0;
}

}  // namespace rtrs::conformance
