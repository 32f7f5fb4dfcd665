// Results of an RDMA device test as a table.
#pragma once
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Each remedy is below its check.
Table rdma_checks(const probe::Lines&);
bool any_failed(const probe::Lines&);

}  // namespace rtrs::admin
