// Reports facts about a host and its RDMA devices.
#pragma once
#include "tools/lib/control/rdma_probe/device.hpp"
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"
#include "tools/lib/control/rdma_probe/system.hpp"

namespace rtrs::probe {

Lines report_host(const System&);
// Reports driver, firmware, transport, PCIe slot, NUMA node, and limits.
Lines report_device(const System&, const Device&);
Lines report_ports(const System&, const Device&);
// Finds by trial the largest queue pair that can be created, and its inline size.
Lines try_depth(const Device&, const Pace&);
// Reports whether the library of the device supports ibv_wr_*() for all operations that the backend posts.
Lines report_posting(const Device&);
// Reports how the backend invalidates keys on this device, and why.
Lines report_invalidation(const Device&, bool windows_work);

}  // namespace rtrs::probe
