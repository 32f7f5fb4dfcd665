#include "conformance/contract/contract.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace rtrs::conformance {

using Kind = SeenEvent::Kind;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string unpadded(std::string_view text) {
  const std::size_t last = text.find_last_not_of('\0');
  return std::string(text.substr(0, last == std::string_view::npos ? 0 : last + 1));
}

std::size_t Side::poll(Nanos now) {
  std::array<FabricEvent, 16> batch;
  const std::size_t count = fabric_->poll(now, batch);
  for (const FabricEvent& event : std::span(batch).first(count)) events_.push_back(test::seen(event));
  return count;
}

bool Side::take(Kind kind, SeenEvent& out) {
  const auto found =
      std::find_if(events_.begin(), events_.end(), [&](const SeenEvent& e) { return e.kind == kind; });
  if (found == events_.end()) return false;
  out = std::move(*found);
  events_.erase(found);
  return true;
}

bool Side::take(Kind kind, ConKey key, SeenEvent& out) {
  const auto found = std::find_if(events_.begin(), events_.end(),
                                  [&](const SeenEvent& e) { return e.kind == kind && e.key == key; });
  if (found == events_.end()) return false;
  out = std::move(*found);
  events_.erase(found);
  return true;
}

std::size_t Side::count(Kind kind, ConKey key) const {
  return static_cast<std::size_t>(std::count_if(
      events_.begin(), events_.end(), [&](const SeenEvent& e) { return e.kind == kind && e.key == key; }));
}

std::size_t Side::count(Kind kind) const {
  return static_cast<std::size_t>(
      std::count_if(events_.begin(), events_.end(), [&](const SeenEvent& e) { return e.kind == kind; }));
}

namespace {

// Records the capabilities for the table in docs/fabric.md (table.py).
void record(const Capabilities& can) {
  const auto note = [](const char* name, bool value) {
    ::testing::Test::RecordProperty(name, value ? 1 : 0);
  };
  note("imm_consumes_receive", can.imm_consumes_receive);
  note("send_invalidate", can.send_invalidate);
  note("send_invalidate_is_slow", can.send_invalidate_is_slow);
  note("per_io_keys", can.per_io_keys);
  note("invalidation", can.invalidation);
  note("invalidation_fences", can.invalidation_fences);
  note("invalidation_breaks_on_packet_loss", can.invalidation_breaks_on_packet_loss);
  note("done_means_delivered", can.done_means_delivered);
  note("detects_silent_peer", can.detects_silent_peer);
}

}  // namespace

void FabricContract::SetUp() {
  const std::string lacking = GetParam().lacking == nullptr ? "" : GetParam().lacking();
  if (!lacking.empty()) GTEST_SKIP() << lacking;
  pair_ = GetParam().make();
  ASSERT_NE(pair_, nullptr);
  record(pair_->client().capabilities());
  client_ = std::make_unique<Side>(pair_->client());
  server_ = std::make_unique<Side>(pair_->server());
  ASSERT_EQ(pair_->server().listen(pair_->listen_address()), Errc::ok);
}

void FabricContract::kill_server_now() {
  ASSERT_TRUE(pair_->kill_server());
  server_alive_ = false;
}

bool FabricContract::run_until(const std::function<bool()>& done) {
  unsigned fruitless = 0;
  while (!done()) {
    const Nanos now = pair_->now();
    std::size_t events = client_->poll(now);
    if (server_alive_) events += server_->poll(now);
    if (events != 0 || pair_->idle()) {
      fruitless = 0;
    } else if (++fruitless > pair_->patience()) {
      return done();
    }
  }
  return true;
}

void FabricContract::run_until_quiet() {
  for (;;) {
    const Nanos now = pair_->now();
    std::size_t events = client_->poll(now);
    if (server_alive_) events += server_->poll(now);
    if (events == 0 && !pair_->idle()) return;
  }
}

SeenEvent FabricContract::expect(Side& side, Kind kind) {
  SeenEvent event;
  EXPECT_TRUE(run_until([&] { return side.take(kind, event); }))
      << "no event of kind " << static_cast<int>(kind);
  return event;
}

SeenEvent FabricContract::expect(Side& side, Kind kind, ConKey key) {
  SeenEvent event;
  EXPECT_TRUE(run_until([&] { return side.take(kind, key, event); }))
      << "no event of kind " << static_cast<int>(kind) << " for epoch " << key.epoch;
  return event;
}

ConKey FabricContract::fresh_key() {
  const std::uint32_t epoch = next_epoch_++;
  return ConKey{.path = static_cast<std::uint16_t>(epoch % 5),
                .con = static_cast<std::uint16_t>(epoch % 3),
                .epoch = epoch};
}

