// What a client of RTRS can be asked while it runs: JSON-RPC on its control socket (docs/management.md has
// the methods). Answers come from a snapshot of the moment; nothing here is on the path of an IO.
//
// Everything belongs to the thread of the event loop.
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
  unsigned path = 0;  // index
  PathStatus status;
  PathAddress address;
  std::string peer;   // Fabric::describe() when it was last connected; empty before
  DevicePort device;  // likewise
  AnswerTimes reads{}, writes{};
};

struct ClientDeviceModel {
  std::string name;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  // "idle", where it is known and not mapped, or the state of the mapping.
  std::string state;
  std::uint64_t size_bytes = 0;  // of the last open; 0: never
  std::uint64_t handle = 0;      // while it is mapped
  unsigned users = 0;            // connections that have it or wait for it
  bool kept = false;             // stays open without users
  int error = 0;                 // errno of the last refusal; 0: none
  unsigned number = 0;           // while it is mapped: of this client's devices, as N of rnbdN in Linux
  bool is_mapped() const { return state != "idle"; }
};

struct ClientTimer {
  const char* name;    // as the parameter of the plugin that sets it
  Nanos time = 0;      // kNever: it never ends
  const char* origin;  // "default", "option", or of which other one it follows
};

struct ClientModel {
  std::string session;
  bool link_up = false;
  MultipathPolicy policy = MultipathPolicy::min_inflight;
  std::int32_t max_reconnect_attempts = -1;
  HeartbeatConfig heartbeat;
  Nanos reconnect_min = 0, reconnect_max = 0;  // as in ClientConfig
  std::vector<ClientTimer> timers;
  std::uint32_t depth = 0;        // permits; 0 until the first path connected
  std::uint32_t max_io_size = 0;  // bytes; likewise
  std::size_t queued = 0;         // requests that wait for a permit
  unsigned under_way = 0;         // requests of the user without an answer
  ClientStats stats;
  std::vector<ClientPathModel> paths;
  std::vector<ClientDeviceModel> devices;
  std::optional<OldestRequest> oldest;  // that the server has not answered
};

// What a control socket works on. Operations give 0 or a positive errno and do not wait.
class ControlledClient {
 public:
  virtual ~ControlledClient() = default;
  virtual ClientModel model() const = 0;
  virtual Nanos now() const = 0;
  virtual Nanos started() const = 0;
  virtual std::string fabric_name() const = 0;
  // "credentials" and "warnings" of tools::credentials_json().
  virtual nlohmann::json credentials() const = 0;
  virtual std::uint16_t default_port() const = 0;
  // `text`: the path as the user wrote it. `index`: where it is. EHOSTUNREACH: no host has the name or
  // address; EADDRNOTAVAIL: the source address is not of this host.
  virtual int add_path(const PathAddress&, const std::string& text, unsigned& index) = 0;
  virtual int remove_path(unsigned path) = 0;
  virtual int disconnect_path(unsigned path) = 0;
  virtual int reconnect_path(unsigned path) = 0;
  virtual unsigned recover() = 0;  // paths that are tried again
  virtual int set_policy(MultipathPolicy) = 0;
  virtual int set_max_reconnect_attempts(std::int32_t) = 0;  // as in ClientConfig
  virtual int reset_statistics(unsigned path, PathStatistics) = 0;
  // Opens a device and keeps it open. Told once, at most connect_timeout later.
  virtual void map_device(const std::string& name, wire::rnbd::AccessMode,
                          std::function<void(int error, const std::string& why)> tell) = 0;
  // EBUSY: connections have it, and `force` is not set. With it their requests fail from then on.
  virtual int unmap_device(const std::string& name, bool force) = 0;
  // Tries at once to open what the server refused.
  virtual int remap_device(const std::string& name) = 0;
  // Until it is opened again. ENOENT: it is not mapped; EINVAL: no device of its block size can have it.
  virtual int resize_device(const std::string& name, std::uint64_t sectors) = 0;
};

struct Begun;

class ClientControl {
 public:
  // Versions of the JSON that it answers; a number never changes its meaning.
  static constexpr int kSchemaVersion = 1;
  using Log = std::function<void(const std::string&)>;

  // `socket`: a path, or "auto" for "client-PID.sock" in the run-time folder. The error is a sentence.
  // `target` must outlive it. `log` gets a line for each change that somebody asks for.
  static tl::expected<std::unique_ptr<ClientControl>, std::string> open(boost::asio::io_context&,
                                                                        const std::string& socket,
                                                                        const std::string& group,
                                                                        ControlledClient& target, Log log);
  const std::string& path() const noexcept { return path_; }

  // Tells those who watch. `pathname`: of the path that the event is about.
  void tell(const PathEvent&, const std::string& pathname);
  void tell(const std::string& device, const rnbd::DeviceChanged&, std::uint64_t size_before);

  // Call it after each event, and now and then. Answers writes to attributes whose operation is over, or has
  // been going on for kWriteBound, with ETIMEDOUT. Tells of requests that were taken over by other paths.
  void go_on();
  static constexpr Nanos kWriteBound = seconds(60);

  // That many events could not be told; the next one has a greater serial number.
  void missed(std::uint64_t count) noexcept { events_ += count; }

  // One request; for the socket, and for tests.
  void handle(const rpc::Caller&, const rpc::Request&, const rpc::Reply&);
  // The same without a socket: the answer, or nothing where it comes later.
  std::optional<tl::expected<nlohmann::json, rpc::Error>> answer(const rpc::Caller&, const rpc::Request&);

  // Writes to an attribute. `tell` is called once: at once, or when what the write began is over.
  using Written = std::function<void(tl::expected<void, rpc::Error>)>;
  void write_attribute(const std::string& path, const std::string& text, Written tell);

  ClientControl(ControlledClient& target, Log log);
  ~ClientControl();

 private:
  struct Pending;
  void tell(nlohmann::json event);
  void await(const Begun&, Written tell);
  void end_writes(const ClientModel&);
  void tell_failovers(const ClientModel&);

  ControlledClient& target_;
  Log log_;
  std::string path_;
  std::uint64_t events_ = 0;                          // told so far
  std::array<std::uint64_t, kMaxPaths> failovers_{};  // by path, as last seen
  std::vector<Pending> pending_;                      // writes whose operation is under way
  std::unique_ptr<rpc::Server> server_;
};

// --- the answers ---

// Addresses as sysfs writes them, "ip:10.0.0.1"; the source is empty where the path never was connected and
// has none given.
std::string source_of(const ClientPathModel&);
std::string destination_of(const ClientPathModel&);
std::string pathname_of(const ClientPathModel&);  // SRC@DST, or DST
std::string address_of(const ClientPathModel&);   // as the user gave it, with its port: [SRC@]DST:PORT

nlohmann::json to_json(const ClientModel&, Nanos now);     // "sessions" and "devices"
nlohmann::json to_json(const ClientStats&);                // counters by name
nlohmann::json debug_json(const ClientModel&, Nanos now);  // what waits, for what, and since when
nlohmann::json event_json(const PathEvent&);               // without the name of the path
// Requests that a path took over since `before`, which becomes the count of now; null: none.
nlohmann::json failover_json(const ClientPathModel&, std::uint64_t& before);
std::optional<MultipathPolicy> parse_policy(std::string text);  // as Linux takes it for mp_policy
const char* short_name(MultipathPolicy) noexcept;               // RR, MI, ML

}  // namespace rtrs::control
