// Control socket of an RTRS client: JSON-RPC methods to inspect and change it while it runs
// (docs/management.md lists them). Responses are built from a snapshot of the state. This code is not on the
// IO path.
//
// Everything runs on the thread of the event loop.
#pragma once
#include <array>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/driver/client.hpp"
#include "core/rnbd/client_devices.hpp"
#include "tools/lib/control/rpc/server.hpp"

namespace rtrs::control {

struct ClientPathModel {
  unsigned path = 0;  // index of the path
  PathStatus status;
  PathAddress address;
  std::string peer;   // Fabric::describe() of the last connection; empty if never connected
  DevicePort device;  // device of the last connection
  AnswerTimes reads{}, writes{};
};

struct ClientDeviceModel {
  std::string name;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  // State of the mapping; "idle" if the device is known but not mapped.
  std::string state;
  std::uint64_t size_bytes = 0;  // size at the last open; 0: never opened
  std::uint64_t handle = 0;      // valid while the device is mapped
  unsigned users = 0;            // number of connections that use the device or wait for it
  bool kept = false;             // the device stays open while it has no users
  int error = 0;                 // errno of the last refusal; 0: none
  unsigned number = 0;           // index among the client's mapped devices, like N of rnbdN in Linux
  bool is_mapped() const { return state != "idle"; }
};

struct ClientTimer {
  const char* name;    // name of the plugin parameter that sets the timer
  Nanos time = 0;      // kNever: no limit
  const char* origin;  // "default", "option", or the timer from which it is derived
};

struct ClientModel {
  std::string session;
  std::string fabric = "tcp";  // see ControlledClient::fabric_name()
  bool link_up = false;
  MultipathPolicy policy = MultipathPolicy::min_inflight;
  std::int32_t max_reconnect_attempts = -1;
  HeartbeatConfig heartbeat;
  Nanos reconnect_min = 0, reconnect_max = 0;  // pauses between attempts, see ClientConfig
  std::vector<ClientTimer> timers;
  std::uint32_t depth = 0;        // permits; 0 until the first path connected
  std::uint32_t max_io_size = 0;  // in bytes; 0 until the first path connected
  std::size_t queued = 0;         // number of requests that wait for a permit
  unsigned under_way = 0;         // number of application requests in flight
  ClientStats stats;
  std::vector<ClientPathModel> paths;
  std::vector<ClientDeviceModel> devices;
  std::optional<OldestRequest> oldest;  // oldest request without a response from the server
};

// The client that a control socket controls. Operations return 0 or a positive errno and do not block.
class ControlledClient {
 public:
  virtual ~ControlledClient() = default;
  virtual ClientModel model() const = 0;
  virtual Nanos now() const = 0;
  virtual Nanos started() const = 0;
  virtual std::string fabric_name() const = 0;
  // Returns the members "credentials" and "warnings" of tools::credentials_json().
  virtual nlohmann::json credentials() const = 0;
  virtual std::uint16_t default_port() const = 0;
  // `text`: the path as the user wrote it. Sets `index` to the index of the new path. Errors: EHOSTUNREACH if
  // no host has the name or address; EADDRNOTAVAIL if the source address is not an address of this host.
  virtual int add_path(const PathAddress&, const std::string& text, unsigned& index) = 0;
  virtual int remove_path(unsigned path) = 0;
  virtual int disconnect_path(unsigned path) = 0;
  virtual int reconnect_path(unsigned path) = 0;
  virtual unsigned recover() = 0;  // returns the number of paths that try to connect again
  virtual int set_policy(MultipathPolicy) = 0;
  virtual int set_max_reconnect_attempts(std::int32_t) = 0;  // see ClientConfig
  virtual int reset_statistics(unsigned path, PathStatistics) = 0;
  // Opens a device and keeps it open. Calls `tell` with the result exactly once, at the latest after
  // connect_timeout.
  virtual void map_device(const std::string& name, wire::rnbd::AccessMode,
                          std::function<void(int error, const std::string& why)> tell) = 0;
  // Fails with EBUSY if connections use the device and `force` is false. If `force` is true, requests of
  // these connections fail from then on.
  virtual int unmap_device(const std::string& name, bool force) = 0;
  // Immediately retries to open a device that the server refused.
  virtual int remap_device(const std::string& name) = 0;
  // Changes the size of the device. The change lasts until the device is opened again. Errors: ENOENT if the
  // device is not mapped; EINVAL if the size is not possible with the device's block size.
  virtual int resize_device(const std::string& name, std::uint64_t sectors) = 0;
};

struct StartedOperation;

class ClientControl {
 public:
  // Version of the JSON in responses. Members never change their meaning within a version.
  static constexpr int kSchemaVersion = 1;
  using Log = std::function<void(const std::string&)>;

