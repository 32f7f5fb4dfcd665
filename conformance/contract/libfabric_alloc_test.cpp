// Checks that posting and polling allocate no memory after the warm-up of a connection.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "conformance/bench/count_allocations.hpp"
#include "conformance/contract/libfabric_pair.hpp"

namespace rtrs::conformance {
namespace {

using bench::allocations;
std::unique_ptr<FabricPair> make_tcp_pair() {
  return LibfabricPair::open("tcp", "127.0.0.1");
}

class LibfabricAllocation : public FabricContract {
 protected:
  // On each link in turn, sends a signalled write with an immediate, and a message longer than the inject
  // limit, until `count` of each have arrived. Returns false if they do not arrive.
  bool run_io(const std::vector<Link>& links, const Region& source, const Target& target, unsigned count) {
    std::array<FabricEvent, 16> events;
    unsigned posted = 0;
    unsigned arrived = 0;
    unsigned fruitless = 0;
    while (arrived < 2 * count && fruitless < 10'000'000) {
      ++fruitless;
      if (posted < count && posted * 2 < arrived + 16) {
        const Link& link = links[posted % links.size()];
        WorkRequest pair_of[2] = {write_imm(link.client, source, 512, target, 0, posted), {}};
        pair_of[0].signalled = true;
        pair_of[1] = message(link.client, text_);
        if (client().fabric().post(pair_of) != 2) return false;
        ++posted;
      }
      client().fabric().poll(pair().now(), events);
      const std::size_t got = server().fabric().poll(pair().now(), events);
      for (const FabricEvent& event : std::span(events).first(got)) {
        const auto* message = std::get_if<event::MessageReceived>(&event);
        if (message != nullptr) server().fabric().post_receive(message->key, 1, 1024);
        arrived += message != nullptr || std::holds_alternative<event::ImmReceived>(event);
        fruitless = 0;
      }
    }
    return arrived == 2 * count;
  }

  void expect_no_allocation(unsigned connections) {
    std::vector<Link> links;
    for (unsigned i = 0; i < connections; ++i) links.push_back(open_link(params(64, 32), 32, 1024));
    const Region source = make_source(client(), std::string(512, 'a'));
    const Target target = make_target(server(), 512);
    ASSERT_TRUE(run_io(links, source, target, 1000));
    const std::size_t before = allocations();
    const bool finished = run_io(links, source, target, 5000);
    const std::size_t during = allocations() - before;
    ASSERT_TRUE(finished);
    EXPECT_EQ(during, 0u);
    for (const Link& link : links) close_link(link);
  }

 private:
  const std::string text_ = std::string(1000, 't');
};

TEST_P(LibfabricAllocation, the_counter_counts) {
  const std::size_t before = allocations();
  make_source(client(), "something");
  EXPECT_GT(allocations(), before);
}

TEST_P(LibfabricAllocation, io_on_directly_polled_connections_allocates_nothing) {
  expect_no_allocation(1);
}

TEST_P(LibfabricAllocation, io_on_connections_polled_by_epoll_allocates_nothing) {
  expect_no_allocation(6);
}

INSTANTIATE_TEST_SUITE_P(Libfabric, LibfabricAllocation, ::testing::Values(FabricCase{"tcp", make_tcp_pair}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
