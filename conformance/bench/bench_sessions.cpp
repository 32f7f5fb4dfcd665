// Cost of server sessions, depending on their number: `bench_sessions [SESSIONS ...]`. Prints CPU time and
// memory per session setup, and CPU time per IO, with IOs sent on all sessions in turn. A special fabric acts
// as the clients, so only the server's driver, state machines and recorder are measured.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/driver/server.hpp"
#include "core/fabric/plain_fabric.hpp"
#include "core/record/recorder.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace {

using namespace rtrs;

constexpr std::uint16_t kCons = 2;
constexpr unsigned kIos = 100'000;

class StarFabric final : public PlainFabric {
 public:
  StarFabric() {
    can_.name = "star";
    can_.max_send_depth = can_.max_receive_depth = 65535;
    can_.max_message = 1U << 30;
    can_.connect_data = can_.accept_data = can_.reject_data = 64;
  }
  const Capabilities& capabilities() const noexcept override { return can_; }
  Result<Region> allocate(std::size_t bytes) override {
    // As in a real backend, a page takes memory only after its first use.
    void* memory = std::calloc(1, bytes);
    if (memory == nullptr) return tl::unexpected(Errc::no_memory);
    regions_.push_back({static_cast<std::byte*>(memory), bytes});
    return Region{static_cast<RegionId>(regions_.size() - 1), regions_.back()};
  }
  Result<Region> register_memory(std::span<std::byte>) override {
    return tl::unexpected(Errc::not_supported);
  }
  void release(RegionId id) override { std::free(std::exchange(regions_[id], {}).data()); }
  Result<RemoteKey> make_key(RegionId id, std::size_t offset, std::size_t) override {
    target_ = regions_[id].data() + offset;
    return RemoteKey{id, 1, reinterpret_cast<std::uint64_t>(target_)};
  }
  void release_key(RemoteKeyId) override {}
  void invalidate(ConKey, RemoteKeyId, std::uint64_t) override {}
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override { return 1U; }
  Errc listen(const PathAddress&) override { return Errc::ok; }
  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override {}
  void accept(std::uint32_t, ConKey key, const ConnectionParams&, std::span<const std::byte>) override {
    accepted_ = key;
  }
  void reject(std::uint32_t, std::span<const std::byte>) override { rejected_ = true; }
  void disconnect(ConKey) override {}
  std::string describe(ConKey) const override { return "star"; }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}
  std::size_t post(std::span<const WorkRequest> work) noexcept override {
    for (const WorkRequest& one : work)
      if (one.signalled) tell(event::SendDone{one.key, one.cookie});
    return work.size();
  }
  std::size_t poll(Nanos, std::span<FabricEvent> out) noexcept override {
    const std::size_t count = std::min(out.size(), waiting_);
    std::copy_n(events_.begin(), count, out.begin());
    waiting_ -= count;
    std::copy_n(events_.begin() + static_cast<std::ptrdiff_t>(count), waiting_, events_.begin());
    return count;
  }

  void tell(const FabricEvent& event) { events_.at(waiting_++) = event; }
  ConKey accepted() const { return accepted_; }
  bool rejected() const { return rejected_; }
  std::byte* target() const { return target_; }

 private:
  Capabilities can_;
  std::array<FabricEvent, 64> events_;
  std::size_t waiting_ = 0;
  bool rejected_ = false;
  ConKey accepted_{};
  std::byte* target_ = nullptr;  // target of the last make_key()
};

struct Client {
  ConKey io;
  std::byte* chunks = nullptr;
};

