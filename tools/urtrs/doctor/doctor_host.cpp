#include "tools/urtrs/doctor/doctor_host.hpp"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/lib/control/kernel_nbd/attachment.hpp"
#include "tools/lib/control/kernel_nbd/kernel.hpp"
#include "tools/lib/control/rpc/client.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/files/io_uring_access.hpp"
#include "tools/lib/files/kernel_files.hpp"
#include "tools/lib/text/version/version.hpp"

namespace rtrs::admin {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRead = 4096;

std::vector<std::string> warnings_of(const nlohmann::json& answer) {
  std::vector<std::string> all;
  for (const auto& one : answer.value("warnings", nlohmann::json::array()))
    if (one.is_string()) all.push_back(one.get<std::string>());
  return all;
}

class ThisHost : public Host {
 public:
  std::optional<std::string> read(const std::string& file) const override {
    return tools::read_kernel_file(file);
  }
  std::vector<std::string> names_in(const std::string& folder) const override {
    return tools::names_in(folder);
  }
  bool exists(const std::string& file) const override { return ::access(file.c_str(), F_OK) == 0; }
  bool may_use(const std::string& file) const override { return ::access(file.c_str(), R_OK | W_OK) == 0; }
  std::string program(const std::string& name) const override {
    const char* path = std::getenv("PATH");
    std::string folder;
    // Also searches the directories of administration programs, which are not in the PATH of ordinary users.
    for (const char c : (path == nullptr ? "" : std::string(path)) + ":/usr/local/sbin:/usr/sbin:/sbin:") {
      if (c != ':') {
        folder += c;
        continue;
      }
      const std::string file = folder + "/" + name;
      if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
      folder.clear();
    }
    return {};
  }
  bool has_module(const std::string& name) const override {
    utsname kernel{};
    if (::uname(&kernel) != 0) return false;
    const std::string folder = std::string("/lib/modules/") + kernel.release;
    for (const char* list : {"/modules.dep", "/modules.builtin"}) {
      std::ifstream in(folder + list);
      for (std::string line; std::getline(in, line);) {
        const std::string file = fs::path(line.substr(0, line.find(':'))).filename();
        if (file.substr(0, file.find('.')) == name) return true;
      }
    }
    return false;
  }
  std::string nbdkit_plugin_folder() const override {
    // NOLINTNEXTLINE(cert-env33-c): no word of it comes from elsewhere
    std::FILE* const pipe = ::popen("timeout 5 nbdkit --dump-config 2>/dev/null", "r");
    if (pipe == nullptr) return {};
    std::string text;
    std::array<char, kMostRead> room{};
    for (std::size_t got = 0; (got = std::fread(room.data(), 1, room.size(), pipe)) > 0;)
      text.append(room.data(), got);
    ::pclose(pipe);
    constexpr std::string_view kKey = "plugindir=";
    const std::size_t at = text.find(kKey);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + kKey.size();
    return text.substr(begin, text.find('\n', begin) - begin);
  }
  std::optional<std::uint64_t> memlock_bytes() const override {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
    return limit.rlim_cur;
  }
  std::uint64_t descriptors() const override {
    rlimit limit{};
    return ::getrlimit(RLIMIT_NOFILE, &limit) == 0
               ? limit.rlim_max
               : 0;  // uses the hard limit, because urtrsd raises the soft limit to it
  }
  std::optional<StorageFacts> io_uring_refusal() const override {
    const auto refused = tools::io_uring_refusal();
    if (!refused) return std::nullopt;
    return StorageFacts{refused->why, refused->remedy};
  }
  bool port_is_free(std::uint16_t port) const override {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return true;
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    const bool taken =
        ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 && errno == EADDRINUSE;
    ::close(fd);
    return !taken;
  }
  std::vector<DaemonFacts> daemons() const override {
    std::vector<DaemonFacts> all;
    for (const std::string& socket : rpc::live_sockets("urtrsd")) {
      DaemonFacts one{socket, "", "", "", {}};
      auto client = rpc::Client::connect(socket);
      const auto answer = client
                              ? client->call("server.show", nlohmann::json::object(), std::chrono::seconds(3))
                              : tl::unexpected(client.error());
      if (!answer) {
        one.problem = answer.error().message;
      } else if (answer->is_object()) {
        one.version = answer->value("version", "");
        one.fabric = answer->value("fabric", "");
        one.warnings = warnings_of(*answer);
        for (const nlohmann::json& missing : answer->value("missing", nlohmann::json::array()))
          one.missing.push_back(missing.value("sentence", ""));
      }
      all.push_back(std::move(one));
    }
    return all;
  }
  std::vector<MapdFacts> mapds() const override {
    std::vector<MapdFacts> all;
    for (const std::string& socket : rpc::live_sockets("urtrs-mapd")) {
      MapdFacts one{socket, "", 0, {}};
      auto client = rpc::Client::connect(socket);
      const auto answer = client
                              ? client->call("device.list", nlohmann::json::object(), std::chrono::seconds(3))
                              : tl::unexpected(client.error());
      if (!answer) {
        one.problem = answer.error().message;
      } else {
        for (const nlohmann::json& device : answer->value("devices", nlohmann::json::array())) {
          ++one.devices;
          if (device.value("state", "") != "mapped") one.unmapped.push_back(device.value("device", ""));
        }
      }
      all.push_back(std::move(one));
    }
    return all;
  }
  std::vector<ClientFacts> clients() const override {
    std::vector<ClientFacts> all;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    for (const std::string& socket : rpc::live_sockets("client")) {
      if (std::chrono::steady_clock::now() > end) break;
      auto client = rpc::Client::connect(socket);
      const auto answer = client
                              ? client->call("client.show", nlohmann::json::object(), std::chrono::seconds(3))
                              : tl::unexpected(client.error());
      if (!answer || !answer->is_object()) continue;
      const auto& sessions = answer->value("sessions", nlohmann::json::array());
      all.push_back(
          {sessions.empty() ? socket : sessions.front().value("name", socket), warnings_of(*answer)});
    }
    return all;
  }
  bool has_netlink() const override { return kernel_nbd::has_netlink(); }
  std::optional<bool> keeps_kernel_devices() const override { return kernel_nbd::keeper_runs(); }
  std::string version() const override { return tools::version(); }
};

}  // namespace

std::unique_ptr<Host> this_host() {
  return std::make_unique<ThisHost>();
}

}  // namespace rtrs::admin
