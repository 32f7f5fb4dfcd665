// Listens on the configured addresses, and explains failures.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "backends/platform/address/socket_address.hpp"
#include "tools/urtrsd/config/listen_check.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {
namespace {

bool is_loopback(const std::string& address) {
  boost::system::error_code error;
  const auto parsed = boost::asio::ip::make_address(address, error);
  if (error) return false;
  const bool mapped = parsed.is_v6() && parsed.to_v6().is_v4_mapped();
  return mapped ? boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, parsed.to_v6()).is_loopback()
                : parsed.is_loopback();
}

bool is_any(const std::string& address) {
  boost::system::error_code error;
  const auto parsed = boost::asio::ip::make_address(address, error);
  return !error && parsed.is_unspecified();
}

}  // namespace

// Explains why urtrsd cannot listen on `address`, by comparing it with the addresses on which urtrsd already
// listens.
std::string Daemon::listen_error_text(const std::string& address, Errc result) const {
  if (result == Errc::bad_address)
    return "this host does not have this address; 'ip address' lists its addresses";
  if (result == Errc::no_permission)
    return "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose another port with --port";
  if (result != Errc::address_in_use) return std::string(to_string(result));
  for (const std::string& other : listens_on_) {
    if (is_any(other) || is_any(address))
      return fmt::format(
          "urtrsd already listens on {}, and 0.0.0.0 and :: include other addresses; remove one of the two",
          other);
  }
  return fmt::format(
      "another program uses the port; find it with 'ss -ltnp sport = :{}', or choose another port with "
      "--port",
      config_.port);
}

std::string Daemon::cannot_listen(const std::string& address, Errc result, const std::string& name) const {
  return fmt::format("cannot listen on {} port {}: {}",
                     name.empty() || name == address ? address : name + " (" + address + ")", config_.port,
                     listen_error_text(address, result));
}

// Returns bad_address if the host does not have the address, or if the scope is not an interface. The fabric
// is not called for such an address, because it would log an error at each attempt. An address that is
// configured twice, for example through two host names, is opened only once.
Errc Daemon::listen_on(const std::string& address) {
  const auto parsed = net::parse_address(address, 0);
  const bool is_gid = address.rfind("gid:", 0) == 0;
  if (parsed ? try_address(*parsed) == EADDRNOTAVAIL : !is_gid) return Errc::bad_address;
  const auto is_it = [&](const std::string& other) {
    const auto known = net::parse_address(other, 0);
    return parsed && known && *known == *parsed;
  };
  if (config_.port != 0 && std::any_of(listens_on_.begin(), listens_on_.end(), is_it)) return Errc::ok;
  const PathAddress local{"", address, static_cast<std::uint16_t>(config_.port)};
  const Errc result = server_.listen(*fabric_, asio::steady_now(), local);
  if (result == Errc::ok) {
    listens_on_.push_back(address);
    warn_of_open_access(address);
  }
  return result;
}

bool Daemon::listen_or_miss(const std::string& address, const std::string& name) {
  const Errc result = listen_on(address);
  if (result == Errc::ok) return true;
  std::string sentence = cannot_listen(address, result, name);
  if (result == Errc::bad_address && !config_.strict) {
    miss({MissingKind::address, address}, {EADDRNOTAVAIL, std::move(sentence)});
    return true;
  }
  spdlog::error("{}", sentence);
  return false;
}

// Listens on all configured addresses; a host name stands for all its addresses.
bool Daemon::listen() {
  for (const std::string& address : config_.listen) {
    std::string why;
    const std::vector<std::string> all = net::listen_addresses(address, why);
    if (all.empty() && !miss_name(address, why)) return false;
    for (const std::string& one : all)
      if (!listen_or_miss(one, address)) return false;
  }
  return true;
}

// If `strict` is set, logs an error and returns false; otherwise schedules a retry.
bool Daemon::miss_name(const std::string& name, const std::string& why) {
  std::string sentence = fmt::format("cannot listen on {} port {}: {}", name, config_.port, why);
  if (!config_.strict) {
    miss({MissingKind::address, name}, {EADDRNOTAVAIL, std::move(sentence)});
    return true;
  }
  spdlog::error("{}", sentence);
  return false;
}

// `key` names an address, or a host name, which is resolved in a thread.
void Daemon::listen_again(const MissingList::Key& key, const std::shared_ptr<void>& until_done) {
  const std::string& name = key.second;
  const auto listen_or_wait = [this](const MissingList::Key& one, const std::string& of) {
    const Errc result = listen_on(one.second);
    if (result == Errc::ok)
      appeared(one);
    else
      miss(one, {EADDRNOTAVAIL, cannot_listen(one.second, result, of)});
  };
  if (net::host_name_in(name).empty()) return listen_or_wait(key, {});
  jobs_.run(kRetries, [this, key, until_done, listen_or_wait]() mutable {
    auto why = std::make_shared<std::string>();
    auto all = std::make_shared<std::vector<std::string>>(net::listen_addresses(key.second, *why));
    return [this, key, until_done = std::move(until_done), listen_or_wait, why, all] {
      if (stopping_) return pump_.step_soon();
      if (all->empty())
        miss_name(key.second, *why);
      else
        appeared(key);
      for (const std::string& one : *all) listen_or_wait({MissingKind::address, one}, key.second);
      pump_.step_soon();
    };
  });
}

void Daemon::warn_of_plain_listeners() const {
  for (const std::string& address : listens_on_) warn_of_open_access(address);
}

// Warns if unauthenticated hosts can reach this address.
void Daemon::warn_of_open_access(const std::string& address) const {
  if (is_loopback(address)) return;
  if (config_.fabric == "libfabric")
    spdlog::warn(
        "{} is not a loopback address: any host that reaches port {} can crash this process or write to its "
        "memory, because provider {} of libfabric does not check what it receives; use it on trusted "
        "networks only (docs/security.md)",
        address, fabric_->listening_port(), config_.provider);
  if (config_.fabric == "tcp" && !requires_tls(config_))
    spdlog::warn(
        "{} is not a loopback address, and clients connect without TLS: any host that reaches port {} can "
        "open the exports, and an attacker on the network can read and change data; --tls require with "
        "--tls-keys "
        "protects them (docs/security.md)",
        address, fabric_->listening_port());
}

}  // namespace rtrs::daemon
