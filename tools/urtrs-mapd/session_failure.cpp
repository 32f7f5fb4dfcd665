#include "tools/urtrs-mapd/session_failure.hpp"

#include <fmt/format.h>

#include <cerrno>

namespace rtrs::mapd {

using nlohmann::json;

namespace {

// True if the server may have rejected the session because of missing or wrong credentials.
bool asks_for_credentials(const std::string& reason) {
  return reason == "key_refused" || reason == "tls_failed" || reason == "rejected" ||
         reason == "bad_conn_rsp" || reason == "unanswered" || reason == "not_allowed";
}

}  // namespace

Trouble trouble_of(const json& shown) {
  Trouble found;
  for (const json& session : shown.at("sessions")) {
    if (session.at("state") == "connected") return {};
    for (const json& path : session.at("paths")) {
      const std::string sentence = path.value("sentence", "");
      if (sentence.empty()) continue;
      found.why += fmt::format("{}path {}: {}", found.why.empty() ? "" : "; ",
                               path.at("pathname").get<std::string>(), sentence);
      if (!found.hint.empty()) continue;
      found.hint = path.value("hint", "");
      if (asks_for_credentials(path.value("reason", "")))
        found.hint += "; \"urtrs map\" takes --tls-keys, --auth-keys and the like for a session";
    }
  }
  return found;
}

std::string hint_of(int error, std::string_view doing) {
  switch (error) {
    case ENOENT:
      return "the server has no device of this name";
    case EALREADY:
      return doing == "unmapping"
                 ? "it is being unmapped; try again later"
                 : "it is already open; \"urtrs remap\" is only for a device that the server rejected";
    case EBUSY:
      return doing == "mapping" ? "it is being unmapped, or open in another mode; try again later"
                                : "it is in use; \"force\" closes it anyway";
    case ECANCELED:
      return "it was unmapped meanwhile";
    case EEXIST:
      return "\"urtrs mapping list\" shows it; use --idempotent to succeed in this case";
    default:
      return {};
  }
}

}  // namespace rtrs::mapd
