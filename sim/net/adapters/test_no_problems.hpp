// Fails the test program at its end if the in-memory adapters recorded a problem or an object still exists.
#pragma once
#include <gtest/gtest.h>

#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::mock_hca {

class NoProblems : public ::testing::Environment {
 public:
  void TearDown() override {
    tick_by_itself(false);
    reset({});
    for (const std::string& problem : problems()) ADD_FAILURE() << problem;
  }
};

}  // namespace rtrs::mock_hca
