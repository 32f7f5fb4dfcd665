// Runs a BlockServer on one fabric and carries out its actions: opens exports from the catalog, submits IO to
// the storage engine, and writes the log. Uses one thread and one io_context.
#pragma once
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "core/driver/block_server.hpp"
#include "core/record/recorder.hpp"
#include "tools/lib/control/http/text_server.hpp"
#include "tools/urtrsd/blocking_jobs.hpp"
#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/control/control.hpp"
#include "tools/urtrsd/log.hpp"
#include "tools/urtrsd/service_notifier.hpp"
#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/descriptor_budget.hpp"
#include "tools/urtrsd/storage/missing_list.hpp"
#include "tools/urtrsd/storage/storage_engine.hpp"

namespace rtrs::daemon {

class Daemon : private Controlled {
 public:
  // `fabric` and `catalog` must be ready to use.
  Daemon(boost::asio::io_context&, const DaemonConfig&, std::unique_ptr<Fabric> fabric,
         std::unique_ptr<Catalog> catalog, std::unique_ptr<StorageEngine> engine, const ServiceEnvironment&);
  ~Daemon() override;

  // Sets the function that reads the configuration again, with the same command line as at the start. The
  // function is called in another thread.
  void reread_with(std::function<CommandLine()> reread) { reread_ = std::move(reread); }

  // Schedules retries for the items that Catalog::check() found missing.
  void expect(const std::vector<Catalog::Problem>& missing);
  // Returns 0, or an exit code after logging an error.
  int start();
  // True if a second signal or shutdown_timeout ended the daemon while operations were in flight. The
  // process must then exit without running destructors, which would wait for these operations.
  bool was_forced() const noexcept { return forced_; }

 private:
  struct Session {
    std::string name;
    std::string peer;          // client address of the path that opened the session
    std::string path;          // SRC@DST of the path that opened the session
    std::uint64_t serial = 0;  // unlike the session index, never reused
    DescriptorBudget::Host host = 0;
  };
  struct Device {
    OpenedDevice opened;
    std::uint64_t export_id = 0;  // see block::ExportOpened::export_id
  };

  bool step(Nanos now);
  void perform(const block::StartStorage&);
  void perform(const block::OpenExport&);
  void perform(const block::CloseExport&);
  void perform(const block::MeasureExport&);
  void perform(const block::CacheDamaged&);
  void perform(const block::SessionOpened&);
  void perform(const block::SessionRefused&);
  void perform(const block::SessionClosed&);
  void no_memory_for(std::uint16_t session, std::string_view name);
  std::string who(std::uint16_t session) const;  // name of the session for log lines
  LogFields fields_of(std::uint16_t session, int error = 0) const;
  void log_refused_open(std::uint16_t session, const std::string& name, const OpenError&);
  // The next functions are defined in daemon_devices.cpp.
  tl::expected<void, OpenError> may_open(std::uint16_t session, const std::string& name) const;
  void opened(const block::OpenExport& asked, const std::string& name, AccessMode mode,
              tl::expected<OpenedDevice, OpenError> found);
  block::ExportOpened keep(const block::OpenExport& asked, AccessMode mode, OpenedDevice device);
  void close(const Session& of, OpenedDevice device);
  void log_failure(const StorageResult&);

  bool listen();  // returns false after it has logged an error (daemon_listen.cpp)
  Errc listen_on(const std::string& address);
  // `name` is the host name that resolved to `address`, or the address itself. Returns false after logging an
  // error.
  bool listen_or_miss(const std::string& address, const std::string& name);
  bool miss_name(const std::string& name, const std::string& why);
  void listen_again(const MissingList::Key& key, const std::shared_ptr<void>& until_done);
  std::string cannot_listen(const std::string& address, Errc result, const std::string& name = {}) const;
  void warn_of_open_access(const std::string& address) const;
  void warn_of_plain_listeners() const;
  std::string listen_error_text(const std::string& address, Errc result) const;
  bool run_storage();
  void wait_for_storage();
  void wait_for_signals();
  void begin_shutdown(const char* why);
  void exit_immediately(const std::string& why);
  std::string service_status() const;
  void schedule_malloc_trim();
  void watch_expiry();
  // The next functions are defined in daemon_trace.cpp.
  trace::Origin origin() const;
  // Opens the trace file. Returns "", or an error text that was logged.
  std::string open_trace(const std::string& path);
  void toggle_trace();
  void report_trace(const PathEvent&);
  void report_news();
  void log_refused(const PathEvent&);
  void log_path(const PathEvent&);

