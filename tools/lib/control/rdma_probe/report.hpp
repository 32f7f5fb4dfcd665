// What a host and its RDMA devices say of themselves.
#pragma once
#include "tools/lib/control/rdma_probe/device.hpp"
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"
#include "tools/lib/control/rdma_probe/system.hpp"

namespace rtrs::probe {

Lines report_host(const System&);
// Driver, firmware, place in the machine, limits.
Lines report_device(const System&, const Device&);
Lines report_ports(const System&, const Device&);
// The greatest queue pair that can be made, and what it takes inline, by trial.
Lines try_depth(const Device&, const Pace&);
// Whether the library of the device has ibv_wr_*() for all that the backend posts.
Lines report_posting(const Device&);
// Which way the backend takes keys back here, and why.
Lines report_invalidation(const Device&, bool windows_work);

}  // namespace rtrs::probe
