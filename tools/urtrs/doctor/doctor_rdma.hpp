// urtrs doctor --rdma: the RDMA devices of this host, or the way to another one.
#pragma once
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

// Prints, and answers the exit code.
int doctor_rdma(const Command&);

}  // namespace rtrs::admin