class Star {
 public:
  explicit Star(unsigned sessions) : server_(config(sessions), &recorder_) {
    if (server_.listen(fabric_, now_, {}) != Errc::ok) fail("listen");
    for (unsigned i = 0; i < sessions; ++i) connect(i);
  }
  // Sends a 4 KiB write on the next session and completes it.
  void io() {
    Client& client = clients_[next_];
    next_ = next_ + 1 == clients_.size() ? 0 : next_ + 1;
    constexpr std::uint32_t kData = 4096, kUser = 32;
    std::array<std::byte, wire::kWriteHeaderBytes> header{};
    wire::IoRequest about;
    about.usr_len = kUser;
    const std::size_t length = wire::encode(about, header);
    std::memcpy(client.chunks + kData + kUser, header.data(), length);
    tell(event::ImmReceived{client.io, wire::encode_io_req(config(1).queue_depth, 0, kData + kUser)});
    if (answered_ != ++asked_) fail("an IO was not served");
  }

 private:
  static ServerConfig config(unsigned sessions) {
    ServerConfig config;
    config.max_sessions = static_cast<std::uint16_t>(sessions);
    config.imm_consumes_receive = false;
    config.send_invalidate = false;
    config.extensions = wire::Extensions::none;
    return config;
  }
  [[noreturn]] static void fail(const char* what) {
    std::fprintf(stderr, "bench_sessions: %s\n", what);
    std::exit(1);
  }
  void tell(const FabricEvent& event) {
    fabric_.tell(event);
    now_ += 1000;
    std::array<ServerEvent, 4> events;
    const std::size_t count = server_.poll(fabric_, now_, events);
    for (std::size_t i = 0; i < count; ++i) {
      if (events[i].kind != ServerEvent::Kind::request) continue;
      server_.respond(fabric_, now_, events[i].id, 0);
      ++answered_;
    }
  }
  void connect(unsigned number) {
    wire::ConnReq request;
    request.cid_num = kCons;
    request.recon_cnt = 1;
    request.first_conn = true;
    std::memcpy(request.sess_uuid.bytes.data(), &++number, sizeof number);
    request.paths_uuid = request.sess_uuid;
    ConKey service;
    std::array<std::byte, wire::kConnReqBytes> bytes;
    for (request.cid = 0; request.cid < kCons; ++request.cid) {
      event::ConnectRequested requested;
      requested.address_pair = number;
      requested.private_data = std::span(bytes).first(wire::encode(request, bytes));
      tell(requested);
      if (fabric_.rejected()) fail("a connection was rejected");
      if (request.cid == 0) service = fabric_.accepted();
    }
    std::array<std::byte, wire::kInfoReqBytes> info;
    const std::size_t length =
        wire::encode(wire::InfoReq{wire::make_name("s" + std::to_string(number)).value}, info);
    tell(event::MessageReceived{service, {}, std::span(info).first(length)});
    clients_.push_back({fabric_.accepted(), fabric_.target()});
  }

  Nanos now_ = 1;
  StarFabric fabric_;
  Recorder recorder_;
  Server server_;
  std::vector<Client> clients_;
  std::size_t next_ = 0;
  std::uint64_t asked_ = 0, answered_ = 0;
};

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * 4096 / (1 << 20);
}

void measure(unsigned sessions) {
  const double memory = resident_mib();
  const double begun = cpu_seconds();
  const auto star = std::make_unique<Star>(sessions);
  const double connected = cpu_seconds();
  // Warm-up: touches every chunk in use once and fills the recorder's ring.
  for (unsigned i = 0; i < std::max(kIos / 4, 40 * sessions); ++i) star->io();
  const double warm = cpu_seconds();
  for (unsigned i = 0; i < kIos; ++i) star->io();
  const double done = cpu_seconds();
  std::printf("%8u %14.1f %14.2f %12.0f\n", sessions, 1e6 * (connected - begun) / sessions,
              (resident_mib() - memory) / sessions, 1e9 * (done - warm) / kIos);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<unsigned> all{1, 100, 1000};
  if (argc > 1) all.clear();
  for (int i = 1; i < argc; ++i) all.push_back(static_cast<unsigned>(std::atoi(argv[i])));
  std::printf("sessions  connect, us   MiB a session   ns an IO\n");
  for (const unsigned sessions : all) measure(std::clamp(sessions, 1U, kMaxSessions));
  return 0;
}
