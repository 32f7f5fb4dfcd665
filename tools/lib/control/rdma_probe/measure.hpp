// Measures the speed of a device between two of its own queue pairs.
#pragma once
#include "tools/lib/control/rdma_probe/device.hpp"
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"

namespace rtrs::probe {

Lines measure(const Device&, const Pace&, bool windows_work);

}  // namespace rtrs::probe
