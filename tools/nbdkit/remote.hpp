// The remote devices of a session, for programs with blocking threads. These threads poll the fabric
// themselves (tools/nbdkit/block_session.hpp). A separate thread with an event loop handles timers, signals
// and the status file.
#pragma once
#include <bitset>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "backends/bindings/asio/remote_device.hpp"
#include "tools/lib/control/client/client_control.hpp"
#include "tools/lib/control/plugin/settings.hpp"
#include "tools/nbdkit/block_session.hpp"
#include "tools/nbdkit/exports.hpp"
#include "tools/nbdkit/loop_thread.hpp"
#include "tools/nbdkit/status.hpp"
#include "tools/nbdkit/status_file.hpp"

namespace rtrs::nbdkit {

class Remote : private BlockSession::Listener, private control::ControlledClient {
 public:
  // Opens the fabric, the threads and the session; if device= lists exactly one device, also that device.
  // Call it after the last fork. Blocks at most for name_in_use_timeout() plus close_timeout. `lines` is
  // called from any thread and must not block. The error is a human-readable message. `ending` returns true
  // if the program should end, and may be empty. During the start, this thread polls `ending`, and true
  // cancels the start. Later, while requests are in flight, the loop thread polls `ending`. If it returns
  // true, the session is closed, so that pending requests do not keep the program alive: at once if no path
  // is connected, otherwise after a grace period.
  using Ending = std::function<bool(bool at_start)>;
  static tl::expected<std::unique_ptr<Remote>, std::string> open(const plugin::Settings&, Status::Lines lines,
                                                                 Ending ending = {});
  // Closes the session, then completes the trace and the status file. No other call may be in progress.
  ~Remote() override;
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  // The use of a device by a connection; valid until detach().
  struct Use {
    Export* device = nullptr;
    rnbd::DeviceHandle handle = 0;
  };
  // Opens the device if it is not open, waiting at most connect_timeout. Thread-safe. `name` is the export
  // name; if device= lists exactly one device, unknown names also select that device. The error is a
  // human-readable message.
  tl::expected<Use, std::string> attach(const std::string& name, bool read_only);
  void detach(const Use&);

  // Executes a request; returns 0 or an errno. Thread-safe. The data must stay valid during the call. The
  // duration is limited (to queue_timeout) only while no path is connected.
  int io(const Use&, const BlockRequest&);
  // Explains in a message why io() returned `error`.
  std::string failure_text(const Use&, const BlockRequest&, int error);

  struct Shape {
    std::string name;
    rnbd::Geometry geometry;  // reported by the last successful open
    bool writable = false;
  };
  Shape shape(const Use&);
  // Returns the devices that device= lists and those that were mapped at run time.
  std::vector<std::string> names();

 private:
  using Lock = BlockSession::Lock;
  // An event for the clients that watch events through the control socket.
  struct News {
    BlockEvent event;
    std::string about;              // name of the path or device that has changed
    std::uint64_t size_before = 0;  // previous size of the device in bytes
  };
  // A device that is being opened at the request of a control client.
  struct Mapping {
    Export* device = nullptr;
    Exports::Wish wish;
    bool was_kept = false;
    std::optional<wire::rnbd::AccessMode> was_mapped_as;
    // Previous mode of the device, if the device was closed because this mapping needs a different mode.
    std::optional<wire::rnbd::AccessMode> restore;
    Nanos until = 0;
    std::function<void(int error, const std::string& why)> tell;
  };

  Remote(const plugin::Settings&, Status::Lines, Ending);
  std::string start();
  void make_session(std::unique_ptr<Fabric>);
  std::string open_session();
  // Start and time limit of a wait.
  struct Patience {
    Nanos began = 0;
    Nanos bound = 0;
    bool at_start = false;
  };
  void give_up(Lock&);
  boost::system::error_code await_link(Lock&, Patience&);
  boost::system::error_code await_export(Lock&, Export&, Exports::Wish&, Patience&);
  boost::system::error_code wait_once(Lock&, Patience&);
  boost::system::error_code map(Export&, wire::rnbd::AccessMode);
  tl::expected<Use, std::string> attach(Lock&, const std::string& name, wire::rnbd::AccessMode, Patience&);
  bool extend_timeout(Patience&);
  void leave(Export&);
  void close_unused(Nanos now);
  void show_use(const Export&);
  void show_status_soon();
  bool busy() const;
  std::string explain(const boost::system::error_code&, const std::string& device, wire::rnbd::AccessMode,
                      Nanos waited) const;
  void watch_for_trouble();
  void await_signal();
  void tick();
  void watch_for_end(Nanos now);
  void write_status();
  void report_trace();
  void warn_of_expiry(Nanos now);
  void dump_trace(bool locked);

