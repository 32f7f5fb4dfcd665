// Fails the program at its end where adapters in memory found something wrong, or something was left behind.
#pragma once
#include <gtest/gtest.h>

#include "conformance/mock_hca/mock_hca.hpp"

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
