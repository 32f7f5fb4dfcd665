// Reads attributes of servers and clients through their control sockets and merges them into one tree.
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

// Thread-safe. Each call uses the processes that run at that time. Errors are positive errnos; ENOTCONN means
// that no process can be reached. If two processes have an entry with the same name in a directory, the entry
// of the first process is shown: servers come before clients, and each group is ordered by socket name. A
// process that did not answer is skipped for a while (Patience).
class RemoteTree {
 public:
  // `socket` is the control socket of a process; empty: use all running servers and clients.
  explicit RemoteTree(std::string socket) : socket_(std::move(socket)) {}

  // Explains why no process can be reached; empty if a process can be reached.
  std::string check();
  tl::expected<Entry, int> look(const std::string& path);
  tl::expected<std::string, int> read(const std::string& path);
  // Like a write to sysfs, returns after the requested operation has finished. Does not block other calls.
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

  // Returns the role of the processes that may have the path, which its first directories determine.
  static Role role_of(const std::string& path);
  std::vector<Place> places_of(const std::string& path);
  // Returns the errno for a path that no process has: ENOTCONN if no process can be reached, otherwise
  // ENOENT.
  int nobody() const;

  // The functions below require the mutex.
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
