// Tests the device features that RTRS needs, on two connected queue pairs.
#pragma once
#include <cstdint>

#include "tools/lib/control/rdma_probe/device.hpp"
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"

namespace rtrs::probe {

struct Rounds {
  std::uint64_t count = 10'000;  // number of rounds for test_order()
  bool all = false;              // run all rounds; if false, stop after 5 s
};

Lines test_messages(const Device&, const Pace&);
Lines test_windows(const Device&, const Pace&);
Lines test_memory(const Device&, const Pace&);
Lines test_order(const Device&, const Pace&, const Rounds&);
Lines test_flush(const Device&, const Pace&);

// Returns true if the test of type 1 windows passed. Looks for its line in the result of test_windows().
bool windows_work(const Lines&);

}  // namespace rtrs::probe
