#include <dlfcn.h>
#include <signal.h>

#include <cstring>

#include "backends/libfabric/ofi.hpp"

namespace rtrs::ofi {
namespace {

bool belongs_to_psm(const struct sigaction& action) noexcept {
  void* address = nullptr;
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    address = reinterpret_cast<void*>(action.sa_sigaction);
  } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
    address = reinterpret_cast<void*>(action.sa_handler);
  }
  Dl_info found{};
  return address != nullptr && dladdr(address, &found) != 0 && found.dli_fname != nullptr &&
         (std::strstr(found.dli_fname, "libpsm") != nullptr ||
          std::strstr(found.dli_fname, "libinfinipath") != nullptr);
}

}  // namespace

unsigned restore_signal_handlers() noexcept {
  unsigned restored = 0;
  for (const int number : {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || !belongs_to_psm(action)) continue;
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    if (sigaction(number, &plain, nullptr) == 0) ++restored;
  }
  return restored;
}

}  // namespace rtrs::ofi
