#include "backends/c/settings.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();

// Description of the accepted values; empty if `value` was accepted.
using Takes = std::string;

Takes set_flag(bool& into, const std::string& value) {
  if (value != "0" && value != "1") return "0 or 1";
  into = value == "1";
  return {};
}

template <class Integer>
Takes set_number(Integer& into, const std::string& text, std::int64_t least, std::int64_t most) {
  const auto value = number(text, least, most);
  if (!value) return std::to_string(least) + " to " + std::to_string(most);
  into = static_cast<Integer>(*value);
  return {};
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

// An empty text is rejected: a program whose variable is unexpectedly empty would silently get no TLS.
Takes set_text(std::string& into, const std::string& value) {
  if (value.empty()) return "a text that is not empty";
  into = value;
  return {};
}

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

Takes set_time(const Time& time, ClientConfig& protocol, const std::string& text) {
  std::int64_t value = 0;
  if (Takes takes = set_number(value, text, time.or_never ? -1 : 1, kMostInt); !takes.empty())
    return takes + " milliseconds" + (time.or_never ? ", -1 for ever" : "");
  time.of(protocol) = value < 0 ? kNever : milliseconds(static_cast<std::uint64_t>(value));
  return {};
}

struct Other {
  std::string_view name;
  Takes (*set)(Settings&, const std::string& value);
};
constexpr std::array kOthers{
    Other{"fabric",
          [](Settings& all, const std::string& value) -> Takes {
            if (value != "tcp" && value != "verbs") return "tcp or verbs";
            all.fabric = value;
            return {};
          }},
    Other{"crc", [](Settings& all, const std::string& value) { return set_flag(all.crc, value); }},
    Other{"host_names",
          [](Settings& all, const std::string& value) { return set_flag(all.host_names, value); }},
    Other{"io_connections",
          [](Settings& all, const std::string& value) {
            std::uint16_t connections = 0;  // without the service connection
            Takes takes = set_number(connections, value, 1, kMaxCons - 1);
            if (takes.empty()) all.protocol.con_num = static_cast<std::uint16_t>(connections + 1);
            return takes;
          }},
    Other{"heartbeat_missed",
          [](Settings& all, const std::string& value) {
            return set_number(all.protocol.heartbeat.missed_max, value, 1, 1000);
          }},
    Other{"max_reconnect_attempts",
          [](Settings& all, const std::string& value) {
            Takes takes = set_number(all.protocol.max_reconnect_attempts, value, -1, kMostInt);
            return takes.empty() ? takes : takes + ", -1 for no end";
          }},
};

template <class List>
void add_names(std::string& to, const List& list) {
  for (const auto& one : list) to += (to.empty() ? "" : ", ") + std::string(one.name);
}

// Returns the errno of the first credential file that cannot be read; EINVAL if all can be read.
int errno_of(const tls::Credentials& files) {
  for (const std::string* file : {&files.keys, &files.cert, &files.key, &files.ca, &files.crl})
    if (!file->empty() && ::faccessat(AT_FDCWD, file->c_str(), R_OK, AT_EACCESS) != 0) return errno;
  return EINVAL;
}

tl::expected<std::shared_ptr<const tls::Context>, OpenFailed> open_tls(const tls::Credentials& files) {
  auto context = tls::open_context(files);
  if (!context) return tl::unexpected(OpenFailed{errno_of(files), context.error()});
  if (!tls::can_connect(**context))
    return tl::unexpected(
        OpenFailed{EINVAL, files.keys + ": it has several keys; tls_identity has to name one of them: " +
                               tls::identities(**context)});
  return *context;
}

// Keeps the last error that a fabric logs while it is opened, because it says more than an error code.
template <class Level>
std::function<void(Level, const std::string&)> keep_error(const std::shared_ptr<std::string>& into) {
  return [into](Level level, const std::string& text) {
    if (level == Level::error) *into = text;
  };
}

// Fabrics use one code for lack of memory and of descriptors; errno distinguishes them.
OpenFailed failed(Errc error, const std::string& logged, int number) {
  const bool descriptors = error == Errc::no_memory && (number == EMFILE || number == ENFILE);
  return {descriptors ? number : to_linux_errno(error), logged.empty() ? to_string(error) : logged};
}

}  // namespace

std::string set(Settings& settings, std::string_view name, const std::string& value) {
  const auto named = [name](const auto& one) { return one.name == name; };
  Takes takes;
  if (const auto* text = std::find_if(kTexts.begin(), kTexts.end(), named); text != kTexts.end()) {
    takes = set_text(text->of(settings), value);
  } else if (const auto* time = std::find_if(kTimes.begin(), kTimes.end(), named); time != kTimes.end()) {
    takes = set_time(*time, settings.protocol, value);
  } else if (const auto* other = std::find_if(kOthers.begin(), kOthers.end(), named);
             other != kOthers.end()) {
    takes = other->set(settings, value);
  } else {
    std::string all;
    add_names(all, kOthers);
    add_names(all, kTimes);
    add_names(all, kTexts);
    return "there is no setting " + std::string(name) + "; those are " + all;
  }
  return takes.empty() ? takes : std::string(name) + " = " + value + ": it takes " + takes;
}

tl::expected<std::unique_ptr<Fabric>, OpenFailed> open_fabric(const Settings& settings) {
  const auto logged = std::make_shared<std::string>();
  if (settings.fabric == "verbs") {
    if (settings.tls.any() || settings.crc)
      return tl::unexpected(OpenFailed{EINVAL, "TLS and crc are for the fabric tcp"});
#ifdef URTRS_HAS_VERBS
    verbs::VerbsOptions options;
    options.device = settings.rdma_device;
    options.host_names = settings.host_names;
    options.log = keep_error<verbs::LogLevel>(logged);
    errno = 0;
    auto opened = verbs::open_verbs_fabric(options);
    if (!opened) return tl::unexpected(failed(opened.error(), *logged, errno));
    return std::move(*opened);
#else
    return tl::unexpected(OpenFailed{EOPNOTSUPP, "this build has no verbs"});
#endif
  }
  if (!settings.rdma_device.empty())
    return tl::unexpected(OpenFailed{EINVAL, "rdma_device is for the fabric verbs"});
  // Setting `tls_identity` or `tls_server_name` without keys would silently disable TLS.
  if (!settings.tls.any() && !settings.tls.identity.empty())
    return tl::unexpected(OpenFailed{EINVAL, "tls_identity chooses one of tls_keys, which are not given"});
  if (!settings.tls.any() && !settings.tls.server_name.empty())
    return tl::unexpected(
        OpenFailed{EINVAL, "tls_server_name is in the certificate of the server, and tls_ca is not given"});
  tcp::TlsOptions tls;
  if (settings.tls.any()) {
    auto context = open_tls(settings.tls);
    if (!context) return tl::unexpected(context.error());
    tls.context = *context;
  }
  tcp::TcpOptions options;
  options.crc = settings.crc;
  options.host_names = settings.host_names;
  options.undelivered_timeout_ms = static_cast<unsigned>(
      std::min<Nanos>(dead_peer_time(settings.protocol.heartbeat) / milliseconds(1), kMostInt));
  options.log = keep_error<tcp::LogLevel>(logged);
  errno = 0;
  auto opened = tcp::open_tcp_fabric(options, tls);
  if (!opened) return tl::unexpected(failed(opened.error(), *logged, errno));
  return std::move(*opened);
}

}  // namespace rtrs::c
