// The attributes of a daemon, asked for through its control socket.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/rpc/client.hpp"

namespace rtrs::admin {

struct Entry {
  enum class Kind { folder, file, link } kind = Kind::folder;
  unsigned mode = 0;                  // permission bits
  std::string target;                 // of a link
  std::map<std::string, Kind> names;  // in a folder
};

// From any thread. Connects again when the daemon was restarted. Errors are positive errnos; ENOTCONN: no
// daemon can be asked.
class RemoteTree {
 public:
  // Empty: the only daemon that runs, looked for at each connection.
  explicit RemoteTree(std::string socket) : socket_(std::move(socket)) {}

  // Why nobody can be asked, as a sentence; empty: somebody can.
  std::string check();
  tl::expected<Entry, int> look(const std::string& path);
  tl::expected<std::string, int> read(const std::string& path);
  int write(const std::string& path, const std::string& text);

 private:
  tl::expected<nlohmann::json, int> call(const char* method, const nlohmann::json& parameters);
  tl::expected<void, rpc::Error> connect();

  const std::string socket_;
  std::mutex mutex_;
  std::optional<rpc::Client> client_;
};

}  // namespace rtrs::admin
