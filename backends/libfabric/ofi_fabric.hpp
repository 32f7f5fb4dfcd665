// The Fabric on libfabric, in three files: ofi_fabric.cpp (memory, posting), ofi_cm.cpp (connection set-up
// and teardown), ofi_poll.cpp (events and sleeping).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/libfabric/ofi.hpp"
#include "backends/libfabric/ofi_admission.hpp"
#include "backends/libfabric/ofi_adopt.hpp"
#include "backends/libfabric/ofi_connection.hpp"
#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_memory.hpp"
#include "backends/platform/address/destinations.hpp"
#include "core/fabric/connection_book.hpp"
#include "core/fabric/pending_events.hpp"

namespace rtrs::ofi {

class FabricImpl final : public OfiFabric {
 public:
  explicit FabricImpl(OfiOptions);
  ~FabricImpl() override;
  FabricImpl(const FabricImpl&) = delete;
  FabricImpl& operator=(const FabricImpl&) = delete;
  Errc open();

  const Capabilities& capabilities() const noexcept override { return device_->capabilities; }
  std::uint16_t listening_port() const noexcept override { return listener_->port(); }
  OfiStats stats() const noexcept override;

  Result<Region> allocate(std::size_t bytes) override { return memory_->allocate(bytes); }
  Result<Region> register_memory(std::span<std::byte> m) override { return memory_->register_memory(m); }
  void release(RegionId id) override { memory_->release(id); }
  Result<RemoteKey> make_key(RegionId id, std::size_t offset, std::size_t length) override {
    return memory_->make_key(id, offset, length);
  }
  void release_key(RemoteKeyId id) override { memory_->release_key(id); }
  void invalidate(ConKey, RemoteKeyId, std::uint64_t cookie) override;
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId id) override { return memory_->rebind(id); }

  Errc listen(const PathAddress& local) override;
  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override;
  void accept(std::uint32_t request, ConKey, const ConnectionParams&, std::span<const std::byte>) override;
  void reject(std::uint32_t request, std::span<const std::byte>) override;
  void disconnect(ConKey) override;
  std::string describe(ConKey) const override;
  DevicePort device_of(ConKey) const override;
  std::string describe_request(std::uint32_t request) const override;

  void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept override;
  std::size_t post(std::span<const WorkRequest>) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;
  int wait_fd() const noexcept override { return epoll_fd_; }
  bool try_wait() noexcept override;

 private:
  Connection* find(ConKey key) const noexcept { return connections_.find(key); }
  Connection& create(ConKey, const ConnectionParams&, bool is_client);
  bool watch(int fd, void* tag);
  // Creates an endpoint for the connection and watches its queue; returns 0 or a negative error.
  int open_endpoint(Connection&, fi_info&);
  InfoHandle connect_info(net::Destinations::Route&);
  // Continues connecting after the addresses were resolved.
  void begin_connecting(Connection&, const net::Destinations::Ready&,
                        std::span<const std::byte> private_data);
  bool wait_for_names(ConKey, const PathAddress&, unsigned index, std::span<const std::byte> private_data);
  void connect_named();
  void report(const FabricEvent&, std::string bytes = {});
  void report_lost(Connection&, Reason);
  void fail_connect(Connection&, const PathAddress&, Reason, std::string detail, std::string bytes = {});
  // Closes the connection's objects. Called at the first sign that the connection ends, because descriptors
  // of a dead connection stay readable. Keeps buffers that events point into.
  void shut(Connection&) noexcept;

  void find_ready() noexcept;
  void check_kernel_events() noexcept;
  void take_requests();
  void take_request(ConnectRequest&);
  void read_events();
  void handle_event(std::uint32_t event, const fi_eq_cm_entry&, std::size_t data_size);
  void handle_event_error();
  std::size_t read_connections(std::span<FabricEvent>) noexcept;
  void mark_ready(Connection&) noexcept;
  void mark_unarmed(Connection&) noexcept;
  Connection* find_by_endpoint(const fid*) noexcept;
  Errc open_listener();
  // Creates the endpoint that answers the request. Returns 0 or a negative error.
  int serve(Connection&, ConnectRequest&, std::span<const std::byte> private_data);
  void refuse(ConnectRequest&, std::span<const std::byte> private_data);
  void log(LogLevel level, const std::string& text) const { say(options_, level, text); }

  OfiOptions options_;
  OfiStats stats_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Memory> memory_;
  EventQueue events_;
  int events_fd_ = -1;
  int epoll_fd_ = -1;
  std::unique_ptr<Adopter> adopter_;
  std::unique_ptr<Admission> listener_;
  net::Destinations destinations_;
  bool names_watched_ = false;
  // Private data of connections whose host names are being resolved.
  std::unordered_map<ConKey, std::vector<std::byte>, ConKeyHash> unresolved_;

  std::uint32_t next_request_ = 0;
  std::unordered_map<std::uint32_t, ConnectRequest> requests_;
  ConnectionBook<Connection> connections_;
  std::unordered_map<const fid*, Connection*> by_endpoint_;
  // Closed connections; freed by the next poll(), because events point into them.
  std::vector<std::unique_ptr<Connection>> free_at_next_poll_;
  std::vector<Connection*> with_delivered_;

  PendingEvents pending_;
  std::vector<Connection*> ready_;    // connections whose queue is to be read, in this order
  std::vector<Connection*> unarmed_;  // connections to arm before sleeping
  bool check_now_ = true;
  unsigned polls_since_kernel_check_ = 0;
  unsigned endpoints_open_ = 0;
};

}  // namespace rtrs::ofi
