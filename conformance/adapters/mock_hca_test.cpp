// Adapter behaviour that soft-RoCE does not show, and program errors that the in-memory adapters detect.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "conformance/contract/contract.hpp"
#include "conformance/contract/verbs_pair.hpp"
#include "sim/net/adapters/test_no_problems.hpp"

namespace rtrs::conformance::mock_hca_test {
namespace {

using Kind = SeenEvent::Kind;

constexpr int kIdleMs = 1;
const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

std::unique_ptr<FabricPair> make_pair() {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.gives_up_after = milliseconds(20);
  verbs::expect_removal();
  mock_hca::reset({profile});
  mock_hca::tick_by_itself(true);
  return VerbsPair::open(verbs_address(AF_INET), {}, kIdleMs);
}

std::unique_ptr<FabricPair> make_failing_chains() {
  mock_hca::Profile profile = mock_hca::mlx5();
  profile.type_1_in_chain = mock_hca::Profile::Type1Chain::fails;
  mock_hca::reset({profile});
  return VerbsPair::open(verbs_address(AF_INET), {}, kIdleMs);
}

class AdapterTest : public FabricContract {};
INSTANTIATE_TEST_SUITE_P(Mlx5, AdapterTest, ::testing::Values(FabricCase{"mlx5", make_pair}), case_name);

TEST_P(AdapterTest, removed_adapter_ends_connections_at_both_ends) {
  const Link link = open_link();
  make_revocable(link, 4096);
  mock_hca::take_out(0);
  // The loss is detected by the flushed work or by the device event, whichever is read first.
  expect(client(), Kind::connection_lost, link.client);
  expect(server(), Kind::connection_lost, link.server);
  close_link(link);
}

TEST_P(AdapterTest, a_failed_queue_pair_ends_one_connection) {
  const Link first = open_link();
  const Link second = open_link();
  mock_hca::fail_last_queue_pair(IBV_EVENT_QP_FATAL);
  EXPECT_TRUE(run_until([&] {
    return client().count(Kind::connection_lost, second.client) +
               server().count(Kind::connection_lost, second.server) !=
           0;
  }));
  post_one(client(), empty_imm(first.client, 7));
  EXPECT_EQ(expect(server(), Kind::imm_received, first.server).imm, 7U);
  close_link(first);
}

class ChainTest : public FabricContract {};
INSTANTIATE_TEST_SUITE_P(FailingChains, ChainTest, ::testing::Values(FabricCase{"mlx5", make_failing_chains}),
                         case_name);

TEST_P(ChainTest, an_adapter_that_refuses_chained_binds_is_tried_once) {
  const Link first = open_link(keyed(), 32, 256);
  const auto memory = server().fabric().allocate(4096);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(server().fabric().make_revocable_key(first.server, memory->id, 0, 4096));
  expect(server(), Kind::connection_lost, first.server);
  close_link(first);
  const Link second = open_link(keyed(), 32, 256);
  const Target target = make_revocable(second, 4096);
  const Region source = make_source(client(), "chained no more");
  post_one(client(), write_imm(second.client, source, 15, target, 0, 7));
  EXPECT_EQ(expect(server(), Kind::imm_received, second.server).imm, 7U);
  close_link(second);
}

TEST_P(AdapterTest, a_key_may_be_released_before_its_window_is_bound) {
  const Link link = open_link(keyed(), 32, 256);
  const Region memory = make_source(client(), "anything");
  const auto key = client().fabric().make_request_key(link.client, memory.id, 0, 8);
  ASSERT_TRUE(key);
  client().fabric().release_key(key->id);
  post_one(client(), empty_imm(link.client, 7));
  EXPECT_EQ(expect(server(), Kind::imm_received, link.server).imm, 7U);
  close_link(link);
}

TEST_P(AdapterTest, posted_work_reaches_the_device_before_the_disconnect) {
  const Link link = open_link();
  const std::uint64_t before = mock_hca::counts(0).work_requests;
  const WorkRequest last = empty_imm(link.client, 7);
  EXPECT_EQ(client().fabric().post(std::span(&last, 1)), 1U);
  client().fabric().disconnect(link.client);
  EXPECT_EQ(mock_hca::counts(0).work_requests, before + 1);
  server().fabric().disconnect(link.server);
  run_until_quiet();
}

// Opens a connection, writes and disconnects. Returns true if the write arrived; otherwise no test failure is
// recorded.
bool play(FabricPair& pair) {
  Side client(pair.client()), server(pair.server());
  const ConKey near{0, 0, 1}, far{0, 0, 2};
  if (server.fabric().listen(pair.listen_address()) != Errc::ok) return false;
  const auto memory = server.fabric().allocate(4096);
  const auto source = client.fabric().allocate(4096);
  ConnectionParams params;
  params.send_depth = params.receive_depth = params.key_depth = 16;
  client.fabric().connect(near, pair.server_address(), params, {});
  bool up = false, written = false, lost = false;
  for (unsigned turn = 0; turn < 400 && !written && !lost; ++turn) {
    if (client.poll(pair.now()) + server.poll(pair.now()) == 0 && !pair.idle() && turn > 100) break;
    SeenEvent event;
    if (server.take(Kind::connect_requested, event)) {
      server.fabric().accept(event.request, far, params, {});
      server.fabric().post_receive(far, 4, 64);
    }
    lost = client.count(Kind::connect_failed) + client.count(Kind::connection_lost) +
               server.count(Kind::connection_lost) !=
           0;
    if (!client.take(Kind::connected, event)) {
      written = up && server.count(Kind::imm_received) != 0;
      continue;
    }
    up = memory && source;
    const auto key =
        up ? server.fabric().make_revocable_key(far, memory->id, 0, 4096) : tl::unexpected(Errc::no_memory);
    if (!key) break;
    WorkRequest write;
    write.key = near;
    write.op = WorkRequest::Op::write_imm;
    write.imm = 5;
    write.rkey = key->rkey;
    write.remote_addr = key->remote_addr;
    write.parts[0] = {source->id, 0, 512};
    write.part_count = 1;
    // This poll posts the bind, so the key is valid before the client can use it.
    server.poll(pair.now());
    if (client.fabric().post(std::span(&write, 1)) != 1) break;
  }
  client.fabric().disconnect(near);
  server.fabric().disconnect(far);
  for (unsigned turn = 0; turn < 20; ++turn) client.poll(pair.now()), server.poll(pair.now());
  return written;
}

TEST(Ordering, RelaxedOrderingIsUsedOnlyIfRequested) {
  for (const bool relaxed : {false, true}) {
    mock_hca::reset({mock_hca::mlx5()});
    verbs::VerbsOptions options;
    options.relaxed_ordering = relaxed;
    const std::unique_ptr<VerbsPair> pair = VerbsPair::open("192.0.2.1", options, kIdleMs);
    ASSERT_NE(pair, nullptr);
    ASSERT_EQ(pair->server().listen(pair->listen_address()), Errc::ok);
    ASSERT_TRUE(pair->server().allocate(4096));
    EXPECT_EQ(mock_hca::relaxed_registrations(), relaxed ? 1U : 0U);
  }
}

// Lets the creation of each verbs object fail in turn. No object may leak, no missing object may be used, and
// the next connection must work.
TEST(MockHcaShortage, CreationOfAnyObjectMayFail) {
  unsigned failures = 0;
  bool creation_failed = true;
  for (unsigned skip = 0; creation_failed; ++skip) {
    ASSERT_LT(skip, 1000U);
    mock_hca::reset({mock_hca::mlx5()});
    mock_hca::fail_creations(skip, 1);
    const std::unique_ptr<VerbsPair> pair = VerbsPair::open("192.0.2.1", {}, kIdleMs);
    const bool through = pair != nullptr && play(*pair);
    creation_failed = mock_hca::creation_failed();
    failures += through ? 0 : 1;
    EXPECT_TRUE(through || creation_failed);
    const std::vector<std::string> problems = mock_hca::problems();
    EXPECT_TRUE(problems.empty()) << "without object " << skip << ": " << problems.front();
  }
  EXPECT_GT(failures, 10U);
}

// --- the adapters detect program errors ---

class MistakeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    mock_hca::reset({mock_hca::mlx5()});
    mock_hca::problems();
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    domain = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    queue = ibv_create_cq(context, 2, nullptr, channel, 0);
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    pair = ibv_create_qp(domain, &wanted);
  }
  void TearDown() override {
    if (pair != nullptr) ibv_destroy_qp(pair);
    if (queue != nullptr) ibv_destroy_cq(queue);
    ibv_destroy_comp_channel(channel);
    ibv_dealloc_pd(domain);
    ibv_close_device(context);
    EXPECT_EQ(mock_hca::objects(), 0U);
    mock_hca::problems();
  }
  // True if exactly one problem was reported and it contains `part`.
  static bool found(const std::string& part) {
    const std::vector<std::string> problems = mock_hca::problems();
    return problems.size() == 1 && problems[0].find(part) != std::string::npos;
  }
  void post_receives(unsigned count) {
    ibv_recv_wr request{}, *refused = nullptr;
    for (unsigned i = 0; i < count; ++i) EXPECT_EQ(ibv_post_recv(pair, &request, &refused), 0);
  }
  void change(ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    EXPECT_EQ(ibv_modify_qp(pair, &attributes, IBV_QP_STATE), 0);
  }
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  ibv_qp* pair = nullptr;
};

