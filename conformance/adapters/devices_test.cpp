// Hosts with several adapters: capabilities are determined per adapter, and only adapters in use are
// examined.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"
#include "core/driver/client.hpp"
#include "core/driver/server.hpp"

namespace rtrs::conformance::devices_test {
namespace {

using Kind = SeenEvent::Kind;
using verbs::Invalidation;
using verbs::LogLevel;

constexpr const char* kFirst = "192.0.2.1";
constexpr const char* kSecond = "192.0.2.2";

class Devices : public TwoEnds {
 protected:
  // Connects to this address; returns the capabilities of the server's connection.
  Capabilities capabilities_over(const std::string& address, ConKey near, ConKey far) {
    client.fabric->connect(
        near, {.source = {}, .destination = address, .port = server.fabric->listening_port()}, params(), {});
    EXPECT_TRUE(until([&] { return server.side->count(Kind::connect_requested) != 0; }));
    SeenEvent request;
    EXPECT_TRUE(server.side->take(Kind::connect_requested, request));
    const Capabilities can = server.fabric->capabilities_of_request(request.request);
    server.fabric->accept(request.request, far, params(), {});
    server.fabric->post_receive(far, 8, 64);
    client.fabric->post_receive(near, 8, 64);
    take(client, Kind::connected, near);
    return can;
  }
  void listen_anywhere() {
    ASSERT_EQ(server.fabric->listen({.source = {}, .destination = {}, .port = 0}), Errc::ok);
  }
  std::size_t warnings_of(const std::string& part) const {
    std::size_t count = 0;
    for (const auto& [level, text] : server.log)
      count += level == LogLevel::warning && text.find(part) != std::string::npos ? 1 : 0;
    return count;
  }
};

TEST_F(Devices, SoftRoceDoesNotReduceTheCapabilitiesOfAnAdapter) {
  open({mock_hca::mlx5(), mock_hca::rxe()});
  EXPECT_TRUE(fresh_keys_protect(server.fabric->capabilities()));
  listen_anywhere();
  const Capabilities hardware = capabilities_over(kFirst, {0, 0, 1}, {0, 0, 2});
  EXPECT_TRUE(fresh_keys_protect(hardware));
  EXPECT_FALSE(hardware.send_invalidate_is_slow);
  const Capabilities soft = capabilities_over(kSecond, {0, 0, 3}, {0, 0, 4});
  EXPECT_FALSE(fresh_keys_protect(soft));
  EXPECT_FALSE(soft.invalidation_fences);
  EXPECT_TRUE(soft.invalidation_breaks_on_packet_loss);
  EXPECT_TRUE(soft.send_invalidate_is_slow);
}

// The combined capabilities must not depend on the order of the adapters.
TEST_F(Devices, CombinedCapabilitiesAreTheUnionAndTheSlowest) {
  for (const auto& adapters :
       {std::vector{mock_hca::mlx5(), mock_hca::rxe()}, std::vector{mock_hca::rxe(), mock_hca::mlx5()}}) {
    open(adapters);
    const Capabilities& can = server.fabric->capabilities();
    EXPECT_TRUE(can.send_invalidate_is_slow);
    EXPECT_TRUE(can.send_invalidate);
    EXPECT_TRUE(can.per_io_keys);
    EXPECT_TRUE(can.invalidation_fences);
    EXPECT_FALSE(can.invalidation_breaks_on_packet_loss);
    EXPECT_EQ(can.max_send_depth, 16383U);
    EXPECT_EQ(can.max_message, 1U << 30);
    close();
  }
}

TEST_F(Devices, RefusedWindowsCountAsUnsupported) {
  mock_hca::Profile one = mock_hca::mlx5();
  one.refuses_windows = true;
  open({one});
  EXPECT_FALSE(server.fabric->capabilities().invalidation);
  EXPECT_FALSE(server.fabric->capabilities().per_io_keys);
}

TEST_F(Devices, Type2WindowsAloneSufficeForRequestKeys) {
  mock_hca::Profile one = mock_hca::mlx5();
  one.windows_type_1 = false;
  open({one});
  EXPECT_FALSE(server.fabric->capabilities().invalidation);
  listen(kFirst);
  connect_both_ends(kFirst);
  const auto memory = client.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(client.fabric->make_request_key({0, 0, 1}, memory->id, 0, 4096));
  EXPECT_TRUE(carries());
}

// Re-registering memory takes only system calls and no packets, so packet loss cannot break it.
TEST_F(Devices, RegistrationsSurvivePacketLoss) {
  for (const Invalidation how : {Invalidation::windows, Invalidation::registration}) {
    verbs::VerbsOptions options;
    options.invalidation = how;
    open({mock_hca::rxe()}, options);
    EXPECT_TRUE(server.fabric->capabilities().invalidation);
    EXPECT_EQ(server.fabric->capabilities().invalidation_breaks_on_packet_loss, how == Invalidation::windows);
    close();
  }
}

TEST_F(Devices, OnlyDevicesOfTheAddressesAreExamined) {
  verbs::VerbsOptions options;
  options.addresses = {kSecond};
  open({mock_hca::mlx5(), mock_hca::rxe()}, options);
  EXPECT_FALSE(fresh_keys_protect(server.fabric->capabilities()));
  EXPECT_TRUE(server.fabric->capabilities().send_invalidate_is_slow);
}

TEST_F(Devices, OnlyTheNamedDeviceIsExamined) {
  verbs::VerbsOptions options;
  options.device = "mlx5_0";
  open({mock_hca::mlx5(), mock_hca::rxe(), mock_hca::bnxt_re()}, options);
  EXPECT_TRUE(fresh_keys_protect(server.fabric->capabilities()));
  EXPECT_FALSE(server.fabric->capabilities().send_invalidate_is_slow);
}

TEST_F(Devices, AllDevicesAreExaminedForTheAnyAddress) {
  verbs::VerbsOptions options;
  options.addresses = {"0.0.0.0", kSecond};
  open({mock_hca::mlx5(), mock_hca::rxe()}, options);
  EXPECT_TRUE(fresh_keys_protect(server.fabric->capabilities()));
}

TEST_F(Devices, MaximumMessageFitsAllDevices) {
  mock_hca::Profile little = mock_hca::mlx5();
  little.name = "mlx5_1";
  little.max_message = 4096;
  open({mock_hca::mlx5(), little});
  EXPECT_EQ(server.fabric->capabilities().max_message, 4096U);
}

TEST_F(Devices, AdapterThatCannotCarryRtrsIsRefused) {
  mock_hca::Profile shallow = mock_hca::mlx5(), narrow = mock_hca::mlx5();
  shallow.max_qp_wr = 63;
  narrow.max_sge = 1;
  for (const auto& profile : {shallow, narrow}) {
    mock_hca::reset({profile});
    std::string said;
    verbs::VerbsOptions options;
    options.log = [&said](LogLevel, const std::string& text) { said += text; };
    const auto fabric = verbs::open_verbs_fabric(options);
    ASSERT_FALSE(fabric);
    EXPECT_NE(said.find("cannot carry RTRS: it lacks"), std::string::npos) << said;
    EXPECT_EQ(fabric.error(), Errc::not_supported);
  }
}

TEST_F(Devices, AdapterWithoutWindowsDoesNotDisableThemElsewhere) {
  verbs::VerbsOptions options;
  options.invalidation = Invalidation::windows;
  open({mock_hca::mlx5(), mock_hca::bnxt_re()}, options);
  listen_anywhere();
  const ConKey far{0, 0, 2};
  EXPECT_TRUE(capabilities_over(kFirst, {0, 0, 1}, far).invalidation);
  EXPECT_FALSE(capabilities_over(kSecond, {0, 0, 3}, {0, 0, 4}).invalidation);
  const auto memory = server.fabric->allocate(4096);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(server.fabric->make_revocable_key(far, memory->id, 0, 4096));
  EXPECT_EQ(mock_hca::held(0).windows, 1U);
}

TEST_F(Devices, MissingInvalidationIsLoggedOnce) {
  open({mock_hca::bnxt_re()});
  EXPECT_FALSE(server.fabric->capabilities().invalidation);
  listen(kFirst);
  EXPECT_EQ(warnings_of("keys are not invalidated"), 1U);
  connect_both_ends(kFirst);
  EXPECT_EQ(warnings_of("keys are not invalidated"), 1U);
  EXPECT_FALSE(client.logged("keys are not invalidated")) << "only a listening fabric warns";
}

TEST_F(Devices, RegistrationsInvalidateKeysIfRequestedByName) {
  verbs::VerbsOptions options;
  options.invalidation = Invalidation::registration;
  open({mock_hca::bnxt_re()}, options);
  EXPECT_TRUE(fresh_keys_protect(server.fabric->capabilities()));
  listen(kFirst);
  EXPECT_TRUE(server.logged("by registrations"));
  EXPECT_EQ(warnings_of(""), 0U);
}

TEST_F(Devices, InvalidationModeOfAListeningDeviceIsLogged) {
  open({mock_hca::mlx5()});
  listen(kFirst);
  EXPECT_TRUE(server.logged("mlx5_0: keys can be invalidated by memory windows"));
}

TEST_F(Devices, SendWithInvalidateNeedsTheDeviceFlag) {
  mock_hca::Profile old = mock_hca::mlx5();
  old.send_invalidate = false;
  open({old});
  EXPECT_FALSE(server.fabric->capabilities().send_invalidate);
}

// Sessions with one server over two adapters.
class Sessions : public Devices {
 protected:
  static constexpr std::uint16_t kDepth = 8;

