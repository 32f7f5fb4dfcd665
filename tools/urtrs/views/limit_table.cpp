#include "tools/urtrs/views/limit_table.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "tools/lib/control/limits/limits.hpp"
#include "tools/lib/control/rpc/client.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/urtrs/views/output.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {
namespace {

using Kind = Field::Kind;

using nlohmann::json;

// Converts 0, which stands for a missing value, to null.
json known(std::uint64_t number) {
  return number == 0 ? json() : json(number);
}

// Removes Markdown backticks.
std::string plain(std::string text) {
  std::erase(text, '`');
  return text;
}

// Returns what the server reports about a limit; null if it reports nothing.
json use_of(const json& shown, const char* name) {
  if (!shown.contains("limits")) return nullptr;
  for (const json& one : shown["limits"])
    if (one.value("name", "") == name) return one;
  return nullptr;
}

}  // namespace

Table limit_table(const json& shown) {
  Table table{"limits",
              {{"name", "Limit", "its name"},
               {"value", "Value", "unless something is set; empty: the host decides", Kind::number},
               {"unit", "Unit", "of the numbers; empty: a count"},
               {"most", "Up to", "what can be set; empty: the host decides", Kind::number},
               {"set", "Set", "at the running server", Kind::number},
               {"used", "Used", "in use now; of sessions and paths: the one that uses most", Kind::number},
               {"setting", "Setting", "that raises it; empty: none"},
               {"what", "Of what", "is limited", Kind::text, false},
               {"protocol", "Protocol", "the maximum of RTRS, where it has one", Kind::number, false},
               {"beyond", "Beyond it", "what happens", Kind::text, false}},
              {},
              {"most", "setting", "unit"}};
  for (const tools::Limit& limit : tools::limits()) {
    const json use = use_of(shown, limit.name);
    table.rows.push_back({{{"name", limit.name},
                           {"value", known(limit.value)},
                           {"unit", limit.unit},
                           {"most", known(limit.most)},
                           {"set", use.is_null() ? json() : json(number(use, "set"))},
                           {"used", use.contains("used") ? json(number(use, "used")) : json()},
                           {"setting", plain(limit.setting)},
                           {"what", limit.what},
                           {"protocol", known(limit.protocol)},
                           {"beyond", plain(limit.beyond)}},
                          {}});
  }
  return table;
}

int show_limits(const Options& options) {
  const bool as_json = options.format == Format::json;
  const auto socket = options.socket.empty() ? rpc::only_socket("urtrsd")
                                             : tl::expected<std::string, rpc::Error>(options.socket);
  if (!socket && socket.error().error == ENOENT) return print(limit_table(nullptr), options);
  if (!socket) return say_no_daemon(socket.error(), as_json);
  auto client = rpc::Client::connect(*socket);
  if (!client) return fail(client.error(), as_json);
  const auto shown = client->call("server.show", json::object());
  if (!shown) return fail(shown.error(), as_json);
  return print(limit_table(expected_answer(*shown)), options);
}

}  // namespace rtrs::admin