  void on_event(const BlockEvent&) override;
  unsigned on_io_begin() override;
  void on_io_end(unsigned begun, Nanos latency, bool failed) override;
  void on_path(const PathEvent&);
  void on_device(const rnbd::DeviceChanged&);
  void note_name_refusal(const PathEvent&);
  void on_lost_path(const PathEvent&);

  // Defined in remote_control.cpp. Called in the loop thread, which serves the control socket.
  std::string open_control();
  void note_news(const BlockEvent&);
  void tell_news();
  void continue_mapping();
  bool is_mapped(Lock&, Mapping&, int& error);
  std::string map_error_text(const Mapping&, int error) const;
  void end_mapping(Mapping&, int error);
  bool cancel_mappings(const std::string& device);  // returns true if a mapping was cancelled
  int close_device(const std::string& name, bool force);
  const std::string* chosen_device(const std::string& name) const;
  wire::rnbd::AccessMode mode_of(const std::string& device, bool read_only) const;
  control::ClientModel model() const override;
  Nanos now() const override { return asio::steady_now(); }
  Nanos started() const override { return started_; }
  std::string fabric_name() const override { return fabric_name_; }
  nlohmann::json credentials() const override;
  std::uint16_t default_port() const override { return settings_.port; }
  int add_path(const PathAddress&, const std::string& text, unsigned& index) override;
  int remove_path(unsigned path) override;
  int disconnect_path(unsigned path) override;
  int reconnect_path(unsigned path) override;
  unsigned recover() override;
  int set_policy(MultipathPolicy) override;
  int set_max_reconnect_attempts(std::int32_t) override;
  int reset_statistics(unsigned path, PathStatistics) override;
  void map_device(const std::string& name, wire::rnbd::AccessMode,
                  std::function<void(int, const std::string&)> tell) override;
  int unmap_device(const std::string& name, bool force) override;
  int remap_device(const std::string& name) override;
  int resize_device(const std::string& name, std::uint64_t sectors) override;

  // The loop thread changes the paths in the settings, under the lock.
  plugin::Settings settings_;
  Status::Lines lines_;
  Ending ending_;
  // The session's lock guards this.
  std::unique_ptr<Status> status_;
  Exports exports_;
  unsigned attaching_ = 0;  // number of connections that wait for a device
  std::bitset<kMaxPaths>
      // For each path: is_name_refusal() of the last attempt. Cleared when a path connects.
      name_refused_;
  Nanos next_dump_ = 0;
  bool opened_ = false;  // session_->open() was called; before that, no path connects
  bool close_begun_ = false;
  std::string not_started_;  // reason why the start failed; empty if it did not fail
  bool status_due_ = false;  // a call of write_status() is posted to the loop
  std::vector<News> news_;   // events for a posted call of tell_news(); empty without a control socket
  std::uint64_t missed_news_ = 0;
  bool report_scheduled_ = false;
  // Members that only the loop thread uses.
  std::unique_ptr<LatestWriter> status_writer_;  // null without a status file
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::unique_ptr<boost::asio::signal_set> signals_;
  int status_errno_ = 0;
  bool trace_ended_ = false;  // the failure of the trace was reported
  Nanos end_by_ = kNever;     // time at which the session will be closed; kNever: none
  Nanos next_report_ = 0;     // time of the next report of tick()
  const Nanos started_ = asio::steady_now();
  std::string fabric_name_;
  Fabric* fabric_ = nullptr;  // owned by the session; guarded by its lock
  tools::DailyRateLimit expiry_warning_{asio::steady_now()};
  std::vector<Mapping> mappings_;
  std::unique_ptr<control::ClientControl> control_;  // null without a control socket
  LoopThread loop_;
  std::unique_ptr<BlockSession> session_;
};

}  // namespace rtrs::nbdkit