  // Options of a new session with a path to each of these addresses.
  ClientOptions options_to(const std::vector<std::string>& addresses) {
    ++count_;
    ClientOptions options;
    options.session_name = "session" + std::to_string(count_);
    options.session_uuid.bytes[0] = static_cast<std::uint8_t>(count_);
    for (unsigned path = 0; path < kMaxPaths; ++path) {
      wire::Uuid uuid{};
      uuid.bytes[0] = static_cast<std::uint8_t>(count_);
      uuid.bytes[1] = static_cast<std::uint8_t>(path + 1);
      options.path_uuids.push_back(uuid);
    }
    options.protocol.con_num = 2;
    for (const std::string& address : addresses)
      options.paths.push_back({"", address, server.fabric->listening_port()});
    return options;
  }
  // Connects one session with one path to this address; returns how many windows it took on the adapter.
  std::size_t windows_of_session(const std::string& address, std::size_t adapter) {
    const std::size_t before = mock_hca::held(adapter).windows;
    const ClientOptions options = options_to({address});
    auto fabric = verbs::open_verbs_fabric({});
    Client one(clamp_to(options, (*fabric)->capabilities()), nullptr);
    EXPECT_EQ(one.open(**fabric, now), Errc::ok);
    for (unsigned i = 0; i < 800; ++i) turn(one, **fabric);
    EXPECT_EQ(one.paths().front().state, PathState::connected);
    return mock_hca::held(adapter).windows - before;
  }
  // Polls client and server once; returns how many requests completed successfully.
  std::size_t turn(Client& one, Fabric& fabric) {
    std::array<IoCompletion, kDepth> done;
    std::array<ServerEvent, kDepth> events;
    const std::size_t count = one.poll(fabric, now, done);
    const std::size_t seen = server_->poll(*server.fabric, now, events);
    for (const ServerEvent& event : std::span(events).first(seen))
      if (event.kind == ServerEvent::Kind::request) asked_.push_back(event.id);
    return static_cast<std::size_t>(
        std::count_if(done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count),
                      [](const IoCompletion& each) { return each.result == Errc::ok; }));
  }
  void answer_in_reverse() {
    for (; !asked_.empty(); asked_.pop_back()) server_->respond(*server.fabric, now, asked_.back(), 0);
  }
  std::size_t asked() const { return asked_.size(); }
  void serve(bool everywhere) {
    ServerConfig config;
    config.queue_depth = kDepth;
    config.chunk_size = 8192;
    config.max_hdr_size = 4096;
    config.always_invalidate = true;
    server_ = std::make_unique<Server>(clamp_to(config, server.fabric->capabilities()), nullptr);
    if (!everywhere) server_->invalidate_where_it_protects();
    ASSERT_EQ(server_->listen(*server.fabric, now, {}), Errc::ok);
  }
  void TearDown() override {
    server_.reset();
    Devices::TearDown();
  }

