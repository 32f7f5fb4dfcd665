#include "tools/lib/control/fabric/tls_choice.hpp"

#include <ctime>
#include <nlohmann/json.hpp>

#include "backends/tcp/tcp.hpp"

namespace rtrs::tools {

tl::expected<OpenedTls, std::string> open_tls(const TlsChoice& choice, bool client) {
  const tls::Credentials& files = choice.credentials;
  const std::string mode = !choice.mode.empty() ? choice.mode : files.any() ? "require" : "off";
  const bool of_servers = client && mode == "allow";
  if (std::string why = contradiction(choice); !why.empty() && !of_servers)
    return tl::unexpected(std::move(why));
  if (mode == "off") return OpenedTls{};
  if (of_servers)
    return tl::unexpected<std::string>("tls=allow is for servers; a client needs tls=require or tls=off");
  auto context = tls::open_context(files);
  if (!context) return tl::unexpected(context.error());
  if (client && !tls::can_connect(**context))
    return tl::unexpected(files.keys + ": it has several keys, of " + tls::identities(**context) +
                          "; choose one with tls-identity");
  return OpenedTls{.context = *context, .allow_plain = mode == "allow"};
}

void replace_tls(Fabric& fabric, const OpenedTls& opened) {
  if (auto* const tcp = dynamic_cast<tcp::TcpFabric*>(&fabric))
    tcp::set_tls(*tcp, {.context = opened.context, .allow_plain = opened.allow_plain});
}

namespace {

std::shared_ptr<const tls::Context> context_of(Fabric& fabric) {
  auto* const tcp = dynamic_cast<tcp::TcpFabric*>(&fabric);
  return tcp == nullptr ? nullptr : tcp::tls_context(*tcp);
}

}  // namespace

std::string credentials_warning(Fabric& fabric) {
  const auto context = context_of(fabric);
  return context == nullptr ? std::string() : tls::warning(*context);
}

nlohmann::json credentials_json(Fabric& fabric) {
  nlohmann::json answer{{"credentials", nlohmann::json::array()}, {"warnings", nlohmann::json::array()}};
  const auto context = context_of(fabric);
  if (context == nullptr) return answer;
  for (const tls::Expiry& one : tls::expiries(*context))
    answer["credentials"].push_back({{"file", one.file}, {"what", one.what}, {"expires_at", one.time}});
  if (std::string warning = tls::warning(*context); !warning.empty())
    answer["warnings"].push_back(std::move(warning));
  return answer;
}

bool DailyRateLimit::is_due(Nanos now) noexcept {
  if (now < next_) return false;
  next_ = later(now, kDay);
  return true;
}

}  // namespace rtrs::tools
