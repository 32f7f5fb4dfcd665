// TLS options of the tools, as the user chose them.
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

// Returns which options contradict each other or are missing, or an empty string. Does not read the files.
std::string contradiction(const TlsChoice&);

struct OpenedTls {
  std::shared_ptr<const tls::Context> context;  // nullptr: TLS is off
  bool allow_plain = false;                     // server: also accepts clients without TLS
};
// Reads the files, which can hang. The error is a sentence for the user.
tl::expected<OpenedTls, std::string> open_tls(const TlsChoice&, bool client);

// Replaces the credentials of a tcp fabric of open_fabric(), for connections from now on. No effect on
// another fabric.
void replace_tls(Fabric&, const OpenedTls&);

// Returns the credentials in use, for responses of control sockets: "credentials", an array of objects with
// file, what and expires_at, and "warnings", an array of sentences. Both are empty on a fabric without TLS.
nlohmann::json credentials_json(Fabric&);
// Returns tls::warning() of the credentials in use; may be empty.
std::string credentials_warning(Fabric&);

// Rate limit for warnings: once a day, even if no client connects.
class DailyRateLimit {
 public:
  // `started`: time at which the program started and logged its first warning, if any.
  explicit DailyRateLimit(Nanos started) noexcept : next_(later(started, kDay)) {}
  // Returns true once a day.
  bool is_due(Nanos now) noexcept;

 private:
  static constexpr Nanos kDay = seconds(24ULL * 3600);
  Nanos next_;
};

}  // namespace rtrs::tools
