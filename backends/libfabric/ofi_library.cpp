#include "backends/libfabric/ofi_library.hpp"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cstring>

namespace rtrs::ofi {
namespace {

constexpr const char* kFile = "libfabric.so.1";
constexpr std::array kSignals{SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGTERM};

bool belongs_to_psm(const struct sigaction& action) noexcept {
  void* address = nullptr;
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    address = reinterpret_cast<void*>(action.sa_sigaction);
  } else if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) {
    address = reinterpret_cast<void*>(action.sa_handler);
  }
  Dl_info found{};
  return address != nullptr && ::dladdr(address, &found) != 0 && found.dli_fname != nullptr &&
         (std::strstr(found.dli_fname, "libpsm") != nullptr ||
          std::strstr(found.dli_fname, "libinfinipath") != nullptr);
}

void* load() noexcept {
  std::array<struct sigaction, kSignals.size()> before{};
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before[i]);
  void* const loaded = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    if (::sigaction(kSignals[i], nullptr, &now) != 0 || !belongs_to_psm(now)) continue;
    // If the application links libfabric, PSM was loaded before the handlers were saved, so the saved handler
    // is PSM's own. Restores the default handler in this case.
    if (belongs_to_psm(before[i])) before[i] = {};
    ::sigaction(kSignals[i], &before[i], nullptr);
  }
  return loaded;
}

template <class Function>
bool find(void* loaded, const char* name, Function& into) noexcept {
  into = reinterpret_cast<Function>(::dlsym(loaded, name));
  return into != nullptr;
}

Library open_library() {
  Library made;
  void* const loaded = load();
  const bool good = loaded != nullptr && find(loaded, "fi_getinfo", made.getinfo) &&
                    find(loaded, "fi_freeinfo", made.freeinfo) && find(loaded, "fi_dupinfo", made.dupinfo) &&
                    find(loaded, "fi_fabric", made.fabric) && find(loaded, "fi_version", made.version) &&
                    find(loaded, "fi_strerror", made.strerror);
  if (good) return made;
  const char* const why = ::dlerror();
  made.failure = std::string(why == nullptr ? kFile : why) + "; install it (Debian: libfabric1)";
  return made;
}

}  // namespace

const Library& library() {
  static const Library loaded = open_library();
  return loaded;
}

}  // namespace rtrs::ofi
