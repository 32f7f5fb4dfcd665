// Control socket of urtrsd, which speaks JSON-RPC (docs/management.md lists the methods). Replies show the
// state at the time of the request. No function in this file is on the IO path.
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
#include "tools/lib/control/attributes/server_tree.hpp"
#include "tools/lib/control/rpc/server.hpp"
#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/missing_list.hpp"
#include "tools/urtrsd/storage/open_error.hpp"

namespace rtrs::daemon {

// A limit of tools/lib/control/limits and its value in this server.
struct LimitInUse {
  const char* name;
  std::uint64_t set = 0;
  // Current use. For a limit that applies to each session, path or client address, the highest current use of
  // any of them. Unset: unknown.
  std::optional<std::uint64_t> used;
};

// Functions of the daemon that the control socket calls.
class Controlled : public attributes::ServerOperations {
 public:
  virtual attributes::ServerModel model() const = 0;
  virtual std::vector<ExportSpec> exports() const = 0;
  virtual std::vector<std::string> lost_nbd() const = 0;  // names of exports; see Catalog::lost_nbd()
  virtual const MissingList& missing() const = 0;
  virtual ServerStats transport_stats() const = 0;
  virtual BlockServerStats block_stats() const = 0;
  virtual std::vector<LimitInUse> limits() const = 0;
  virtual Nanos now() const = 0;
  virtual Nanos started() const = 0;
  virtual std::string fabric_name() const = 0;
  // Returns the members "credentials" and "warnings" of tools::credentials_json().
  virtual nlohmann::json credentials() const = 0;
  virtual int close_session(std::uint16_t session) = 0;  // 0 or an errno
  // Result of adding an export. It is delivered when the file has been examined, which may take as long as
  // the disk does.
  struct Added {
    std::string refused;                // "" if the export was added, otherwise the error
    std::vector<std::string> warnings;  // warnings about the size of the export
  };
  virtual void add_export(const ExportSpec& spec, std::function<void(const Added&)> tell) = 0;
  // Returns "" if the export was removed, otherwise the error. With `force`, also closes the device in the
  // sessions that have it open.
  virtual std::string remove_export(const std::string& name, bool force) = 0;
  // Result of a reload of the configuration, as messages. It is delivered after the new exports have been
  // added.
  struct Reloaded {
    std::vector<std::string> problems;  // if not empty, nothing was changed
    std::vector<std::string> changed;
    std::vector<std::string> kept;  // changed settings that need a restart, with the reason
  };
  virtual void reload(std::function<void(const Reloaded&)> tell) = 0;
  // Returns "" if recording to `path` has started, otherwise the error.
  virtual std::string start_trace(const std::string& path) = 0;
  virtual std::string stop_trace() = 0;
  virtual std::string dump_trace(const std::string& path) = 0;
  // Returns everything that is pending and what it waits for. `from` is "" for the first page, or the member
  // "next" of the previous page. Returns null if `from` is neither.
  virtual nlohmann::json debug_dump(const std::string& from) const = 0;
  virtual bool set_log_level(const std::string& level) = 0;  // returns false if there is no such level
};

class Control {
 public:
  // Version of the JSON replies. The meaning of a version never changes.
  static constexpr int kSchemaVersion = 1;

  // `socket` is a path, or "auto" for a path in the run-time directory. The error is a human-readable
  // message. `target` must outlive the returned object.
  static tl::expected<std::unique_ptr<Control>, std::string> open(boost::asio::io_context&,
                                                                  const std::string& socket,
                                                                  const std::string& group,
                                                                  Controlled& target);
  const std::string& path() const noexcept { return path_; }
  // Sends the event to the clients that watch events.
  void tell(const PathEvent&);
  void tell(const std::string& what, const nlohmann::json& fields);

 private:
  explicit Control(Controlled& target) : target_(target) {}
  void handle(const rpc::Caller&, const rpc::Request&, const rpc::Reply&);

  Controlled& target_;
  std::string path_;
  std::uint64_t events_ = 0;  // events sent so far
  std::unique_ptr<rpc::Server> server_;
};

// --- JSON replies; public for tests ---
nlohmann::json to_json(const attributes::ServerModel&, Nanos now, bool buckets);
nlohmann::json to_json(const ServerStats&, const BlockServerStats&);
// `lost` lists the exports whose NBD server is lost.
nlohmann::json to_json(const std::vector<ExportSpec>&, const std::vector<std::string>& lost,
                       const MissingList&);
nlohmann::json to_json(const MissingList&, Nanos now);
nlohmann::json to_json(const std::vector<LimitInUse>&);
nlohmann::json to_json(const PathEvent&);
// A client was refused a device; both names come from the client.
nlohmann::json to_json(const OpenError&, const std::string& session, const std::string& device);

}  // namespace rtrs::daemon
