// The remote devices of a session for programs that block: its threads poll the fabric themselves
// (tools/nbdkit/block_session.hpp); timers, signals and the status file have an event loop on a thread of its
// own.
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
  // Opens fabric, threads and session, and the device where device= gives one only: not before the last fork.
  // Blocks at most taken_name_timeout() and the time to close. `lines` is called from any thread and must not
  // block. The error is a sentence. `ending`: whether the program is asked to end; may be empty. It is asked
  // now and then: at the start from this thread, which ends the start, and while requests are under way from
  // the loop's. The session is closed then, at once when no path is connected, so that none of them keeps the
  // program alive.
  using Ending = std::function<bool(bool at_start)>;
  static tl::expected<std::unique_ptr<Remote>, std::string> open(const Settings&, Status::Lines lines,
                                                                 Ending ending = {});
  // Closes the session and completes trace and status. No other call may be under way.
  ~Remote() override;
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  // A device that a connection has. Ends with detach().
  struct Use {
    Export* device = nullptr;
    rnbd::DeviceHandle handle = 0;
  };
  // From any thread. Opens the device if no other connection has it, at most for connect_timeout. `name`: of
  // the export; of no importance where device= gives one only. The error is a sentence.
  tl::expected<Use, std::string> attach(const std::string& name, bool read_only);
  void detach(const Use&);

  // From any thread. 0 or an errno. The data belongs to the device until it returns, which is bounded by
  // queue_timeout only while no path is connected.
  int io(const Use&, const asio::DeviceIo&);
  // Why io() answered `error`, as a sentence.
  std::string why_failed(const Use&, const asio::DeviceIo&, int error);

  struct Shape {
    std::string name;
    rnbd::Geometry geometry;  // of the last time that the device was opened
    bool writable = false;
  };
  Shape shape(const Use&);
  // The devices of device=, and those that were mapped at run time.
  std::vector<std::string> names();

 private:
  using Lock = BlockSession::Lock;
  // What one event tells those who watch.
  struct News {
    BlockEvent event;
    std::string about;              // the path or device
    std::uint64_t size_before = 0;  // of a device, bytes
  };
  // A device that is being opened because somebody asked for it at the control socket.
  struct Mapping {
    Export* device = nullptr;
    Exports::Wish wish;
    bool was_kept = false;
    std::optional<wire::rnbd::AccessMode> was_mapped_as;
    // In which it was kept open, until it was closed for this.
    std::optional<wire::rnbd::AccessMode> restore;
    Nanos until = 0;
    std::function<void(int error, const std::string& why)> tell;
  };

  Remote(const Settings&, Status::Lines, Ending);
  std::string start();
  void make_session(std::unique_ptr<Fabric>);
  std::string open_session();
  // How long somebody waits, and for what at the start.
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
  bool go_on_trying(Patience&);
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

  // remote_control.cpp. On the loop's thread, where the control socket is.
  std::string open_control();
  void note_news(const BlockEvent&);
  void tell_news();
  void go_on_mapping();
  bool is_mapped(Lock&, Mapping&, int& error);
  std::string why_not_mapped(const Mapping&, int error) const;
  void end_mapping(Mapping&, int error);
  bool cancel_mappings(const std::string& device);  // whether there were some
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

  // Its paths change under the lock, on the loop's thread.
  Settings settings_;
  Status::Lines lines_;
  Ending ending_;
  // Under the lock of the session.
  std::unique_ptr<Status> status_;
  Exports exports_;
  unsigned attaching_ = 0;               // connections that wait for a device
  std::bitset<kMaxPaths> name_refused_;  // by path: the last attempt, before one was connected
  Nanos next_dump_ = 0;
  bool opened_ = false;  // before, no path is tried, and none is given up
  bool close_begun_ = false;
  std::string not_started_;  // why, where the start failed
  bool status_due_ = false;  // write_status() is posted
  std::vector<News> news_;   // for tell_news(), which is posted; empty without a control socket
  std::uint64_t missed_news_ = 0;
  bool tells_news_ = false;
  // Of the loop's thread.
  std::unique_ptr<LatestWriter> status_writer_;  // null without a status file
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::unique_ptr<boost::asio::signal_set> signals_;
  int status_errno_ = 0;
  bool trace_ended_ = false;  // reported
  Nanos end_by_ = kNever;     // close the session then
  Nanos next_report_ = 0;     // of tick()
  const Nanos started_ = asio::steady_now();
  std::string fabric_name_;
  Fabric* fabric_ = nullptr;  // of the session; under its lock
  tools::DailyWarning expiry_warning_{asio::steady_now()};
  std::vector<Mapping> mappings_;
  std::unique_ptr<control::ClientControl> control_;  // null: none
  LoopThread loop_;
  std::unique_ptr<BlockSession> session_;
};

}  // namespace rtrs::nbdkit
