// TLS options, as configured by the user of a tool.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>

#include "backends/options/connection.hpp"
#include "backends/platform/tls/tls.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::tools {

using options::TlsChoice;

// Returns an error message that names contradicting or missing options, or an empty string. Does not read the
// files.
std::string contradiction(const TlsChoice&);

struct OpenedTls {
  std::shared_ptr<const tls::Context> context;  // nullptr: TLS is off
  bool allow_plain = false;                     // a server also accepts clients without TLS
};
// Reads the files, which can hang. The error is a human-readable message.
tl::expected<OpenedTls, std::string> open_tls(const TlsChoice&, bool client);

// Replaces the credentials of a tcp fabric from open_fabric() for later connections. Does nothing for other
// fabrics.
void replace_tls(Fabric&, const OpenedTls&);

// Returns the credentials in use, for responses of control sockets. "credentials" is an array of objects with
// file, what and expires_at; "warnings" is an array of messages. Both are empty on a fabric without TLS.
nlohmann::json credentials_json(Fabric&);
// Returns the tls::warning() about the credentials in use; may be empty.
std::string credentials_warning(Fabric&);

// Decides when a warning is repeated: once a day, even if no client connects.
class DailyRateLimit {
 public:
  // `started`: time at which the program started. The program logs its first warning, if any, at the start.
  explicit DailyRateLimit(Nanos started) noexcept : next_(later(started, kDay)) {}
  // Returns true if a day has passed since the start or the last time that it returned true.
  bool is_due(Nanos now) noexcept;

 private:
  static constexpr Nanos kDay = seconds(24ULL * 3600);
  Nanos next_;
};

}  // namespace rtrs::tools