  // `socket`: a path, or "auto" for "client-PID.sock" in the run-time folder. `target` must outlive the
  // object. `log` receives a line for each requested change. The error is a human-readable message.
  static tl::expected<std::unique_ptr<ClientControl>, std::string> open(boost::asio::io_context&,
                                                                        const std::string& socket,
                                                                        const std::string& group,
                                                                        ControlledClient& target, Log log);
  const std::string& path() const noexcept { return path_; }

  // Sends an event to the subscribers. `pathname`: name of the path to which the event belongs.
  void tell(const PathEvent&, const std::string& pathname);
  void tell(const std::string& device, const rnbd::DeviceChanged&, std::uint64_t size_before);

  // Call after each event, and periodically. Completes the writes to attributes whose operations have ended.
  // A write whose operation takes longer than kWriteBound fails with ETIMEDOUT. Reports failovers of requests
  // to the subscribers.
  void go_on();
  static constexpr Nanos kWriteBound = seconds(60);

  // Skips serial numbers for `count` events that could not be sent, so that subscribers notice the gap.
  void missed(std::uint64_t count) noexcept { events_ += count; }

  // Handles one request; called by the socket, and by tests.
  void handle(const rpc::Caller&, const rpc::Request&, const rpc::Reply&);
  // Handles one request without a socket. Returns the response, or nullopt if the request completes later.
  std::optional<tl::expected<nlohmann::json, rpc::Error>> answer(const rpc::Caller&, const rpc::Request&);

  // Called once with the result of a write to an attribute: immediately, or when the operation that the write
  // started has ended.
  using Written = std::function<void(tl::expected<void, rpc::Error>)>;
  void write_attribute(const std::string& path, const std::string& text, Written tell);

  ClientControl(ControlledClient& target, Log log);
  ~ClientControl();

 private:
  struct Pending;
  void tell(nlohmann::json event);
  void await(const StartedOperation&, Written tell);
  void end_writes(const ClientModel&);
  void report_failovers(const ClientModel&);

  ControlledClient& target_;
  Log log_;
  std::string path_;
  std::uint64_t events_ = 0;                          // serial number of the last event
  std::array<std::uint64_t, kMaxPaths> failovers_{};  // last reported count of each path
  std::vector<Pending> pending_;                      // writes whose operation is in progress
  std::unique_ptr<rpc::Server> server_;
};

// --- responses ---

// Addresses as sysfs shows them: "ip:10.0.0.1". The source is empty if the user gave none and the path was
// never connected.
std::string source_of(const ClientPathModel&);
std::string destination_of(const ClientPathModel&);
std::string pathname_of(const ClientPathModel&);  // "SRC@DST", or "DST" if the source is empty
std::string address_of(const ClientPathModel&);   // address as the user gave it, with port: [SRC@]DST:PORT

nlohmann::json to_json(const ClientModel&, Nanos now);     // members "sessions" and "devices"
nlohmann::json to_json(const ClientStats&);                // counters by name
nlohmann::json debug_json(const ClientModel&, Nanos now);  // lists what waits, for what and since when
// Does not contain the name of the path. `fabric` as in words_of().
nlohmann::json event_json(const PathEvent&, std::string_view fabric);
// Returns an event with the number of requests that failed over to the path since this function was last
// called with `before`; null if there were none. Sets `before` to the current count.
nlohmann::json failover_json(const ClientPathModel&, std::uint64_t& before);
// Accepts the words that Linux accepts for mpath_policy.
std::optional<MultipathPolicy> parse_policy(std::string text);
const char* short_name(MultipathPolicy) noexcept;  // RR, MI, ML

}  // namespace rtrs::control
