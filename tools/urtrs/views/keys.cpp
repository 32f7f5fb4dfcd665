#include "tools/urtrs/views/keys.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "backends/platform/tls/identity.hpp"
#include "backends/platform/tls/keys_file.hpp"
#include "tools/urtrs/views/output.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {
namespace {

int refuse(const std::string& why, int error, const Options& options) {
  return fail(rpc::Error{rpc::Code::failed, why, "", error}, options.format == Format::json);
}

// Returns the errno for a key file that cannot be used: EINVAL if the content is wrong, otherwise the errno
// of the failed read.
int errno_of(const std::string& file) {
  return ::access(file.c_str(), R_OK) == 0 ? EINVAL : errno;
}

int make(const Command& command) {
  const std::string& identity = command.arguments[0];
  const Options& options = command.options;
  if (!tls::is_identity(identity))
    return fail(Mistake{"\"" + tls::shown_identity(identity) + "\" is not a valid identity",
                        "it is 1 to 128 of A-Z a-z 0-9 . _ : @ -", false},
                options.format == Format::json);
  tls::Key key;
  if (!tls::make_key(key)) return refuse("getting random numbers from the kernel failed", EIO, options);
  const bool into_file = command.arguments.size() == 2;
  if (into_file) {
    if (const auto added = tls::add_key(command.arguments[1], identity, key); !added)
      return refuse(added.error(), errno_of(command.arguments[1]), options);
  }
  const std::string line = tls::key_line(identity, key);
  if (options.format == Format::json) {
    nlohmann::json answer{{"schema_version", kSchemaVersion}, {"identity", identity}};
    if (!into_file) answer["line"] = line.substr(0, line.size() - 1);
    print(answer);
  } else if (!into_file) {
    std::fputs(line.c_str(), stdout);
  }
  return done;
}

}  // namespace

std::vector<Field> key_fields() {
  return {{"identity", "Identity", "who has the key"}};
}

int run_key(const Command& command) {
  if (command.verb == "new") return make(command);
  const auto keys = tls::list_keys(command.arguments[0]);
  if (!keys) return refuse(keys.error(), errno_of(command.arguments[0]), command.options);
  Table table{"keys", key_fields(), {}};
  for (const auto& [identity, key] : *keys) table.rows.push_back({{{"identity", identity}}, {}});
  return print(table, command.options);
}

}  // namespace rtrs::admin
