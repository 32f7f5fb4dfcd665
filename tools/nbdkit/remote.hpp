// One remote device for programs that block: its event loop runs on a thread of its own.
#pragma once
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "backends/asio/remote_device.hpp"
#include "tools/nbdkit/loop_thread.hpp"
#include "tools/nbdkit/settings.hpp"
#include "tools/nbdkit/status.hpp"
#include "tools/nbdkit/status_file.hpp"

namespace rtrs::nbdkit {

class Remote {
 public:
  // Opens fabric, thread and session: not before the last fork. Blocks at most connect_timeout and the time
  // to close. `lines` is called from the loop's thread. The error is a sentence.
  // `ending`: whether the program is asked to end; may be empty. While an io() is under way it is asked now
  // and then, from the loop's thread. The device is closed then, at once when no path is connected, so that
  // no io() keeps the program alive.
  static tl::expected<std::unique_ptr<Remote>, std::string> open(const Settings&, Status::Lines lines,
                                                                 std::function<bool()> ending = {});
  // Closes the session and completes trace and status. No io() may be under way.
  ~Remote();
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  // From any thread. 0 or an errno. The data belongs to the device until it returns, which is bounded by
  // queue_timeout only while no path is connected.
  int io(const asio::DeviceIo&);

  struct Shape {
    rnbd::Geometry geometry;
    std::uint32_t max_io_size = 0;  // bytes of one message
    bool writable = false;
  };
  Shape shape();

 private:
  Remote(const Settings&, Status::Lines, std::function<bool()> ending);
  std::string start();
  boost::system::error_code map();
  void await_start(Nanos bound, std::function<void(boost::system::error_code)> tell);
  void note_name_refusal(const PathEvent&);
  void tick();
  void write_status();
  void report_trace();
  void watch_for_trouble();
  void await_signal();
  void on_lost_path(const PathEvent&);
  void watch_for_end();
  void close_device();
  void dump_trace();

  const Settings settings_;
  Status::Lines lines_;
  LoopThread loop_;
  // Of the loop's thread.
  std::unique_ptr<Status> status_;
  std::unique_ptr<LatestWriter> status_writer_;  // null without a status file
  std::function<bool()> ending_;
  std::unique_ptr<boost::asio::steady_timer> timer_;
  std::unique_ptr<boost::asio::steady_timer> end_timer_;
  std::unique_ptr<boost::asio::signal_set> signals_;
  std::unique_ptr<asio::RemoteDevice> device_;
  int status_errno_ = 0;
  bool trace_ended_ = false;        // reported
  std::uint32_t name_refused_ = 0;  // bit i: the last attempt of path i, before it was connected
  Nanos start_bound_ = 0;           // of map()
  Nanos next_dump_ = 0;
  unsigned under_way_ = 0;  // io()
  bool watching_ = false;   // end_timer_ runs
  Nanos end_by_ = kNever;   // close the device then
  bool close_begun_ = false;
  bool closed_ = false;
  std::function<void(boost::system::error_code)> when_closed_;
};

}  // namespace rtrs::nbdkit
