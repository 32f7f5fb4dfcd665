// What RTRS asks of a device, tried on two queue pairs that are connected with each other.
#pragma once
#include <cstdint>

#include "tools/lib/control/rdma_probe/device.hpp"
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"

namespace rtrs::probe {

struct Rounds {
  std::uint64_t count = 10'000;  // of the pattern in front of an immediate
  bool all = false;              // however long they take; else what a few seconds have room for
};

Lines test_messages(const Device&, const Pace&);
Lines test_windows(const Device&, const Pace&);
Lines test_memory(const Device&, const Pace&);
Lines test_order(const Device&, const Pace&, const Rounds&);
Lines test_flush(const Device&, const Pace&);

// Of the tests of windows: those of type 1 did all that is asked of them.
bool windows_work(const Lines&);

}  // namespace rtrs::probe