  // The next functions are defined in daemon_missing.cpp.
  void miss(const MissingList::Key& key, OpenError why);
  bool appeared(const MissingList::Key& key);  // returns false if the item was not missing
  // Lane in BlockingJobs for retries. daemon_reload.cpp and daemon.cpp define the other lanes.
  static constexpr BlockingJobs::Lane kRetries = ~BlockingJobs::Lane{2};
  // `until_done` may be null; the daemon releases it when the attempt has ended.
  void try_again(const MissingList::Key& key, const std::shared_ptr<void>& until_done);
  void ask_catalog(const MissingList::Key& key, const std::shared_ptr<void>& until_done);
  void set_retry_timer();
  void forget_export(const std::string& name);
  void note_open(const std::string& name, AccessMode mode,
                 const tl::expected<OpenedDevice, OpenError>& found);
  bool is_missing(const std::string& export_name) const;
  // The next functions are defined in daemon_control.cpp.
  void open_control();
  bool open_or_miss_metrics();  // returns false after it has logged an error
  OpenError open_metrics();     // error 0: metrics are served, or not configured
  attributes::ServerModel model() const override;
  // Returns all sessions, with the names that users see and can enter.
  std::vector<ServerSessionStatus> sessions() const;
  std::vector<ExportSpec> exports() const override { return catalog_->specs(); }
  std::vector<std::string> lost_nbd() const override { return catalog_->lost_nbd(); }
  const MissingList& missing() const override { return missing_; }
  ServerStats transport_stats() const override { return server_.transport().stats(); }
  BlockServerStats block_stats() const override { return server_.stats(); }
  std::vector<LimitInUse> limits() const override;  // defined in daemon_limits.cpp
  Nanos now() const override { return asio::steady_now(); }
  Nanos started() const override { return started_; }
  std::string fabric_name() const override { return fabric_->capabilities().name; }
  nlohmann::json credentials() const override { return tools::credentials_json(*fabric_); }
  int disconnect_path(std::uint16_t session, unsigned path) override;
  int close_session(std::uint16_t session) override;
  int reset_traffic(std::uint16_t session, unsigned path) override;
  int force_close(std::uint64_t handle) override;
  std::string start_trace(const std::string& path) override;
  std::string stop_trace() override;
  std::string dump_trace(const std::string& path) override;
  bool set_log_level(const std::string& level) override;
  // The next functions are defined in daemon_debug.cpp.
  nlohmann::json debug_dump(const std::string& from) const override;
  std::string hung_operations() const;  // lists blocked storage operations, with the device names of clients
  // The next functions are defined in daemon_reload.cpp.
  static std::vector<std::string> log_export(const ExportSpec& spec);
  void add_export(const ExportSpec& spec, std::function<void(const Added&)> tell) override;
  std::string remove_export(const std::string& name, bool force) override;
  void reload(std::function<void(const Reloaded&)> tell) override;
  void reread();
  // Result of reading the files again: the configuration and, for the fabric tcp, the TLS files.
  struct Reread;
  bool uses_tls_of(const DaemonConfig& wanted) const;
  void change_settings(Reread&, std::function<void(const Reloaded&)> tell);
  void reload_tls(const Reread&, Reloaded& done);
  bool uses_auth_of(const DaemonConfig&) const;
  void reload_auth(Reread&, Reloaded& done);
  std::vector<std::uint64_t> handles_of(const std::string& export_name) const;
  std::string users_of(const std::string& export_name) const;
  void add_new_export(const ExportSpec& spec, std::shared_ptr<Reloaded> done,
                      std::shared_ptr<void> until_done);
  void change_exports(const std::vector<ExportSpec>& wanted, std::shared_ptr<Reloaded> done,
                      std::function<void(const Reloaded&)> tell);
  bool always_invalidates() const;

  boost::asio::io_context& context_;
  DaemonConfig config_;
  std::vector<std::string> listens_on_;  // numeric addresses
  Recorder recorder_;
  std::unique_ptr<Catalog> catalog_;
  std::map<std::uint64_t, Device> devices_;  // keyed by export handle
  std::unique_ptr<StorageEngine> engine_;    // declared after the devices that it uses, so destroyed first
  std::unique_ptr<Fabric> fabric_;           // owns the memory that the engine reads and writes
  BlockServer server_;
  std::vector<std::unique_ptr<Session>> sessions_;
  LimitedLog log_;
  DescriptorBudget descriptors_;  // counts files that are open, being opened or being closed
  // Buffers of one step. They are members, because initialising them in each step would cost more than the
  // rest of an idle step.
  std::array<block::Action, 64> actions_;
  std::array<StorageResult, 64> done_;
  PathEvent path_event_;
  std::uint64_t next_handle_ = 1;
  std::uint64_t next_export_ = 1;
  std::uint32_t open_sessions_ = 0;
  bool submitted_ = false;
  bool stopping_ = false;
  bool forced_ = false;
  unsigned recordings_ = 0;  // number of recordings that signals have started
  std::string tracing_;      // file of the current recording; empty: none
  Nanos next_dump_ = 0;      // earliest time at which the next error may cause a dump
  boost::asio::posix::stream_descriptor engine_events_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer shutdown_;
  boost::asio::steady_timer memory_timer_;
  boost::asio::steady_timer expiry_timer_;
  tools::DailyRateLimit expiry_warning_{asio::steady_now()};
  bool memory_timer_set_ = false;
  MissingList missing_;
  boost::asio::steady_timer retry_timer_;
  asio::FabricPump pump_;
  ServiceNotifier service_;
  BlockingJobs jobs_;
  Nanos started_ = asio::steady_now();
  std::function<CommandLine()> reread_;
  bool rereading_ = false;
  std::vector<std::function<void(const Reloaded&)>> reloads_;  // callbacks waiting for the next reload
  std::unique_ptr<Control> control_;                           // null if there is no control socket
  std::unique_ptr<http::TextServer> metrics_;
};

}  // namespace rtrs::daemon
