// What urtrs-mapd keeps mapped, and whether it does.
#pragma once
#include "tools/urtrs/doctor/doctor.hpp"

namespace rtrs::admin {

void look_at_mapd(const Host& host, std::vector<Finding>& to);
// What `urtrs map --nbd` needs, and whether devices of the kernel would outlive an nbdkit that dies.
void look_at_kernel_devices(const Host& host, std::vector<Finding>& to);

}  // namespace rtrs::admin
