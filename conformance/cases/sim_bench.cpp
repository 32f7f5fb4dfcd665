#include "conformance/cases/sim_bench.hpp"

#include <gtest/gtest.h>

#include <array>

namespace rtrs::conformance {

namespace {
sim::NetworkConfig config_of(const Capabilities& capabilities) {
  sim::NetworkConfig config;
  config.capabilities = capabilities;
  return config;
}
}  // namespace

SimBench::SimBench(const Capabilities& capabilities)
    : network(config_of(capabilities)),
      tester_fabric(network, network.add_node(), choice),
      peer_fabric(network, network.add_node(), choice) {}

void SimBench::rest(Fabric&, Nanos until) {
  step(network.now());
  if (network.has_events(tester_fabric.node()) || network.has_events(peer_fabric.node())) return;
  const Nanos next = std::min({network.next_time(), deadline(), until});
  network.run_until(std::max(next, network.now()), choice);
}

SimServer::SimServer(SimBench& bench, Fabric& fabric, const Change& change) : store(disks) {
  disks["disk"].bytes.resize(std::size_t{1} << 20);
  ServerConfig config;
  config.queue_depth = kDepth;
  config.chunk_size = kChunk;
  config.send_depth = 128;
  if (change) change(config);
  server = std::make_unique<BlockServer>(clamp_to(config, bench.network.capabilities()), 0, nullptr);
  for (const char* port : {"n1.p0", "n1.p1"}) {
    EXPECT_EQ(server->listen(fabric, bench.now(), PathAddress{"", port, 1234}), Errc::ok);
  }
  bench.step = [this, &fabric](Nanos now) { store.serve(*server, fabric, now); };
  bench.deadline = [this] { return server->next_deadline(); };
}

ServerSetup SimServer::setup() const {
  ServerSetup setup;
  setup.targets = {PathAddress{"n0.p0", "n1.p0", 1234}, PathAddress{"n0.p1", "n1.p1", 1234}};
  setup.device = "disk";
  setup.scratch = true;
  return setup;
}

namespace {

// Purpose of a client request, stored in its user_data.
enum Kind : std::uint64_t { sess_info, open, io };

wire::Uuid uuid(std::uint8_t fill) {
  wire::Uuid made;
  made.bytes.fill(fill);
  return made;
}

}  // namespace

SimClient::SimClient(SimBench& bench, Fabric& fabric, const std::function<void(ClientConfig&)>& change)
    : bench_(bench),
      fabric_(fabric),
      info_(wire::rnbd::kSessInfoRspBytes),
      opened_(wire::rnbd::kOpenRspBytes),
      data_(4096) {
  options_.session_name = "judged";
  options_.paths = {PathAddress{"n1.p0", "n0.p0", 1234}};
  options_.session_uuid = uuid(1);
  for (std::uint8_t i = 0; i < kMaxPaths; ++i)
    options_.path_uuids.push_back(uuid(static_cast<std::uint8_t>(2 + i)));
  options_.protocol.send_depth = 128;
  options_.protocol.queue_timeout = kNever;
  options_.protocol.imm_consumes_receive = bench.network.capabilities().imm_consumes_receive;
  if (change) change(options_.protocol);
  begin(bench.now());
  bench.step = [this](Nanos now) { step(now); };
  bench.deadline = [this] {
    const bool waits = client_->link_up() && in_flight_ < 2;
    return std::min(client_->next_deadline(), waits ? next_io_ : kNever);
  };
}

void SimClient::begin(Nanos now) {
  client_ = std::make_unique<Client>(options_, nullptr);
  EXPECT_EQ(client_->open(fabric_, now), Errc::ok);
}

void SimClient::reopen_session() {
  client_->close(fabric_, bench_.now());
}

void SimClient::ask(Nanos now, std::uint64_t kind) {
  using namespace wire::rnbd;
  std::vector<std::byte> header(kind == sess_info ? kSessInfoBytes : kind == open ? kOpenBytes : kIoBytes);
  IoRequest request;
  request.user_data = kind;
  request.service = kind != io;
  request.data = kind == sess_info ? info_ : kind == open ? opened_ : data_;
  if (kind == sess_info) {
    EXPECT_NE(encode(SessInfo{}, header), 0U);
  } else if (kind == open) {
    EXPECT_NE(encode(Open{AccessMode::read_write, wire::make_name("disk").value}, header), 0U);
  } else {
    Io one;
    one.size = static_cast<std::uint32_t>(data_.size());
    one.opcode = write_next_ ? Opcode::write : Opcode::read;
    request.direction = write_next_ ? Direction::write : Direction::read;
    write_next_ = !write_next_;
    EXPECT_NE(encode(with_kernel_flags(one), header), 0U);
  }
  request.user_header = header;
  EXPECT_EQ(client_->submit(fabric_, now, request), Errc::ok);
}

void SimClient::step(Nanos now) {
  std::array<IoCompletion, 16> done;
  const std::size_t count = client_->poll(fabric_, now, done);
  for (const IoCompletion& one : std::span(done).first(count)) in_flight_ -= one.user_data == io ? 1U : 0U;
  if (client_->closed()) {
    in_flight_ = 0;
    begin(now);
  }
  PathEvent news;
  while (client_->take_news(news)) {
    if (news.kind != PathEvent::Kind::link_up) continue;
    ask(now, sess_info);
    ask(now, open);
  }
  if (!client_->link_up() || in_flight_ >= 2 || now < next_io_) return;
  ++in_flight_;
  next_io_ = now + milliseconds(10);
  ask(now, io);
}

}  // namespace rtrs::conformance
