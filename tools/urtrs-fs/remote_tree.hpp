// Attributes of servers and clients, read through their control sockets and merged into one tree.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/urtrs-fs/block_numbers.hpp"
#include "tools/urtrs-fs/process_timeout.hpp"

namespace rtrs::fs_tool {

struct Entry {
  enum class Kind { folder, file, link } kind = Kind::folder;
  unsigned mode = 0;                  // permission bits
  std::string target;                 // target of a link
  std::map<std::string, Kind> names;  // entries of a folder
};

// Thread-safe. Each call sees the processes that run now. Errors are positive errnos; ENOTCONN: no process
// can be reached. If two processes have the same name in a folder, the first one is shown: servers before
// clients, then in the order of their socket names. A process that does not answer is skipped for a while
// (Patience).
class RemoteTree {
 public:
  // `socket`: control socket of one process; empty: all running servers and clients.
  explicit RemoteTree(std::string socket) : socket_(std::move(socket)) {}

  // Returns a sentence that says why no process can be reached; empty if one can.
  std::string check();
  tl::expected<Entry, int> look(const std::string& path);
  tl::expected<std::string, int> read(const std::string& path);
  // As in Linux, returns when the operation that it started has finished. Does not block other calls.
  int write(const std::string& path, const std::string& text);

 private:
  enum class Role : std::uint8_t { server, client, unknown };
  struct Source {
    std::string socket;
    Role role = Role::unknown;
    std::optional<rpc::Client> client{};
    Patience patience{};
  };
  // A path in the tree of one process.
  struct Place {
    Source* source = nullptr;
    std::string path;
  };
  using Answer = tl::expected<nlohmann::json, int>;

  // Role of the processes that may have the path, derived from its first folders.
  static Role role_of(const std::string& path);
  std::vector<Place> places_of(const std::string& path);
  // Errno for a path that no process has: ENOTCONN if no process can be reached, otherwise ENOENT.
  int nobody() const;

  // All functions below require the mutex.
  void refresh();
  tl::expected<void, rpc::Error> connect(Source&);
  Answer call(Source&, const char* method, const std::string& path);
  void renumber();
  tl::expected<Place, int> place_of(const std::string& path);
  tl::expected<Entry, int> look_at(const Place&);
  tl::expected<Entry, int> join(const std::string& path);
  tl::expected<std::string, int> socket_for(const std::string& path, const std::string& text,
                                            std::string& there);
  tl::expected<Place, int> client_for(const std::string& path, const std::string& map_request);

  const std::string socket_;
  std::mutex mutex_;
  std::vector<Source> sources_;
  BlockNumbers numbers_;
};

}  // namespace rtrs::fs_tool
