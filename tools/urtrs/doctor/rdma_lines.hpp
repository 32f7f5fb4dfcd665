// Formats the results of an RDMA device test as a table.
#pragma once
#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Returns a table in which each remedy is a line below its check.
Table rdma_checks(const probe::Lines&);
bool any_failed(const probe::Lines&);

}  // namespace rtrs::admin
