// What became of the devices and paths of a session, told as lines for people and as a JSON file for programs
// (docs of the fields: the keys of render()).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "tools/lib/control/plugin/settings.hpp"
#include "tools/nbdkit/latency.hpp"

namespace rtrs::nbdkit {

// Belongs to the thread of the event loop.
class Status {
 public:
  // `lines`: gets one line for each thing that happened; important: a path was lost, cannot connect or is
  // connected again, no path is left, the device closed. Of the failed attempts in a row on a path the 1st,
  // 2nd, 4th, 8th and so on are important, so that a path that stays dead cannot fill a log.
  using Lines = std::function<void(bool important, const std::string&)>;
  Status(const Settings&, Lines lines);

  // Before the first event of a path that was added at run time, whose name the settings have now.
  void on_path_added(unsigned path);
  void on_path(const PathEvent&, std::span<const PathStatus>);
  void on_device(const std::string& name, const asio::DeviceNews&);
  // Connections of NBD clients that have the device, and whether it is open read-only.
  void on_use(const std::string& name, unsigned connections, bool read_only);
  // Nobody needs it any more. Those of device= stay.
  void forget(const std::string& name);
  // About once a second: the request that the server has not answered for longest, null without one. Says so
  // after kSlowRequest, and again each time that its age has doubled.
  static constexpr Nanos kSlowRequest = seconds(30);
  void on_oldest_request(Nanos now, const OldestRequest*);

  Phase phase() const noexcept { return latency_.phase(); }
  // `began`: phase() when the request was started.
  void on_request_done(Phase began, Nanos latency, bool failed) noexcept;

  // JSON, one object.
  std::string render(Nanos now, std::span<const PathStatus>, const ClientStats&) const;

 private:
  struct Event {
    Nanos at = 0;
    std::int64_t unix_ms = 0;
    int path = -1;  // -1: of the device or the link
    std::string device;
    std::string what;
    std::string reason;
    int error = 0;
    std::uint32_t attempt = 0;
    Nanos delay = 0;
  };
  struct Path {
    bool connected = false;
    bool ever = false;
    bool removed = false;
    Nanos lost_at = 0;
    std::uint32_t failed = 0;  // attempts since it was last connected
    std::string reason;        // why it was last lost or refused, in words; empty while it is connected
    Reason last_cause = Reason::none;  // why it was lost the last time that it was; stays when it is back
  };

  struct Device {
    std::string name;
    asio::DeviceNews news{};
    rnbd::DeviceReason reason{};  // why it cannot be used, or what changed when it was opened the last time
    unsigned connections = 0;
    bool read_only = false;
  };

  void note(Event event);
  Device& device(const std::string& name);
  void on_path_changed(Nanos at, const PathChanged&);
  void on_path_connected(Nanos at, Path&, const std::string& name);
  void on_attempt_failed(const PathChanged&, Path&, const std::string& name, const std::string& reason);
  // "IO goes on over 1 of 2 paths".
  std::string what_is_left() const;
  std::string device_words(const asio::DeviceNews&, const rnbd::Geometry& before, rnbd::DeviceReason) const;
  void on_replaced_cache(const std::string& name, const asio::DeviceNews&);

  const Settings& settings_;
  const Lines lines_;
  const Nanos started_;
  std::vector<Path> paths_;
  std::deque<Event> events_;
  std::uint64_t events_dropped_ = 0;
  LatencyByPhase latency_;
  std::uint64_t request_errors_ = 0;
  std::optional<OldestRequest> oldest_;
  Nanos next_warning_ = kSlowRequest;  // age of the oldest request
  bool link_up_ = false;
  std::vector<Device> devices_;  // those of device= first
};

}  // namespace rtrs::nbdkit