TEST_F(MistakeTest, OverrunOfACompletionQueueIsReported) {
  change(IBV_QPS_INIT);
  post_receives(3);
  change(IBV_QPS_ERR);
  EXPECT_TRUE(found("was overrun"));
}

TEST_F(MistakeTest, TooManyReceivesAreRefused) {
  change(IBV_QPS_INIT);
  post_receives(4);
  ibv_recv_wr request{}, *refused = nullptr;
  EXPECT_EQ(ibv_post_recv(pair, &request, &refused), ENOMEM);
  EXPECT_EQ(refused, &request);
}

TEST_F(MistakeTest, WorkBeforeTheQueuePairCanSendIsReported) {
  change(IBV_QPS_INIT);
  ibv_send_wr request{}, *refused = nullptr;
  EXPECT_EQ(ibv_post_send(pair, &request, &refused), EINVAL);
  EXPECT_TRUE(found("cannot send yet"));
}

TEST_F(MistakeTest, UnacknowledgedEventIsReported) {
  ::fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  EXPECT_EQ(ibv_req_notify_cq(queue, 0), 0);
  change(IBV_QPS_INIT);
  post_receives(1);
  change(IBV_QPS_ERR);
  ibv_cq* of = nullptr;
  void* owner = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &of, &owner), 0);
  EXPECT_NE(ibv_get_cq_event(channel, &of, &owner), 0) << "one event per arm";
  ibv_destroy_qp(std::exchange(pair, nullptr));
  ibv_destroy_cq(std::exchange(queue, nullptr));
  EXPECT_TRUE(found("events that nobody acknowledged"));
}

