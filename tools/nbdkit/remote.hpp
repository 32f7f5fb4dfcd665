// One remote device for programs that block: its threads poll the fabric themselves
// (tools/nbdkit/block_session.hpp); timers, signals and the status file have an event loop on a thread of its
// own.
#pragma once
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "backends/asio/remote_device.hpp"
#include "tools/nbdkit/block_session.hpp"
#include "tools/nbdkit/loop_thread.hpp"
#include "tools/nbdkit/settings.hpp"
#include "tools/nbdkit/status.hpp"
#include "tools/nbdkit/status_file.hpp"

namespace rtrs::nbdkit {

class Remote : private BlockSession::Listener {
 public:
  // Opens fabric, threads and session: not before the last fork. Blocks at most connect_timeout and the time
  // to close. `lines` is called from any thread and must not block. The error is a sentence.
  // `ending`: whether the program is asked to end; may be empty. While an io() is under way it is asked now
  // and then, from the loop's thread. The device is closed then, at once when no path is connected, so that
  // no io() keeps the program alive.
  static tl::expected<std::unique_ptr<Remote>, std::string> open(const Settings&, Status::Lines lines,
                                                                 std::function<bool()> ending = {});
  // Closes the session and completes trace and status. No io() may be under way.
  ~Remote() override;
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  // From any thread. 0 or an errno. The data belongs to the device until it returns, which is bounded by
  // queue_timeout only while no path is connected.
  int io(const asio::DeviceIo&);

  struct Shape {
    rnbd::Geometry geometry;
    bool writable = false;
  };
  Shape shape();

 private:
  using Lock = BlockSession::Lock;

  Remote(const Settings&, Status::Lines, std::function<bool()> ending);
  std::string start();
  void make_session(std::unique_ptr<Fabric>);
  std::string map();
  boost::system::error_code await_open(Lock&);
  bool go_on_trying();
  void watch_for_trouble();
  void await_signal();
  void tick();
  void watch_for_end(Nanos now);
  void write_status();
  void report_trace();
  void dump_trace(bool locked);

  void on_event(const BlockEvent&) override;
  unsigned on_io_begin() override;
  void on_io_end(unsigned begun, Nanos latency, bool failed) override;
  void on_path(const PathEvent&);
  void on_device(const rnbd::DeviceChanged&);
  void note_name_refusal(const PathEvent&);
  void on_lost_path(const PathEvent&);

  const Settings settings_;
  Status::Lines lines_;
  std::function<bool()> ending_;
  // Under the lock of the session.
  std::unique_ptr<Status> status_;
  rnbd::DeviceHandle handle_ = 0;
  rnbd::Geometry geometry_;
  bool ever_open_ = false;
  std::uint16_t refused_errno_ = 0;  // that was told last, since the device was open
  std::uint16_t unmapped_errno_ = 0;
  std::uint32_t name_refused_ = 0;  // bit i: the last attempt of path i, before it was connected
  Nanos start_bound_ = 0;           // of await_open()
  Nanos next_dump_ = 0;
  bool close_begun_ = false;
  bool status_due_ = false;  // write_status() is posted
  // Of the loop's thread.
  std::unique_ptr<LatestWriter> status_writer_;  // null without a status file
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::unique_ptr<boost::asio::signal_set> signals_;
  int status_errno_ = 0;
  bool trace_ended_ = false;  // reported
  Nanos end_by_ = kNever;     // close the session then
  Nanos next_report_ = 0;     // of tick()
  LoopThread loop_;
  std::unique_ptr<BlockSession> session_;
};

}  // namespace rtrs::nbdkit
