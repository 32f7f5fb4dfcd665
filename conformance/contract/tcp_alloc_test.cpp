// Checks that posting and polling allocate no memory after the warm-up of a connection.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "conformance/bench/count_allocations.hpp"
#include "conformance/contract/tcp_pair.hpp"

namespace rtrs::conformance {
namespace {

using bench::allocations;
std::unique_ptr<FabricPair> make_plain() {
  return TcpPair::open("127.0.0.1");
}
std::unique_ptr<FabricPair> make_crc() {
  tcp::TcpOptions options;
  options.crc = true;
  return TcpPair::open("127.0.0.1", options);
}

class TcpAllocation : public FabricContract {
 protected:
  // On each link in turn, sends a signalled write with an immediate and a message, and offers a key that the
  // peer invalidates, until `count` of each have arrived. Returns false if they do not arrive.
  bool run_io(const std::vector<Link>& links, const Region& source, const Target& target, unsigned count) {
    std::array<FabricEvent, 16> events;
    unsigned posted = 0;
    unsigned arrived = 0;
    for (unsigned fruitless = 0; arrived < 3 * count && fruitless < 10'000'000; ++fruitless) {
      if (posted < count && posted * 3 < arrived + 24) {
        const Link& link = links[posted % links.size()];
        const auto offered = server().fabric().make_request_key(link.server, target.region.id, 0, 8);
        if (!offered) return false;
        WorkRequest work[3] = {
            write_imm(link.client, source, 20'000, target, 0, posted), message(link.client, text_), {}};
        work[0].signalled = true;
        work[2].key = link.client;
        work[2].op = WorkRequest::Op::send_inv;
        work[2].rkey = offered->rkey;
        if (client().fabric().post(work) != 3) return false;
        offered_[posted++ % offered_.size()] = *offered;
      }
      client().fabric().poll(pair().now(), events);
      const std::size_t got = server().fabric().poll(pair().now(), events);
      for (const FabricEvent& event : std::span(events).first(got)) {
        const ConKey* const key = event::key_of(event);
        if (key != nullptr) server().fabric().post_receive(*key, 1, 1024);
        if (const auto* ended = std::get_if<event::KeyInvalidated>(&event)) release(ended->rkey);
        ++arrived;
        fruitless = 0;
      }
    }
    return arrived == 3 * count;
  }

  void release(std::uint32_t rkey) {
    for (RemoteKey& one : offered_) {
      if (one.rkey == rkey) server().fabric().release_key(std::exchange(one, RemoteKey{}).id);
    }
  }

  void expect_no_allocation(unsigned connections) {
    std::vector<Link> links;
    for (unsigned i = 0; i < connections; ++i) links.push_back(open_link(params(64, 32), 32, 1024));
    const Region source = make_source(client(), std::string(20'000, 'a'));
    const Target target = make_target(server(), 20'000);
    ASSERT_TRUE(run_io(links, source, target, 3000));
    const std::size_t before = allocations();
    const bool finished = run_io(links, source, target, 5000);
    const std::size_t during = allocations() - before;
    ASSERT_TRUE(finished);
    EXPECT_EQ(during, 0u);
    for (const Link& link : links) close_link(link);
  }

 private:
  const std::string text_ = std::string(1000, 't');
  std::array<RemoteKey, 64> offered_{};
};

TEST_P(TcpAllocation, the_counter_counts) {
  const std::size_t before = allocations();
  make_source(client(), "something");
  EXPECT_GT(allocations(), before);
}

TEST_P(TcpAllocation, io_on_one_connection_allocates_nothing) {
  expect_no_allocation(1);
}

TEST_P(TcpAllocation, io_on_many_connections_allocates_nothing) {
  expect_no_allocation(6);
}

INSTANTIATE_TEST_SUITE_P(Tcp, TcpAllocation,
                         ::testing::Values(FabricCase{"plain", make_plain}, FabricCase{"crc", make_crc}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