 private:
  unsigned count_ = 0;
  std::vector<RequestId> asked_;
  std::unique_ptr<Server> server_;
};

TEST_F(Sessions, EachSessionUsesTheKeysThatSuitItsDevice) {
  open({mock_hca::mlx5(), mock_hca::rxe(), mock_hca::bnxt_re()});
  serve(false);
  EXPECT_EQ(windows_of_session(kFirst, 0), kDepth);
  EXPECT_EQ(windows_of_session(kSecond, 1), 0U);
  EXPECT_EQ(windows_of_session("192.0.2.3", 2), 0U);
  EXPECT_EQ(warnings_of("keys are not invalidated"), 1U);
}

TEST_F(Sessions, AlwaysInvalidateAppliesToEveryDevice) {
  open({mock_hca::mlx5(), mock_hca::rxe(), mock_hca::bnxt_re()});
  serve(true);
  EXPECT_EQ(windows_of_session(kFirst, 0), kDepth);
  EXPECT_EQ(windows_of_session(kSecond, 1), kDepth);
  EXPECT_EQ(windows_of_session("192.0.2.3", 2), 0U);
  EXPECT_EQ(warnings_of("deregisters and registers memory"), 1U);
}

// Each adapter numbers its keys independently, so requests on different paths may have equal rkeys.
TEST_F(Sessions, InvalidatedKeyBelongsToTheReportingConnection) {
  mock_hca::Profile second = mock_hca::mlx5();
  second.name = "mlx5_1";
  open({mock_hca::mlx5(), second});
  serve(true);
  ClientOptions options = options_to({kFirst, kSecond});
  options.protocol.offer_invalidation = true;
  options.protocol.policy = MultipathPolicy::round_robin;
  auto fabric = verbs::open_verbs_fabric({});
  Client one(clamp_to(options, (*fabric)->capabilities()), nullptr);
  ASSERT_EQ(one.open(**fabric, now), Errc::ok);
  for (unsigned i = 0; i < 800; ++i) turn(one, **fabric);
  std::array<std::byte, 512> data;
  IoRequest request;
  request.user_header = std::span(data).first(24);
  request.data = data;
  for (unsigned round = 0; round < 40; ++round) {
    for (std::uint16_t i = 0; i < kDepth; ++i) ASSERT_EQ(one.submit(**fabric, now, request), Errc::ok);
    for (unsigned i = 0; i < 400 && asked() < kDepth; ++i) turn(one, **fabric);
    ASSERT_EQ(asked(), kDepth);
    answer_in_reverse();
    std::size_t done = 0;
    for (unsigned i = 0; i < 400 && done < kDepth; ++i) done += turn(one, **fabric);
    ASSERT_EQ(done, kDepth) << "in round " << round;
  }
  for (const auto& path : one.paths()) EXPECT_EQ(path.state, PathState::connected);
}

}  // namespace
}  // namespace rtrs::conformance::devices_test
