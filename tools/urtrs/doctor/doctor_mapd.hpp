// Checks of urtrs-mapd and its devices.
#pragma once
#include "tools/urtrs/doctor/doctor.hpp"

namespace rtrs::admin {

void look_at_mapd(const Host& host, std::vector<Finding>& to);
// Checks what `urtrs map --nbd` requires, and whether attached devices are kept connected.
void look_at_kernel_devices(const Host& host, std::vector<Finding>& to);

}  // namespace rtrs::admin
