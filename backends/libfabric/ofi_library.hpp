// The library libfabric, loaded when the first fabric is opened. On Debian it brings the PSM libraries, whose
// constructor sleeps for a fifth of a second: programs that open another fabric would wait for nothing.
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
  std::string failure;  // why the library cannot be loaded; empty: it is loaded
};

// Loads it once in a process, and never unloads it. From any thread. The handlers that the PSM libraries
// install for SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV and SIGTERM are replaced by those from before.
const Library& library();

}  // namespace rtrs::ofi