TEST_F(MistakeTest, DestroyingAQueueBeforeItsQueuePairIsReported) {
  EXPECT_EQ(ibv_destroy_cq(queue), EBUSY);
  EXPECT_TRUE(found("before its queue pair"));
}

TEST_F(MistakeTest, DestroyingAnIdentifierBeforeItsQueuePairIsReported) {
  rdma_event_channel* const events = rdma_create_event_channel();
  ::fcntl(events->fd, F_SETFL, O_NONBLOCK);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(1);
  ASSERT_EQ(inet_pton(AF_INET, "192.0.2.1", &there.sin_addr), 1);
  const auto next = [&](rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    ASSERT_EQ(rdma_get_cm_event(events, &event), 0);
    EXPECT_EQ(event->event, wanted);
    rdma_ack_cm_event(event);
  };
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&there), 1000), 0);
  next(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  next(RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param params{};
  params.qp_num = pair->qp_num;
  ASSERT_EQ(rdma_connect(id, &params), 0);
  rdma_destroy_id(id);
  rdma_destroy_event_channel(events);
  EXPECT_TRUE(found("before its queue pair"));
}

TEST_F(MistakeTest, DeregisteringMemoryUnderAWindowIsReported) {
  std::array<std::byte, 64> memory{};
  ibv_mr* region =
      ibv_reg_mr(domain, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* window = ibv_alloc_mw(domain, IBV_MW_TYPE_1);
  change(IBV_QPS_INIT);
  change(IBV_QPS_RTR);
  change(IBV_QPS_RTS);
  ibv_mw_bind bind{};
  bind.bind_info = {.mr = region,
                    .addr = reinterpret_cast<std::uintptr_t>(memory.data()),
                    .length = 64,
                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  const std::uint32_t before = window->rkey;
  EXPECT_EQ(ibv_bind_mw(pair, window, &bind), 0);
  EXPECT_NE(window->rkey, before);
  EXPECT_EQ(ibv_dereg_mr(region), EBUSY);
  EXPECT_TRUE(found("with windows bound"));
  ibv_dealloc_mw(window);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

TEST_F(MistakeTest, LeakedObjectsAreReported) {
  mock_hca::reset({mock_hca::mlx5()});
  EXPECT_TRUE(found("5 objects were leaked"));
}

}  // namespace
}  // namespace rtrs::conformance::mock_hca_test
