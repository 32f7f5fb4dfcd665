// Records the history of the devices and paths of a session: as log lines for people, and as a JSON status
// file for programs (Facts in status.cpp defines the fields).
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "tools/lib/control/plugin/settings.hpp"
#include "tools/lib/text/field.hpp"
#include "tools/nbdkit/latency.hpp"

namespace rtrs::nbdkit {

// Not thread-safe; the owner serialises all calls.
class Status {
 public:
  // Receives one line per event. Important events: a path was lost, failed to connect or reconnected, no path
  // is left, or the device was closed. If a path fails repeatedly, only failed attempts 1, 2, 4, 8 and so on
  // are important, so that a dead path cannot fill a log.
  using Lines = std::function<void(bool important, const std::string&)>;
  Status(const plugin::Settings&, Lines lines);

  // Call it for a path that was added at run time, after Settings contains the path and before its first
  // event.
  void on_path_added(unsigned path);
  void on_path(const PathEvent&, std::span<const PathStatus>);
  void on_device(const std::string& name, const asio::DeviceNews&);
  // Records how many NBD connections use the device, and whether it is open read-only.
  void on_use(const std::string& name, unsigned connections, bool read_only);
  // Removes an unused device from the status, unless device= lists it.
  void forget(const std::string& name);
  // Call it about once a second with the oldest unanswered request, or null. Logs a line when the request is
  // kSlowRequest old, and each time its age has doubled since.
  static constexpr Nanos kSlowRequest = seconds(30);
  void on_oldest_request(Nanos now, const OldestRequest*);

  Phase phase() const noexcept { return latency_.phase(); }
  // `began` is the value of phase() when the request started.
  void on_request_done(Phase began, Nanos latency, bool failed) noexcept;

  // Fields of each kind of object in the status, by the name of the object's part in the schema.
  static std::map<std::string, std::vector<tools::Field>> fields();
  // Returns the status as a JSON object.
  std::string render(Nanos now, std::span<const PathStatus>, const ClientStats&) const;

 private:
  struct Facts;
  struct Event {
    Nanos at = 0;  // time of the event; note() makes it relative to started_
    std::int64_t unix_ms = 0;
    int path = -1;  // -1: event of the device or the session
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
    std::uint32_t failed = 0;  // failed attempts since the path was last connected
    std::string reason;        // reason why the path was lost or rejected, in words; empty while connected
    Reason lost_reason = Reason::none;  // reason of the last loss of the path; kept after a reconnect
  };

  struct Device {
    std::string name;
    asio::DeviceNews news{};
    rnbd::DeviceReason reason{};  // reason why the device cannot be used, or the change at the last open
    unsigned connections = 0;
    bool read_only = false;
  };

  void note(Event event);
  Device& device(const std::string& name);
  void on_path_changed(Nanos at, const PathChanged&);
  void on_path_connected(Nanos at, Path&, const std::string& name);
  void on_attempt_failed(const PathChanged&, Path&, const std::string& name, const std::string& reason);
  // Says how IO continues, for example "IO continues on 1 of 2 paths".
  std::string what_is_left() const;
  std::string device_words(const asio::DeviceNews&, const rnbd::Geometry& before, rnbd::DeviceReason) const;
  void on_replaced_cache(const std::string& name, const asio::DeviceNews&);

  const plugin::Settings& settings_;
  const Lines lines_;
  const Nanos started_;
  std::vector<Path> paths_;
  std::deque<Event> events_;
  std::uint64_t events_dropped_ = 0;
  LatencyByPhase latency_;
  std::uint64_t request_errors_ = 0;
  std::optional<OldestRequest> oldest_;
  Nanos next_warning_ = kSlowRequest;  // the next line is logged when the oldest request has this age
  bool link_up_ = false;
  std::vector<Device> devices_;  // the devices that device= lists come first
};

}  // namespace rtrs::nbdkit
