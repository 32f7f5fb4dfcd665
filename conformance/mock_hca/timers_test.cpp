// The verbs backend goes by the time that poll() is given.
#include "conformance/mock_hca/test_two_ends.hpp"

namespace rtrs::conformance {
namespace {

class Timers : public TwoEnds {};

TEST_F(Timers, AFarewellThatNobodyAnswersIsGivenUpByTheTimeOfPoll) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_whole("192.0.2.1");
  ASSERT_TRUE(carries());
  client.fabric->disconnect(kNear);
  for (unsigned i = 0; i < 80; ++i) poll(client);  // the server says nothing
  EXPECT_EQ(client.fabric->stats().unanswered_farewells, 0U);
  now += milliseconds(9'999);
  poll(client);
  EXPECT_EQ(client.fabric->stats().unanswered_farewells, 0U);
  now += milliseconds(1);
  poll(client);
  EXPECT_EQ(client.fabric->stats().unanswered_farewells, 1U);
}

TEST_F(Timers, AnAnswerThatIsThereByTheDeadlineCounts) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_whole("192.0.2.1");
  client.fabric->disconnect(kNear);
  poll(client);
  for (unsigned i = 0; i < 80; ++i) poll(server);
  now += seconds(20);
  poll(client);
  EXPECT_EQ(client.fabric->stats().unanswered_farewells, 0U);
}

}  // namespace
}  // namespace rtrs::conformance
