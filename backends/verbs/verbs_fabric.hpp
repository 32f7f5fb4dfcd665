// The Fabric on verbs, in six files: verbs_fabric.cpp (opening, devices, posting), verbs_keys.cpp (keys of
// peers), verbs_cm.cpp (connection set-up and teardown), verbs_events.cpp (events from the connection manager
// and the devices), verbs_ports.cpp (port failures), verbs_poll.cpp (completion queues, events and sleeping).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/platform/address/socket_address.hpp"
#include "backends/verbs/verbs.hpp"
#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_connection.hpp"
#include "backends/verbs/verbs_device.hpp"
#include "backends/verbs/verbs_handles.hpp"
#include "backends/verbs/verbs_memory.hpp"
#include "backends/verbs/verbs_queue.hpp"
#include "core/fabric/connection_book.hpp"
#include "core/fabric/pending_events.hpp"

namespace rtrs::verbs {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

class FabricImpl final : public VerbsFabric {
 public:
  FabricImpl(VerbsOptions, DeviceSurvey);
  ~FabricImpl() override;
  FabricImpl(const FabricImpl&) = delete;
  FabricImpl& operator=(const FabricImpl&) = delete;
  Errc open();

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  std::uint16_t listening_port() const noexcept override;
  VerbsStats stats() const noexcept override { return stats_; }

  Result<Region> allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  Result<Region> register_memory(std::span<std::byte> m) override { return memory_.register_memory(m); }
  void release(RegionId) override;
  Result<RemoteKey> make_key(RegionId id, std::size_t offset, std::size_t length) override {
    return memory_.make_key(id, offset, length);
  }
  void release_key(RemoteKeyId) override;
  std::uint32_t rkey_of(ConKey, const RemoteKey&) noexcept override;
  Result<RemoteKey> make_revocable_key(ConKey, RegionId, std::size_t offset, std::size_t length) override;
  Result<RemoteKey> make_request_key(ConKey, RegionId, std::size_t offset, std::size_t length) override;
  void invalidate(ConKey, RemoteKeyId, std::uint64_t cookie) override;
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override;

  Errc listen(const PathAddress& local) override;
  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override;
  void accept(std::uint32_t request, ConKey, const ConnectionParams&, std::span<const std::byte>) override;
  void reject(std::uint32_t request, std::span<const std::byte>) override;
  void disconnect(ConKey) override;
  std::string describe(ConKey) const override;
  DevicePort device_of(ConKey) const override;
  std::string describe_request(std::uint32_t request) const override;
  const Capabilities& capabilities_of_request(std::uint32_t request) const noexcept override;
  std::string identity_of_request(std::uint32_t) const override { return {}; }

  void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept override;
  std::size_t post(std::span<const WorkRequest>) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;
  int wait_fd() const noexcept override { return epoll_.get(); }
  bool try_wait() noexcept override;
  // Time at which poll() has work even if no descriptor is readable.
  Nanos next_timer() const noexcept { return timer_due_; }

 private:
  static constexpr Nanos kListenAgain = seconds(1);

  struct Listener {
    Owner owner{Owner::Kind::listener, this};
    net::SocketAddress address;
    std::string text;
    IdHandle id;  // empty while its device is removed
  };
  struct Request {
    Owner owner{Owner::Kind::request, this};
    IdHandle id;  // empty after the peer gave up
  };
  // A connection that is closed here. Kept until the peer has confirmed the end and no earlier packet can be
  // in flight. The peer is notified at once, or after its connection set-up completes.
  struct Leaving {
    Owner owner{Owner::Kind::leaving, this};
    IdHandle id;
    std::unique_ptr<Shell> shell;
    bool told = false;
    bool answered = false;
    Nanos deadline = 0;
  };
  // A copy of a connection manager event, so that the event can be acknowledged at once.
  struct CmEvent {
    rdma_cm_event_type type{};
    int status = 0;
    rdma_cm_id* id = nullptr;
    std::string data;
  };

  Connection* find(ConKey key) const noexcept { return connections_.find(key); }
  Connection& create(ConKey, const ConnectionParams&, bool is_client, std::span<const std::byte>);
  bool watch(int fd, void* tag);
  // Continues connecting after the addresses were resolved.
  void begin_connecting(Connection&, const net::Destinations::Ready&);
  void post_receives(ConKey, unsigned count, std::uint32_t bytes_each) noexcept;
  bool wait_for_names(ConKey, const PathAddress&, unsigned index);
  void connect_named();
  // Returns the device of an identifier and opens it at first use. Returns nullptr if it cannot be used; the
  // log has the reason.
  Device* device_of(const rdma_cm_id&);
  Device* open_device_of(const rdma_cm_id&) const noexcept;
  // Logs once per device how keys are invalidated, if peers may write to memory of this fabric.
  void log_invalidation_method(Device&) const;
  void drop_gone_devices() noexcept;

  bool open(Connection&, Device&);
  // Returns a queue with room for this many entries, or nullptr (errno has the reason).
  SharedQueue* queue_on(Device&, std::uint32_t entries);
  void drop_queues_of(const Device&) noexcept;
  void lose_queue(SharedQueue&, Reason) noexcept;

