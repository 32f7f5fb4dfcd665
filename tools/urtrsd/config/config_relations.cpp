// Checks that involve several settings, or that cannot be expressed as the range of a setting.
#include <algorithm>
#include <bit>
#include <utility>

#include "backends/platform/tls/identity.hpp"
#include "tools/lib/control/http/text_address.hpp"
#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/config/config_text.hpp"

namespace rtrs::daemon {
namespace {

constexpr std::uint32_t kImmediateBits = 28;  // protocol section 1.3

std::uint32_t log2up(std::uint32_t value) {
  return static_cast<std::uint32_t>(std::bit_width(value - 1));
}

}  // namespace

// Reports listed names that cannot be identities. The usual cause is a typing error, such as a space instead
// of a comma.
void ConfigReader::check_identities(const std::vector<std::string>& listed) {
  for (const std::string& one : listed) {
    if (!tls::is_identity(one))
      report("", "allow_identities: invalid identity " + in_quotes(one),
             "an identity is 1 to 128 of A-Z a-z 0-9 . _ : @ -; separate identities with commas");
  }
}

void ConfigReader::check_access() {
  const auto access = parse_access(config_.allow_addresses, config_.allow_identities, config_.allow_sessions);
  if (!access) report("", "allow_addresses, allow_identities, allow_sessions: " + access.error());
  if (access) check_identities(access->identities);
  for (const ExportSpec& one : config_.exports) check_identities(one.allow.identities);
  const bool by_identity = std::any_of(config_.exports.begin(), config_.exports.end(),
                                       [](const ExportSpec& one) { return !one.allow.identities.empty(); });
  if ((by_identity || !config_.allow_identities.empty()) && !authenticates_clients(config_))
    report("", "allow_identities rejects all clients without TLS or shared keys, which provide the identity",
           "give tls_keys, or tls_cert, tls_key and tls_ca; on verbs and libfabric auth_keys");
  const auto names_identity = [](const std::string& list) {
    return list.find("%IDENTITY%") != std::string::npos;
  };
  const bool own_names =
      names_identity(config_.allow_sessions) ||
      std::any_of(config_.exports.begin(), config_.exports.end(),
                  [&](const ExportSpec& one) { return names_identity(one.allow.text[2]); });
  if (own_names && !authenticates_clients(config_))
    report("",
           "allow_sessions with %IDENTITY% rejects all clients without TLS or shared keys, which provide the "
           "identity",
           "give tls_keys, or tls_cert, tls_key and tls_ca; on verbs and libfabric auth_keys");
}

void ConfigReader::check_relations() {
  const auto origin_of = [this](const char* key) {
    const auto found = origins_.find(key);
    return found == origins_.end() ? std::string() : found->second;
  };
  if (!config_.metrics.empty()) {
    const auto address = http::parse_text_address(config_.metrics);
    if (!address)
      report(origin_of("metrics"), "metrics: " + in_quotes(config_.metrics) + ": " + address.error(),
             "for example 127.0.0.1:9469");
  }
  if (config_.fabric != "tcp" && !(config_.tls == tools::TlsChoice{}) && config_.tls.mode != "off")
    report("", "TLS is for the fabric tcp, not for " + config_.fabric, "remove the tls settings");
  if (config_.fabric == "tcp" && !(config_.auth == tools::AuthChoice{}) && config_.auth.mode != "off")
    report("", "auth is for the fabrics verbs and libfabric, not for tcp",
           "use tls_keys instead, which encrypts too");
  if (config_.fabric == "tcp") {
    const std::string why = tools::contradiction(config_.tls);
    if (!why.empty()) report("", why);
  }
  if (const std::string other = setting_of_another_fabric(config_); !other.empty())
    report("", other, "leave it out, or choose that fabric");
  const std::uint32_t depth_bits = log2up(config_.protocol.queue_depth);
  const std::uint32_t chunk_bits = log2up(config_.protocol.chunk_size);
  if (depth_bits + chunk_bits > kImmediateBits) {
    const std::string depth_origin = origin_of("sess_queue_depth");
    report(depth_origin.empty() ? origin_of("max_chunk_size") : depth_origin,
           "sess_queue_depth " + std::to_string(config_.protocol.queue_depth) + " and max_chunk_size " +
               std::to_string(config_.protocol.chunk_size) + " do not fit together: they need " +
               std::to_string(depth_bits) + " + " + std::to_string(chunk_bits) +
               " bits of the 28 that address a buffer",
           "with this max_chunk_size at most " + std::to_string(1U << (kImmediateBits - chunk_bits)) +
               " IOs can be in flight");
  }
  check_access();
  if (config_.exports.empty() && config_.dev_search_path.empty() && problems_.empty())
    report("", "nothing to export", "give --export NAME=FILE, [[export]] or dev_search_path");
}

}  // namespace rtrs::daemon
