// Queue pairs in a thread domain: with and without support by the adapter, and when the thread domain or the
// parent domain cannot be created.
#include <utility>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::thread_domains_test {
namespace {

class ThreadDomains : public TwoEnds {
 protected:
  static verbs::VerbsOptions wanted() {
    verbs::VerbsOptions options;
    options.thread_domains = true;
    return options;
  }
};

TEST_F(ThreadDomains, AreUsedAtBothEndsIfRequested) {
  open({mock_hca::mlx5()}, wanted());
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  EXPECT_EQ(mock_hca::queue_pairs_of_threads(), 2U);
  EXPECT_TRUE(client.logged("in a thread domain") && server.logged("in a thread domain"));
  EXPECT_TRUE(carries());
  leave();
}

TEST_F(ThreadDomains, AreNotUsedByDefault) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  EXPECT_EQ(mock_hca::queue_pairs_of_threads(), 0U);
  EXPECT_FALSE(client.logged("thread domain") || server.logged("thread domain"));
}

TEST_F(ThreadDomains, AreNotUsedIfTheAdapterLacksThem) {
  open({mock_hca::irdma()}, wanted());
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  EXPECT_EQ(mock_hca::queue_pairs_of_threads(), 0U);
  EXPECT_TRUE(client.logged("no thread domain") && server.logged("no thread domain"));
  EXPECT_EQ(client.unmet(), 1U) << "one warning per device";
  EXPECT_TRUE(carries());
  leave();
}

// If one of the two objects cannot be created, the other is freed and queue pairs are created without a
// thread domain.
TEST_F(ThreadDomains, AreNotUsedIfAnObjectCannotBeCreated) {
  unsigned without = 0;
  bool creation_failed = true;
  for (unsigned skip = 0; creation_failed; ++skip) {
    ASSERT_LT(skip, 100U);
    close();
    server.log.clear();
    open({mock_hca::mlx5()}, wanted());
    const std::size_t before = mock_hca::objects();
    mock_hca::fail_creations(skip, 1);
    const bool listens =
        server.fabric->listen({.source = {}, .destination = "192.0.2.1", .port = 0}) == Errc::ok;
    creation_failed = mock_hca::creation_failed();
    mock_hca::calm();
    EXPECT_TRUE(listens || mock_hca::objects() == before);
    if (!listens || !server.logged("no thread domain")) continue;
    ++without;
    connect_both_ends("192.0.2.1");
    EXPECT_EQ(mock_hca::queue_pairs_of_threads(), 1U) << "only that of the client";
    EXPECT_TRUE(carries());
  }
  EXPECT_EQ(without, 2U);
}

TEST_F(ThreadDomains, AreFreedAndCreatedAgainWithTheirAdapter) {
  open({mock_hca::mlx5()}, wanted());
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  mock_hca::take_out(0);
  take(client, SeenEvent::Kind::connection_lost, kNear);
  take(server, SeenEvent::Kind::connection_lost, kFar);
  leave();
  expect_nothing_of_devices(0);
  mock_hca::put_back(0);
  now += seconds(2);
  poll_both();
  connect_both_ends("192.0.2.1", kNearAgain, kFarAgain);
  EXPECT_EQ(mock_hca::queue_pairs_of_threads(), 2U);
}

// --- the adapters detect program errors ---

class ThreadDomainMistakes : public ::testing::Test {
 protected:
  void SetUp() override {
    mock_hca::reset({mock_hca::mlx5()});
    ibv_device** list = ibv_get_device_list(nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    domain = ibv_alloc_pd(context);
    ibv_td_init_attr plain{};
    thread = ibv_alloc_td(context, &plain);
    ibv_parent_domain_init_attr wanted{};
    wanted.pd = domain;
    wanted.td = thread;
    parent = ibv_alloc_parent_domain(context, &wanted);
    ASSERT_TRUE(thread != nullptr && parent != nullptr);
  }
  void TearDown() override {
    EXPECT_EQ(ibv_dealloc_pd(parent), 0);
    EXPECT_EQ(ibv_dealloc_td(thread), 0);
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    ibv_close_device(context);
    EXPECT_EQ(mock_hca::objects(), 0U);
    EXPECT_EQ(mock_hca::problems(), std::vector<std::string>{});
  }
  static bool found(const std::string& part) {
    const std::vector<std::string> problems = mock_hca::problems();
    return problems.size() == 1 && problems[0].find(part) != std::string::npos;
  }
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_td* thread = nullptr;
  ibv_pd* parent = nullptr;
};

TEST_F(ThreadDomainMistakes, FreeingAThreadDomainBeforeItsParentDomainIsReported) {
  EXPECT_EQ(ibv_dealloc_td(thread), EBUSY);
  EXPECT_TRUE(found("a thread domain was given back with 1 domains over it"));
}

TEST_F(ThreadDomainMistakes, FreeingADomainBeforeItsParentDomainIsReported) {
  EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY);
  EXPECT_TRUE(found("a domain was given back with 1 objects in it"));
}

}  // namespace
}  // namespace rtrs::conformance::thread_domains_test