  void report(const FabricEvent&, std::string bytes = {});
  void report_lost(Connection&, Reason);
  void report_invalidated(ConKey, std::uint64_t cookie, bool ok);
  void fail_connect(Connection&, Reason, const std::string& text, std::string bytes = {});
  void refuse(IdHandle&, std::span<const std::byte> private_data = {});
  void start_accepts();
  // Logs how long the device retries before a connection is lost. Logs again only if that time changes.
  void log_retry_time(Connection&);
  void end(Connection&) noexcept;
  // Adds a queue or connection to the list for poll(). Each poll reads a queue on the list until it is empty
  // and armed, and reports the loss of a connection on the list.
  void activate(SharedQueue&) noexcept;
  void activate(Connection&) noexcept;
  void deactivate(Connection&) noexcept;
  // Lets the next poll() post queued requests to the device; posts them at once if the polling thread is
  // asleep.
  void flush_soon(Connection& connection) noexcept {
    if (!connection.in_unposted_list || asleep_) enlist_unposted(connection);
  }
  void enlist_unposted(Connection&) noexcept;
  void flush_unposted() noexcept;
  void flush_binds_of(const ibv_mw& window) noexcept {
    for (const Connection* const one : unposted_)
      if (one->has_unposted_bind_of(window)) return flush_unposted();
  }
  bool try_listen(Listener&, int& error);
  void retry_listeners();
  void set_timer() noexcept;
  void wake() noexcept;
  void on_timer() noexcept;

  // Performs the rarely needed steps of a poll, that is all except reading queues. Returns false if the
  // caller must continue with poll_all().
  bool do_chores() noexcept;
  void do_rare_chores() noexcept;
  // Like read_queues() from the first queue, and also reports pending events and ending connections.
  std::size_t poll_all(std::span<FabricEvent>) noexcept;
  void suspect(Device&) noexcept;
  void reuse_shown() noexcept;
  void check_kernel_events() noexcept;
  // Returns the first queue, starting at index `from`, that may have completions or ended connections to
  // report; returns the number of queues if there is none.
  std::size_t busy_queue(std::size_t from) noexcept;
  // Reads the queues from index `first` on, as returned by busy_queue().
  std::size_t read_queues(std::size_t first, std::span<FabricEvent>) noexcept;
  std::size_t read_queue(SharedQueue&, std::span<FabricEvent>) noexcept;
  std::size_t report_endings(const SharedQueue&, std::span<FabricEvent>) noexcept;
  void read_manager();
  void read_completions(Device&) noexcept;
  void read_trouble(Device&) noexcept;
  void handle(const CmEvent&);
  void handle_request(const CmEvent&);
  void handle_listener(Listener&, const CmEvent&);
  void handle_leaving(Leaving&, const CmEvent&);
  void handle_connection(Connection&, const CmEvent&);
  void handle_failure(Connection&, const CmEvent&);
  void handle_trouble(Device&, const ibv_async_event&);
  void find_route(Connection&);
  void send_request(Connection&);
  void take_response(Connection&, const CmEvent&);
  // Handles a removal, however it was detected; may be called repeatedly. All connections of the device are
  // lost. If the device is added to the host again, it is opened again.
  enum class Listeners : std::uint8_t { close, keep };
  void lose_device(Device&, Listeners);
  void port_changed(Device&, std::uint8_t port, bool up);
  void end_down_ports();
  bool uses_port(const Connection&, const Device&, std::uint8_t port) const noexcept;
  void leave_device(const std::string& name);
  void log(LogLevel level, const std::string& text) const { say(options_, level, text); }

  VerbsOptions options_;
  Capabilities capabilities_;
  // Limits by device name, measured before the first use.
  std::vector<std::pair<std::string, Limits>> limits_;
  VerbsStats stats_;
  FileDescriptor epoll_;
  FileDescriptor timer_;
  std::vector<std::unique_ptr<Device>> devices_;  // indexed by Device::index
  std::vector<std::unique_ptr<SharedQueue>> queues_;
  Memory memory_;
  EventChannelHandle channel_;
  net::Destinations destinations_{parse_address};
  bool names_watched_ = false;

  std::vector<std::unique_ptr<Listener>> listeners_;
  std::uint32_t next_request_ = 0;
  std::unordered_map<std::uint32_t, std::unique_ptr<Request>> requests_;
  std::vector<std::unique_ptr<Leaving>> leaving_;
  ConnectionBook<Connection> connections_;
  // Connections that the caller accepted and may still post receives on; the next poll() sends the accept.
  std::vector<Connection*> accepting_;
  // Closed connections; freed by the next poll(), because events point into them.
  std::vector<std::unique_ptr<Connection>> free_at_next_poll_;
  std::vector<Connection*> with_shown_;

  PendingEvents pending_;
  std::vector<SharedQueue*> active_;
  std::vector<Connection*> ending_;
  std::vector<Connection*> unposted_;
  Nanos now_ = 0;
  Nanos listen_again_ = kNever;
  Nanos timer_due_ = kNever;
  // Work for do_chores(). kPosts: unposted_ is not empty. kRareChores: another list above is not empty, or a
  // device is to be checked for removal or dropped.
  static constexpr unsigned kPosts = 1, kRareChores = 2;
  unsigned chores_ = 0;
  bool check_devices_due_ = false;
  bool asleep_ = false;  // true from a successful try_wait() to the next poll()
  unsigned polls_until_check_ = 1;
};

}  // namespace rtrs::verbs
