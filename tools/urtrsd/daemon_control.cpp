// Functions of the daemon that its control socket calls (interface Controlled).
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "backends/tcp/tcp.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/control/metrics.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {

namespace {

// Returns what is behind an export: the path of the file without symbolic links, "memory:NAME", or the URI of
// the NBD server.
std::string backing_of(const Export& exported, const std::string& name) {
  if (exported.kind() == ExportKind::memory) return "memory:" + name;
  if (exported.kind() == ExportKind::nbd) return exported.nbd()->uri();
  std::array<char, 4096> target{};
  const std::string descriptor = "/proc/self/fd/" + std::to_string(exported.fd());
  const ssize_t length = ::readlink(descriptor.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : name;
}

attributes::OpenDevice& of_backing(std::vector<attributes::OpenDevice>& devices, const std::string& backing) {
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const attributes::OpenDevice& one) { return one.backing == backing; });
  return found != devices.end() ? *found : devices.emplace_back(attributes::OpenDevice{backing, {}});
}

}  // namespace

// If the socket cannot be opened, urtrsd runs without it and retries later.
void Daemon::open_control() {
  if (config_.control.empty())
    return spdlog::info("no control socket, because control is empty: urtrs cannot find this urtrsd");
  auto control = Control::open(context_, config_.control, config_.control_group, *this);
  if (!control)
    return miss({MissingKind::control, ""}, {EIO, "urtrs cannot reach this urtrsd: " + control.error()});
  appeared({MissingKind::control, ""});
  control_ = std::move(*control);
  spdlog::info("control socket {}", control_->path());
}

OpenError Daemon::open_metrics() {
  if (config_.metrics.empty()) return {};
  http::TextServerOptions options;
  options.address = config_.metrics;
  auto server = http::TextServer::listen(context_, options, [this] {
    const double uptime = static_cast<double>(now() - started_) / 1e9;
    auto* own = dynamic_cast<tcp::TcpFabric*>(fabric_.get());
    const auto streams = own == nullptr ? std::nullopt : std::optional(own->stats());
    const auto tls = own == nullptr ? nullptr : tcp::tls_context(*own);
    auto expiries = tls == nullptr ? std::vector<tls::Expiry>{} : tls::expiries(*tls);
    return metrics_text({model(), transport_stats(), block_stats(), streams, URTRS_VERSION, fabric_name(),
                         uptime, std::move(expiries)});
  });
  if (!server) return {server.error().error, server.error().sentence};
  metrics_ = std::move(*server);
  spdlog::info("metrics at {}", metrics_->address());
  if (!metrics_->is_loopback())
    spdlog::warn("every host that reaches {} can read the names of sessions and files", metrics_->address());
  return {};
}

std::vector<ServerSessionStatus> Daemon::sessions() const {
  std::vector<ServerSessionStatus> all = server_.transport().sessions();
  for (ServerSessionStatus& session : all) session.name = tools::printable(session.name);
  return all;
}

attributes::ServerModel Daemon::model() const {
  attributes::ServerModel model;
  model.sessions = sessions();
  for (const ServerSessionStatus& session : model.sessions) {
    const rnbd::ServerDevices* devices = server_.devices(session.session);
    if (devices == nullptr) continue;
    for (const rnbd::ServerDevices::Device& device : *devices) {
      const auto opened = devices_.find(device.handle);
      if (device.state != rnbd::ServerDevices::DeviceState::open || opened == devices_.end()) continue;
      const Export& exported = *opened->second.opened.device;
      attributes::OpenDevice& of =
          of_backing(model.devices, backing_of(exported, opened->second.opened.name));
      of.uses.push_back(
          {session.name, device.handle, device.mode, opened->second.opened.name, exported.size_bytes()});
    }
  }
  model.parameters = {always_invalidates(), config_.protocol.chunk_size, config_.protocol.queue_depth,
                      config_.port,         config_.dev_search_path,     config_.protocol.heartbeat};
  return model;
}

int Daemon::disconnect_path(std::uint16_t session, unsigned path) {
  const Errc done = server_.disconnect_path(*fabric_, asio::steady_now(), session, path);
  pump_.step_soon();
  return done == Errc::ok ? 0 : ENOENT;
}

int Daemon::close_session(std::uint16_t session) {
  server_.close_session(*fabric_, asio::steady_now(), session);
  pump_.step_soon();
  return 0;
}

int Daemon::reset_traffic(std::uint16_t session, unsigned path) {
  return server_.reset_statistics(session, path) == Errc::ok ? 0 : ENOENT;
}

int Daemon::force_close(std::uint64_t handle) {
  const bool open = server_.force_close(*fabric_, asio::steady_now(), handle);
  pump_.step_soon();
  return open ? 0 : ENOENT;
}

std::string Daemon::start_trace(const std::string& path) {
  if (recorder_.recording()) return "a trace is being recorded already; \"urtrs trace stop\" completes it";
  return open_trace(path);
}

std::string Daemon::stop_trace() {
  if (!recorder_.recording()) return "no trace is being recorded";
  const int error = recorder_.close_file();
  tracing_.clear();
  return error == 0 ? std::string() : "the trace could not be completed: " + errno_text(error);
}

bool Daemon::set_log_level(const std::string& level) {
  const auto known = spdlog::level::from_str(level);
  if (known == spdlog::level::off || level == "critical") return false;
  spdlog::set_level(known);
  return true;
}

}  // namespace rtrs::daemon
