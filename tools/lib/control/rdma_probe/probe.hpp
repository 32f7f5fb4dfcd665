// Checks the RDMA devices of this host, without a second host.
#pragma once
#include <string>

#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"
#include "tools/lib/control/rdma_probe/self_test.hpp"
#include "tools/lib/control/rdma_probe/system.hpp"

namespace rtrs::probe {

struct Wanted {
  std::string device{};  // empty: all devices
  Rounds rounds{};
};

// Checks the host, then the devices. Ends early, with the results so far, if pace.stop() returns true.
Lines probe(const System&, const Wanted&, const Pace&);
// Checks one open device.
Lines probe_device(const System&, const Device&, const Rounds&, const Pace&);

}  // namespace rtrs::probe
