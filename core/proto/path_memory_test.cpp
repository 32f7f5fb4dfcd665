// Tests that a path allocates memory for its connections when it is added. If the allocation fails, only that
// path is rejected.
#include "core/base/test_short_memory.hpp"
#include "core/proto/server_registry.hpp"
#include "core/proto/test_client_session.hpp"
#include "core/proto/test_server_session.hpp"

namespace rtrs::path_memory_test {
namespace {

TEST_F(ServerSessionTest, PathWithoutMemoryIsRejectedWithoutOtherEffect) {
  const Keys keys = bring_up(1);
  ConnectRequested wide = request(2, 0);
  wide.cid_num = kMaxCons;
  test::allocations_left = 1;
  ServerActions out;
  session->on(wide, out);
  const auto* reject = action_if<Reject>(*out.begin());
  ASSERT_NE(reject, nullptr);
  EXPECT_EQ(reject->reason, Reason::no_resources);
  EXPECT_EQ(reject->peer_errno, wire::linux_errno::kEnomem);
  EXPECT_EQ(state(keys.service), PathState::connected);
  feed(wide);
  EXPECT_EQ(all<Accept>().size(), 1U) << "with memory again";
}

TEST(ServerRegistryMemory, SessionWithoutMemoryIsRejected) {
  ServerRegistry registry{ServerConfig{}};
  RegistryActions out;
  SessionSought in{};
  in.first_conn = true;
  unsigned admitted = 0;
  while (true) {
    in.paths_uuid.bytes[0] = static_cast<std::uint8_t>(++in.request);
    out.clear();
    test::allocations_left = 1;
    registry.on(in, out);
    if (std::get_if<AdmitSession>(&out[0]) == nullptr) break;
    ++admitted;
  }
  EXPECT_EQ(std::get<Reject>(out[0]).reason, Reason::no_resources);
  test::allocations_left = 0;
  out.clear();
  registry.on(in, out);
  EXPECT_NE(std::get_if<AdmitSession>(&out[0]), nullptr);
  EXPECT_EQ(registry.session_count(), admitted + 1);
}

TEST(ClientPathMemory, PathWithoutMemoryStaysAbsent) {
  ClientConfig config = small_config();
  config.con_num = kMaxCons;
  ClientSession session(config);
  ClientActions out;
  test::allocations_left = 1;
  session.on(PathAdded{1, 0}, out);
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(session.path(0).state(), PathState::absent);
  test::allocations_left = 0;
  session.on(PathAdded{1, 0}, out);
  EXPECT_EQ(session.path(0).state(), PathState::connecting);
}

}  // namespace
}  // namespace rtrs::path_memory_test
