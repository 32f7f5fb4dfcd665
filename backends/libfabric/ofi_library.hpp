// libfabric, loaded when the first fabric is opened. On Debian it loads the PSM libraries, whose constructor
// sleeps for 0.2 s; programs that use another fabric avoid this delay.
#pragma once
#include <rdma/fabric.h>

#include <string>

namespace rtrs::ofi {

// Functions of libfabric that its headers do not define inline.
struct Library {
  decltype(&::fi_getinfo) getinfo = nullptr;
  decltype(&::fi_freeinfo) freeinfo = nullptr;
  decltype(&::fi_dupinfo) dupinfo = nullptr;
  decltype(&::fi_fabric) fabric = nullptr;
  decltype(&::fi_version) version = nullptr;
  decltype(&::fi_strerror) strerror = nullptr;
  std::string failure;  // reason why the library cannot be loaded; empty: loaded
};

// Loads the library once per process and never unloads it. Thread-safe. Restores the signal handlers for
// SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV and SIGTERM, which the PSM libraries replace.
const Library& library();

}  // namespace rtrs::ofi
