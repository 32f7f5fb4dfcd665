// All that can be found out about the RDMA devices of this host, without another one.
#pragma once
#include <string>

#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"
#include "tools/lib/control/rdma_probe/self_test.hpp"
#include "tools/lib/control/rdma_probe/system.hpp"

namespace rtrs::probe {

struct Wanted {
  std::string device{};  // empty: every one
  Rounds rounds{};
};

// Begins with the host. Ends early, with what is known by then, when pace.stop() says so.
Lines probe(const System&, const Wanted&, const Pace&);
// Of one that is open.
Lines probe_device(const System&, const Device&, const Rounds&, const Pace&);

}  // namespace rtrs::probe
