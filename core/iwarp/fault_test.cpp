#include "core/iwarp/fault.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace rtrs::iwarp::fault_test {
namespace {

TEST(Fault, EachHasItsOwnText) {
  std::set<std::string> words;
  for (unsigned i = 0; i < kFaultCount; ++i) {
    const std::string one = to_string(static_cast<Fault>(i));
    EXPECT_GT(one.size(), 5U);
    EXPECT_NE(one, "unknown");
    EXPECT_TRUE(words.insert(one).second) << one;
  }
  EXPECT_STREQ(to_string(static_cast<Fault>(kFaultCount)), "unknown");
}

TEST(Fault, AnswersDependOnGreetingOrStream) {
  EXPECT_EQ(answer_to(Fault::none), Answer::nothing);
  EXPECT_EQ(terminate_code(Fault::none), (TerminateCode{0, 0, 0}));
  for (unsigned i = 1; i < kFaultCount; ++i) {
    const auto fault = static_cast<Fault>(i);
    const bool early = fault <= Fault::bytes_behind_greeting;
    const Answer wanted = fault == Fault::markers ? Answer::reject
                          : early                 ? Answer::close
                                                  : Answer::terminate;
    EXPECT_EQ(answer_to(fault), wanted) << i;
    // Layer 2, code 4: "invalid request or reply frame". No stream fault has this code.
    EXPECT_EQ(terminate_code(fault) == (TerminateCode{2, 0, 4}), early) << i;
  }
  EXPECT_EQ(terminate_code(Fault::no_receive), (TerminateCode{1, 2, 2}));
}

}  // namespace
}  // namespace rtrs::iwarp::fault_test
