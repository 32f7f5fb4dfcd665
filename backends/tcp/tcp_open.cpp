#include <sys/random.h>
#include <sys/resource.h>

#include <cerrno>

#include "backends/tcp/tcp.hpp"
#include "backends/tcp/tcp_sockets.hpp"
#include "core/tcp/tcp_fabric.hpp"

namespace rtrs::tcp {
namespace {

void raise_soft_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<std::unique_ptr<TcpFabric>> open_tcp_fabric(const TcpOptions& options, const TlsOptions& tls) {
  const auto say = [&](const char* text) {
    if (options.log) options.log(LogLevel::error, text);
  };
  KeySequence::Secret secret{};
  if (::getrandom(secret.data(), sizeof secret, 0) != static_cast<ssize_t>(sizeof secret)) {
    say("getting random numbers from the kernel failed");
    return tl::unexpected(Errc::fabric_error);
  }
  raise_soft_limit();
  auto sockets = std::make_unique<Sockets>();
  if (const int error = sockets->open(); error != 0) {
    sockets.reset();
    say("no file descriptor is left for a fabric; raise the limit (ulimit -n)");
    errno = error;
    return tl::unexpected(Errc::no_memory);
  }
  if (!options.host_names) sockets->disable_name_lookups();
  sockets->set_tls(tls);
  if (options.log)
    sockets->set_renewal_log([log = options.log](bool warning, const std::string& sentence) {
      log(warning ? LogLevel::error : LogLevel::info, sentence);
    });
  return std::make_unique<FabricImpl>(options, secret, std::move(sockets));
}

void set_tls(TcpFabric& fabric, const TlsOptions& tls) {
  if (auto* const sockets = dynamic_cast<Sockets*>(&fabric.transport())) sockets->set_tls(tls);
}

std::shared_ptr<const tls::Context> tls_context(TcpFabric& fabric) {
  auto* const sockets = dynamic_cast<Sockets*>(&fabric.transport());
  return sockets == nullptr ? nullptr : sockets->tls_context();
}

}  // namespace rtrs::tcp
