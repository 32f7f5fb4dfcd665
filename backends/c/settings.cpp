#include "backends/c/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "backends/tcp/tcp.hpp"
#ifdef URTRS_HAS_VERBS
#include "backends/verbs/verbs.hpp"
#endif

namespace rtrs::c {
namespace {

std::optional<std::int64_t> number(const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < least || value > most) return std::nullopt;
  return value;
}

constexpr std::int64_t kMostMilliseconds = std::numeric_limits<std::int32_t>::max();

bool set_time(Nanos& into, const std::string& text, bool or_never) {
  const auto value = number(text, or_never ? -1 : 1, kMostMilliseconds);
  if (value) into = *value < 0 ? kNever : milliseconds(static_cast<std::uint64_t>(*value));
  return value.has_value();
}

template <class Integer>
bool set_number(Integer& into, const std::string& text, std::int64_t least, std::int64_t most) {
  const auto value = number(text, least, most);
  if (value) into = static_cast<Integer>(*value);
  return value.has_value();
}

struct Text {
  std::string_view name;
  std::string& (*of)(Settings&);
};
constexpr std::array kTexts{
    Text{"rdma_device", [](Settings& all) -> std::string& { return all.rdma_device; }},
    Text{"tls_cert", [](Settings& all) -> std::string& { return all.tls.cert; }},
    Text{"tls_key", [](Settings& all) -> std::string& { return all.tls.key; }},
    Text{"tls_ca", [](Settings& all) -> std::string& { return all.tls.ca; }},
    Text{"tls_crl", [](Settings& all) -> std::string& { return all.tls.crl; }},
    Text{"tls_keys", [](Settings& all) -> std::string& { return all.tls.keys; }},
    Text{"tls_identity", [](Settings& all) -> std::string& { return all.tls.identity; }},
    Text{"tls_server_name", [](Settings& all) -> std::string& { return all.tls.server_name; }},
};

struct Time {
  std::string_view name;
  Nanos& (*of)(ClientConfig&);
  bool or_never;
};
constexpr std::array kTimes{
    Time{"queue_timeout_ms", [](ClientConfig& all) -> Nanos& { return all.queue_timeout; }, true},
    Time{"request_timeout_ms", [](ClientConfig& all) -> Nanos& { return all.request_timeout; }, true},
    Time{"heartbeat_interval_ms", [](ClientConfig& all) -> Nanos& { return all.heartbeat.interval; }, false},
    Time{"reconnect_min_ms", [](ClientConfig& all) -> Nanos& { return all.reconnect_min; }, false},
    Time{"reconnect_max_ms", [](ClientConfig& all) -> Nanos& { return all.reconnect_max; }, false},
};

bool set_in_numbers(Settings& settings, std::string_view name, const std::string& value) {
  ClientConfig& protocol = settings.protocol;
  if (name == "heartbeat_missed") return set_number(protocol.heartbeat.missed_max, value, 1, 1000);
  if (name == "max_reconnect_attempts")
    return set_number(protocol.max_reconnect_attempts, value, -1, std::numeric_limits<std::int32_t>::max());
  std::uint16_t connections = 0;  // the service connection is one more
  if (name != "io_connections" || !set_number(connections, value, 1, kMaxCons - 1)) return false;
  protocol.con_num = static_cast<std::uint16_t>(connections + 1);
  return true;
}

// What the log of a fabric said last while it was opened tells more than a code.
template <class Level>
std::function<void(Level, const std::string&)> keep_error(const std::shared_ptr<std::string>& into) {
  return [into](Level level, const std::string& text) {
    if (level == Level::error) *into = text;
  };
}

OpenFailed failed(Errc error, const std::string& logged) {
  return {error, logged.empty() ? to_string(error) : logged};
}

}  // namespace

bool set(Settings& settings, std::string_view name, const std::string& value) {
  if (name == "fabric") {
    if (value != "tcp" && value != "verbs") return false;
    settings.fabric = value;
    return true;
  }
  if (name == "crc" || name == "host_names") {
    (name == "crc" ? settings.crc : settings.host_names) = value == "1";
    return value == "0" || value == "1";
  }
  const auto named = [name](const auto& one) { return one.name == name; };
  if (const auto* text = std::find_if(kTexts.begin(), kTexts.end(), named); text != kTexts.end()) {
    text->of(settings) = value;
    return true;
  }
  if (const auto* time = std::find_if(kTimes.begin(), kTimes.end(), named); time != kTimes.end())
    return set_time(time->of(settings.protocol), value, time->or_never);
  return set_in_numbers(settings, name, value);
}

tl::expected<std::unique_ptr<Fabric>, OpenFailed> open_fabric(const Settings& settings) {
  const auto logged = std::make_shared<std::string>();
  if (settings.fabric == "verbs") {
    if (settings.tls.any() || settings.crc)
      return tl::unexpected(OpenFailed{Errc::invalid, "TLS and crc are for the fabric tcp"});
#ifdef URTRS_HAS_VERBS
    verbs::VerbsOptions options;
    options.device = settings.rdma_device;
    options.host_names = settings.host_names;
    options.log = keep_error<verbs::LogLevel>(logged);
    auto opened = verbs::open_verbs_fabric(options);
    if (!opened) return tl::unexpected(failed(opened.error(), *logged));
    return std::move(*opened);
#else
    return tl::unexpected(OpenFailed{Errc::not_supported, "this build has no verbs"});
#endif
  }
  if (!settings.rdma_device.empty())
    return tl::unexpected(OpenFailed{Errc::invalid, "rdma_device is for the fabric verbs"});
  // Who names an identity or a server wants TLS, and would get none.
  if (!settings.tls.any() && !settings.tls.identity.empty())
    return tl::unexpected(
        OpenFailed{Errc::invalid, "tls_identity chooses one of tls_keys, which are not given"});
  if (!settings.tls.any() && !settings.tls.server_name.empty())
    return tl::unexpected(OpenFailed{
        Errc::invalid, "tls_server_name is in the certificate of the server, and tls_ca is not given"});
  tcp::TlsOptions tls;
  if (settings.tls.any()) {
    auto context = tls::open_context(settings.tls);
    if (!context) return tl::unexpected(OpenFailed{Errc::invalid, context.error()});
    tls.context = *context;
  }
  tcp::TcpOptions options;
  options.crc = settings.crc;
  options.host_names = settings.host_names;
  options.undelivered_timeout_ms = static_cast<unsigned>(
      std::min<Nanos>(dead_peer_time(settings.protocol.heartbeat) / milliseconds(1), kMostMilliseconds));
  options.log = keep_error<tcp::LogLevel>(logged);
  auto opened = tcp::open_tcp_fabric(options, tls);
  if (!opened) return tl::unexpected(failed(opened.error(), *logged));
  return std::move(*opened);
}

}  // namespace rtrs::c
