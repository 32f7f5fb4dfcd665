// Parses the parameters of requests to urtrs-mapd, and sends replies.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/rpc/server.hpp"
#include "tools/urtrs-mapd/keeper.hpp"
#include "tools/urtrs-mapd/options.hpp"

namespace rtrs::mapd {

struct Asked {
  Keeper& keeper;
  const Options& options;
  const nlohmann::json& params;
  const rpc::Reply& reply;

  std::string operator[](const char* key) const {
    const auto found = params.find(key);
    return found == params.end() ? std::string() : found->get<std::string>();
  }
  void refuse(rpc::Code code, std::string message, std::string hint = {}, int error = EINVAL) const {
    reply.error({code, std::move(message), std::move(hint), error});
  }
};

nlohmann::json with_version(nlohmann::json answer);
// Returns the name of this host up to the first dot.
std::string host_name();

struct Wanted {
  std::string session;
  mapping::SessionWish wish;
};
// Returns the session that "device.map" requests, with its settings.
tl::expected<Wanted, mapping::Refusal> wanted(const Asked&);
// Returns advice for the user about an error; may be empty.
std::string hint_of(const Asked&, const mapping::Refusal&);

// Handle the methods "path.add" and "path.remove".
void path_add(const Asked&);
void path_remove(const Asked&);
// Returns a callback that sends the result as the reply to the request.
Keeper::Then answer_of(const Asked&);

}  // namespace rtrs::mapd
