#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/lib/control/rdma_probe/system.hpp"
#include "tools/lib/files/kernel_files.hpp"

namespace rtrs::probe {
namespace {

namespace fs = std::filesystem;

class ThisSystem : public System {
 public:
  std::optional<std::string> read(const std::string& file) const override {
    return tools::read_kernel_file(file);
  }
  std::vector<std::string> names_in(const std::string& folder) const override {
    std::vector<std::string> names = tools::names_in(folder);
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string target(const std::string& link) const override {
    std::error_code error;
    const fs::path to = fs::canonical(link, error);
    return error ? std::string() : to.filename().string();
  }
  std::string kernel() const override {
    utsname names{};
    return ::uname(&names) == 0 ? std::string(names.release) + " " + names.machine : std::string();
  }
  // libibverbs has no function that returns its version, but its file name contains it:
  // libibverbs.so.1.14.44.0 is version 44.0.
  std::string rdma_core() const override {
    Dl_info info{};
    const auto address = reinterpret_cast<void*>(&ibv_get_device_name);
    if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
    std::error_code error;
    const std::string file = fs::canonical(info.dli_fname, error).filename().string();
    const std::string start = "libibverbs.so.1.";
    if (error || file.rfind(start, 0) != 0) return {};
    const std::size_t dot = file.find('.', start.size());
    return dot == std::string::npos ? std::string() : file.substr(dot + 1);
  }
  std::optional<std::uint64_t> memlock_bytes() const override {
    rlimit limit{};
    if (has_ipc_lock()) return std::nullopt;
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return limit.rlim_cur;
  }

 private:
  // Returns true if the process has CAP_IPC_LOCK, as root usually has. In a container the capability may have
  // no effect, which the test "memory of a session" detects.
  static bool has_ipc_lock() {
    constexpr unsigned kIpcLock = 14;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind("CapEff:", 0) == 0)
        return (std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16) >> kIpcLock & 1U) != 0;
    return false;
  }
};

}  // namespace

std::unique_ptr<System> this_system() {
  return std::make_unique<ThisSystem>();
}

}  // namespace rtrs::probe
