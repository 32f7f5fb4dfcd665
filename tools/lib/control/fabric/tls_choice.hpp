// How a tool encrypts, as its user chose it: the rules are the same for all of them.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "backends/options/connection.hpp"
#include "backends/platform/tls/tls.hpp"
#include "core/fabric/fabric.hpp"

namespace CLI {
class App;
}

namespace rtrs::tools {

using options::TlsChoice;

// off, allow, require. `allow` is for servers, who then take clients with and without TLS.
const std::vector<std::string>& tls_modes();

// What of it excludes each other or is missing, whatever the files have; empty: nothing.
std::string contradiction(const TlsChoice&);

struct OpenedTls {
  std::shared_ptr<const tls::Context> context;  // null: off
  bool plain_too = false;
};
// Reads the files, which may hang. The error is a sentence for the user.
tl::expected<OpenedTls, std::string> open_tls(const TlsChoice&, bool client);

// Of a fabric `tcp` of open_fabric(), for connections from now on; on another fabric it does nothing.
void replace_tls(Fabric&, const OpenedTls&);

// Credentials in use, for the answers of control sockets: "credentials", an array of file, what and
// expires_at, and "warnings", an array of sentences. Both are empty on a fabric without TLS.
nlohmann::json credentials_json(Fabric&);
// The sentences of tls::warning() about them, or none.
std::string credentials_warning(Fabric&);

// Lets a warning into the log once a day, also while nothing connects.
class DailyWarning {
 public:
  // `started`: when the start of the program has warned, where it had to.
  explicit DailyWarning(Nanos started) noexcept : next_(later(started, kDay)) {}
  // Time to warn, if there is something to warn of.
  bool is_due(Nanos now) noexcept;

 private:
  static constexpr Nanos kDay = seconds(24ULL * 3600);
  Nanos next_;
};

// --tls, --tls-cert and so on, into `choice`, which outlives the parsing.
void add_tls_options(CLI::App&, TlsChoice& choice);

}  // namespace rtrs::tools