ConnectionParams FabricContract::params(std::uint32_t send_depth, std::uint32_t receive_depth) {
  return ConnectionParams{.send_depth = send_depth, .receive_depth = receive_depth};
}

ConnectionParams FabricContract::keyed() {
  return ConnectionParams{.send_depth = 64, .receive_depth = 64, .key_depth = 4};
}

Link FabricContract::open_link(unsigned receives, std::uint32_t receive_bytes) {
  return open_link(params(), receives, receive_bytes);
}

Link FabricContract::open_link(const ConnectionParams& how, unsigned receives, std::uint32_t receive_bytes) {
  const Link link{.client = fresh_key(), .server = fresh_key()};
  client_->fabric().connect(link.client, pair_->server_address(), how, bytes_of("hello"));
  if (receives != 0) client_->fabric().post_receive(link.client, receives, receive_bytes);
  const SeenEvent request = expect(*server_, Kind::connect_requested);
  server_->fabric().accept(request.request, link.server, how, bytes_of("welcome"));
  if (receives != 0) server_->fabric().post_receive(link.server, receives, receive_bytes);
  expect(*client_, Kind::connected, link.client);
  return link;
}

void FabricContract::close_link(const Link& link) {
  client_->fabric().disconnect(link.client);
  server_->fabric().disconnect(link.server);
  expect(*client_, Kind::connection_closed, link.client);
  expect(*server_, Kind::connection_closed, link.server);
}

Target FabricContract::make_target(Side& owner, std::size_t bytes) {
  Target target;
  const auto region = owner.fabric().allocate(bytes);
  EXPECT_TRUE(region.has_value());
  if (!region) return target;
  target.region = *region;
  const auto remote_key = owner.fabric().make_key(region->id, 0, bytes);
  EXPECT_TRUE(remote_key.has_value());
  if (remote_key) target.remote_key = *remote_key;
  return target;
}

Target FabricContract::make_revocable(const Link& link, std::size_t bytes) {
  Target target;
  const auto region = server_->fabric().allocate(bytes);
  EXPECT_TRUE(region.has_value());
  if (!region) return target;
  target.region = *region;
  const auto remote_key = server_->fabric().make_revocable_key(link.server, region->id, 0, bytes);
  EXPECT_TRUE(remote_key.has_value());
  if (remote_key) target.remote_key = *remote_key;
  announce_key(link);
  return target;
}

void FabricContract::announce_key(const Link& link) {
  post_one(*server_, empty_imm(link.server, 0));
  expect(*client_, Kind::imm_received, link.client);
}

Region FabricContract::make_source(Side& owner, std::string_view text) {
  const auto region = owner.fabric().allocate(std::max<std::size_t>(text.size(), 1));
  EXPECT_TRUE(region.has_value());
  if (!region) return {};
  std::memcpy(region->bytes.data(), text.data(), text.size());
  return *region;
}

WorkRequest FabricContract::write_imm(ConKey key, const Region& from, std::uint32_t length, const Target& to,
                                      std::uint64_t offset, std::uint32_t imm) {
  WorkRequest work;
  work.key = key;
  work.op = WorkRequest::Op::write_imm;
  work.part_count = 1;
  work.parts[0] = LocalPart{.region = from.id, .offset = 0, .length = length};
  work.rkey = to.remote_key.rkey;
  work.remote_addr = to.remote_key.remote_addr + offset;
  work.imm = imm;
  return work;
}

WorkRequest FabricContract::empty_imm(ConKey key, std::uint32_t imm) {
  WorkRequest work;
  work.key = key;
  work.op = WorkRequest::Op::write_imm;
  work.imm = imm;
  return work;
}

WorkRequest FabricContract::message(ConKey key, std::string_view text) {
  WorkRequest work;
  work.key = key;
  work.op = WorkRequest::Op::send;
  work.inline_bytes = bytes_of(text);
  return work;
}

void FabricContract::post_all(Side& side, std::span<const WorkRequest> work) {
  EXPECT_TRUE(run_until([&] {
    work = work.subspan(side.fabric().post(work));
    return work.empty();
  }));
}

void FabricContract::post_one(Side& side, const WorkRequest& work) {
  post_all(side, std::span(&work, 1));
}

void FabricContract::expect_refused(const Link& link, const WorkRequest& work, const Target& target) {
  post_one(client(), work);
  expect(server(), Kind::connection_lost, link.server);
  expect(client(), Kind::connection_lost, link.client);
  const auto bytes = target.region.bytes;
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(server().count(Kind::imm_received), 0u);
  close_link(link);
}

}  // namespace rtrs::conformance
