// Where the lines of this process go once it has started.
#pragma once

namespace rtrs::nbdkit {

// Takes the standard error that urtrs-mapd handed over; does nothing where nobody did. Call once.
void take_own_log();

}  // namespace rtrs::nbdkit
