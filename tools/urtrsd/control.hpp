// What urtrsd can be asked while it runs: JSON-RPC on its control socket (docs/management.md has the
// methods). Answers come from a snapshot of the moment; nothing here is on the path of an IO.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/driver/block_server.hpp"
#include "core/driver/path_event.hpp"
#include "tools/lib/attributes/server_tree.hpp"
#include "tools/lib/rpc/server.hpp"
#include "tools/urtrsd/catalog.hpp"
#include "tools/urtrsd/missing_list.hpp"

namespace rtrs::daemon {

// A limit of tools/lib/limits, as this server has it.
struct LimitInUse {
  const char* name;
  std::uint64_t set = 0;
  // The largest number where the limit holds for each session, path or client address. Unset: not known.
  std::optional<std::uint64_t> used;
};

// What a control socket works on: the daemon.
class Controlled : public attributes::ServerOperations {
 public:
  virtual attributes::ServerModel model() const = 0;
  virtual std::vector<ExportSpec> exports() const = 0;
  virtual std::vector<std::string> lost_nbd() const = 0;  // exports, see Catalog
  virtual const MissingList& missing() const = 0;
  virtual ServerStats transport_stats() const = 0;
  virtual BlockServerStats block_stats() const = 0;
  virtual std::vector<LimitInUse> limits() const = 0;
  virtual Nanos now() const = 0;
  virtual Nanos started() const = 0;
  virtual std::string fabric_name() const = 0;
  // "credentials" and "warnings" of tools::credentials_json().
  virtual nlohmann::json credentials() const = 0;
  virtual int close_session(std::uint16_t session) = 0;  // 0 or an errno
  // Told when the file has answered, which may take as long as the disk likes.
  struct Added {
    std::string refused;                // "": it is there, or why not
    std::vector<std::string> warnings;  // of its size
  };
  virtual void add_export(const ExportSpec& spec, std::function<void(const Added&)> tell) = 0;
  // "": it is gone, or why not. `force`: taken away from the sessions that have it open.
  virtual std::string remove_export(const std::string& name, bool force) = 0;
  // Reads the configuration again; what changed, and what did not, as sentences. Told when exports are there.
  struct Reloaded {
    std::vector<std::string> problems;  // nothing was changed
    std::vector<std::string> changed;
    std::vector<std::string> kept;  // that differ, and why they stay
  };
  virtual void reload(std::function<void(const Reloaded&)> tell) = 0;
  // "": done, and `path` names the file; otherwise why not.
  virtual std::string start_trace(const std::string& path) = 0;
  virtual std::string stop_trace() = 0;
  virtual std::string dump_trace(const std::string& path) = 0;
  // What everything that is under way waits for. `from`: where a page begins, "" or what the one before gave
  // as "next"; null: it is neither.
  virtual nlohmann::json debug_dump(const std::string& from) const = 0;
  virtual bool set_log_level(const std::string& level) = 0;  // false: no such level
};

class Control {
 public:
  // Versions of the JSON that it answers; a number never changes its meaning.
  static constexpr int kSchemaVersion = 1;

  // `socket` as in the configuration: a path, or "auto" for one below the run-time folder. The error is a
  // sentence. `target` must outlive it.
  static tl::expected<std::unique_ptr<Control>, std::string> open(boost::asio::io_context&,
                                                                  const std::string& socket,
                                                                  const std::string& group,
                                                                  Controlled& target);
  const std::string& path() const noexcept { return path_; }
  // Tells those who watch.
  void tell(const PathEvent&);
  void tell(const std::string& what, const nlohmann::json& fields);

 private:
  explicit Control(Controlled& target) : target_(target) {}
  void handle(const rpc::Caller&, const rpc::Request&, const rpc::Reply&);

  Controlled& target_;
  std::string path_;
  std::uint64_t events_ = 0;  // told so far
  std::unique_ptr<rpc::Server> server_;
};

// --- the answers, for tests ---
nlohmann::json to_json(const attributes::ServerModel&, Nanos now, bool buckets);
nlohmann::json to_json(const ServerStats&, const BlockServerStats&);
// `lost`: names of exports whose NBD server is lost.
nlohmann::json to_json(const std::vector<ExportSpec>&, const std::vector<std::string>& lost);
nlohmann::json to_json(const MissingList&, Nanos now);
nlohmann::json to_json(const std::vector<LimitInUse>&);
nlohmann::json to_json(const PathEvent&);

}  // namespace rtrs::daemon
