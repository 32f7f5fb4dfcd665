// `urtrs doctor --rdma`: tests the RDMA devices of this host, or the connection to another host.
#pragma once
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

// Prints the result. Returns the exit code.
int doctor_rdma(const Command&);

}  // namespace rtrs::admin
