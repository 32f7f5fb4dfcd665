// Opens tcp and verbs without loading libfabric, which takes 0.2 s.
#include <sys/resource.h>

#include "backends/tcp/tcp.hpp"
#include "tools/lib/control/fabric/opening.hpp"
#ifdef URTRS_HAS_VERBS
#include "backends/options/verbs_options.hpp"
#endif

namespace rtrs::tools {
namespace {

Opened open_tcp(const FabricChoice& choice) {
  const auto opening = std::make_shared<Opening>();
  tcp::TcpOptions options;
  options.crc = choice.crc;
  options.max_memory = choice.connection_memory;
  options.undelivered_timeout_ms = undelivered_ms(choice);
  options.log = keep_error<tcp::LogLevel>(choice, opening);
  auto tls = open_tls(choice.tls, choice.client);
  if (!tls) return tl::unexpected(tls.error());
  if (tls->context != nullptr) {
    const std::string warning = tls::warning(*tls->context);
    if (!warning.empty() && choice.log) choice.log(LogLevel::unmet, warning);
    if (!choice.client)
      options.log(tcp::LogLevel::info, std::string("TLS is ") +
                                           (tls->allow_plain ? "allowed" : "required of every client") +
                                           ": " + tls::description(*tls->context));
  }
  auto fabric = tcp::open_tcp_fabric(options, {.context = tls->context, .allow_plain = tls->allow_plain});
  opening->under_way = false;
  if (fabric) return std::move(*fabric);
  return tl::unexpected("cannot use tcp: " + why(opening->error, fabric.error()));
}

#ifdef URTRS_HAS_VERBS
Opened open_verbs(const FabricChoice& choice) {
  const auto opening = std::make_shared<Opening>();
  verbs::VerbsOptions options = options::verbs_options(choice);
  options.addresses = choice.addresses;
  options.dead_peer_time = choice.undelivered_timeout;
  options.log = keep_error<verbs::LogLevel>(choice, opening);
  auto fabric = verbs::open_verbs_fabric(options);
  opening->under_way = false;
  if (fabric) return std::move(*fabric);
  return tl::unexpected("cannot use verbs: " + why(opening->error, fabric.error()));
}
#else
Opened open_verbs(const FabricChoice&) {
  return tl::unexpected<std::string>(
      "this build has no verbs; configure it where libibverbs-dev and librdmacm-dev are installed");
}
#endif

}  // namespace

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void expect_removed_devices() noexcept {
#ifdef URTRS_HAS_VERBS
  verbs::expect_removal();
#endif
}

Opened open_tcp_or_verbs(const FabricChoice& choice) {
  if (std::string wrong = foreign_option_error(choice); !wrong.empty())
    return tl::unexpected(std::move(wrong));
  if (choice.fabric == "tcp") return open_tcp(choice);
  if (choice.fabric != "verbs")
    return tl::unexpected("unknown fabric '" + choice.fabric + "'; choose tcp or verbs");
  return open_with_auth(choice, open_verbs);
}

}  // namespace rtrs::tools
