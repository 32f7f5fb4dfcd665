// A test bench in real time, which sleeps until the fabric has events.
#pragma once
#include "conformance/cases/bench.hpp"

namespace rtrs::conform_tool {

class RealBench final : public conformance::Bench {
 public:
  Nanos now() override;
  void rest(Fabric& fabric, Nanos until) override;
};

}  // namespace rtrs::conform_tool
