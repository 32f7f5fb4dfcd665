// The attributes of daemons and clients, asked for through their control sockets and joined to one tree.
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
#include "tools/urtrs-fs/patience.hpp"

namespace rtrs::admin {

struct Entry {
  enum class Kind { folder, file, link } kind = Kind::folder;
  unsigned mode = 0;                  // permission bits
  std::string target;                 // of a link
  std::map<std::string, Kind> names;  // in a folder
};

// From any thread. Processes that come and go are seen at the next call. Errors are positive errnos;
// ENOTCONN: nobody can be asked. Where two processes have one name in a folder, the first by the name of its
// socket is shown, servers before clients. A process that does not answer is not asked again for a while.
class RemoteTree {
 public:
  // Empty: every server and client that runs.
  explicit RemoteTree(std::string socket) : socket_(std::move(socket)) {}

  // Why nobody can be asked, as a sentence; empty: somebody can.
  std::string check();
  tl::expected<Entry, int> look(const std::string& path);
  tl::expected<std::string, int> read(const std::string& path);
  // As in Linux it returns when what it began is over: other calls go on meanwhile.
  int write(const std::string& path, const std::string& text);

 private:
  enum class Role : std::uint8_t { server, client, unknown };
  struct Source {
    std::string socket;
    Role role = Role::unknown;
    std::optional<rpc::Client> client{};
    Patience patience{};
  };
  // A file of one process: whose, and the path there.
  struct Place {
    Source* source = nullptr;
    std::string path;
  };
  using Answer = tl::expected<nlohmann::json, int>;

  // Who can have it, by the first folders of the path.
  static Role role_of(const std::string& path);
  std::vector<Place> places_of(const std::string& path);
  // The errno of what nobody has who can be asked.
  int nobody() const;

  // Under the mutex.
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

}  // namespace rtrs::admin
