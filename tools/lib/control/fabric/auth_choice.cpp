#include "tools/lib/control/fabric/auth_choice.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/platform/tls/identity.hpp"
#include "backends/platform/tls/keys_file.hpp"
#include "backends/platform/tls/mac.hpp"
#include "core/keyed/keyed_fabric.hpp"

namespace rtrs::tools {
namespace {

keyed::SharedKey shared(const std::string& identity, const tls::Key& key) {
  keyed::SharedKey made{identity, {}};
  std::transform(key.begin(), key.end(), made.secret.begin(),
                 [](unsigned char octet) { return static_cast<std::byte>(octet); });
  return made;
}

// Returns, for example, "alice, bob". Lists at most 8 identities.
std::string identities_in(const tls::Keys& keys) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t at = 0;
  for (const auto& [identity, key] : keys) {
    if (at++ == kMost) return text + " ...";
    text += (text.empty() ? "" : ", ") + tls::shown_identity(identity);
  }
  return text;
}

// Picks the single key that a client uses from the keys of a file.
tl::expected<void, std::string> choose(const AuthChoice& choice, tls::Keys& keys) {
  if (choice.identity.empty()) {
    if (keys.size() == 1) return {};
    return tl::unexpected(choice.keys + ": it has several keys, of " + identities_in(keys) +
                          "; choose one with auth-identity");
  }
  const auto found = keys.find(choice.identity);
  if (found == keys.end())
    return tl::unexpected(choice.keys + ": no key of " + tls::shown_identity(choice.identity) + " in it");
  keys = tls::Keys{{found->first, found->second}};
  return {};
}

// Reads the key of a client from its file.
tl::expected<keyed::SharedKey, std::string> read_key(const AuthChoice& choice) {
  auto keys = tls::read_keys(choice.keys, choice.checked_for);
  if (!keys) return tl::unexpected(keys.error());
  if (const auto chosen = choose(choice, *keys); !chosen) return tl::unexpected(chosen.error());
  return shared(keys->begin()->first, keys->begin()->second);
}

tl::expected<OpenedAuth, std::string> open_client_auth(const AuthChoice& choice, tls::Renewal::Tell tell) {
  tls::FileMarks marks = tls::mark_files({choice.keys});
  auto key = read_key(choice);
  if (!key) return tl::unexpected(key.error());
  OpenedAuth opened;
  opened.mode = keyed::Mode::require;
  opened.key = std::move(*key);
  const auto again = [choice]() -> tl::expected<tls::Renewal::Set, std::string> {
    auto read = read_key(choice);
    if (!read) return tl::unexpected(read.error());
    return std::make_shared<const keyed::SharedKey>(std::move(*read));
  };
  opened.renewal =
      std::make_shared<tls::Renewal>(std::vector{choice.keys}, std::move(marks), again, std::move(tell));
  return opened;
}

}  // namespace

tl::expected<OpenedAuth, std::string> open_auth(const AuthChoice& choice, bool client,
                                                tls::Renewal::Tell tell) {
  const bool given = !choice.keys.empty() || !choice.identity.empty();
  const std::string mode = !choice.mode.empty() ? choice.mode : given ? "require" : "off";
  if (mode == "off") {
    if (given) return tl::unexpected<std::string>("auth=off contradicts keys; remove one of them");
    return OpenedAuth{};
  }
  if (choice.keys.empty()) return tl::unexpected<std::string>("auth " + mode + " needs auth-keys");
  if (client && mode == "allow")
    return tl::unexpected<std::string>(
        "auth=allow is for servers: a client with a key accepts only a server that has the key");
  if (tls::hmac_sha256() == nullptr)
    return tl::unexpected<std::string>(
        "this build has no key authentication; install libssl-dev and build again");
  if (client) return open_client_auth(choice, std::move(tell));
  const auto keys = tls::read_keys(choice.keys, choice.checked_for);
  if (!keys) return tl::unexpected(keys.error());
  OpenedAuth opened;
  opened.mode = mode == "allow" ? keyed::Mode::allow : keyed::Mode::require;
  std::vector<keyed::SharedKey> all;
  for (const auto& [identity, key] : *keys) all.push_back(shared(identity, key));
  opened.keys = std::make_shared<const keyed::KeyTable>(tls::hmac_sha256(), all);
  return opened;
}

std::unique_ptr<Fabric> with_auth(std::unique_ptr<Fabric> fabric, const OpenedAuth& auth, bool client) {
  if (auth.mode == keyed::Mode::off) return fabric;
  auto keyed = std::make_unique<keyed::KeyedFabric>(std::move(fabric));
  if (client) {
    keyed->prove(tls::hmac_sha256(), *auth.key, [renewal = auth.renewal] {
      return std::static_pointer_cast<const keyed::SharedKey>(renewal->look());
    });
    return keyed;
  }
  tls::Key random{};
  if (!tls::make_key(random)) return nullptr;
  keyed->ask(tls::hmac_sha256(), shared({}, random).secret, {}, auth.mode);
  keyed->replace_keys(auth.keys, auth.mode);
  return keyed;
}

bool replace_auth(Fabric& fabric, OpenedAuth& auth) {
  auto* const keyed = dynamic_cast<keyed::KeyedFabric*>(&fabric);
  if (keyed == nullptr) return false;
  if (auth.keys == nullptr)
    auth.keys = std::make_shared<const keyed::KeyTable>(tls::hmac_sha256(), std::vector<keyed::SharedKey>{});
  auth.keys = keyed->replace_keys(std::move(auth.keys), auth.mode);
  return true;
}

}  // namespace rtrs::tools
