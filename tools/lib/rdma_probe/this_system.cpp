#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "tools/lib/rdma_probe/system.hpp"

namespace rtrs::probe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRead = 4096;

class ThisSystem : public System {
 public:
  std::optional<std::string> read(const std::string& file) const override {
    std::ifstream in(file);
    std::array<char, kMostRead> room{};
    in.read(room.data(), room.size());
    if (in.gcount() == 0 && !in.eof()) return std::nullopt;
    std::string text(room.data(), static_cast<std::size_t>(in.gcount()));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  std::vector<std::string> names_in(const std::string& folder) const override {
    std::vector<std::string> names;
    std::error_code error;
    for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator();
         at.increment(error))
      names.push_back(at->path().filename());
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
  // The library has no call for it, but its file is called libibverbs.so.1.14.44.0 in version 44.0.
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
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return limit.rlim_cur;
  }
};

}  // namespace

std::unique_ptr<System> this_system() {
  return std::make_unique<ThisSystem>();
}

}  // namespace rtrs::probe
