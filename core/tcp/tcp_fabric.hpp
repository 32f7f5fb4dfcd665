// The Fabric over TCP: tcp_fabric.cpp (memory, posting), tcp_cm.cpp (set-up and teardown of connections),
// tcp_poll.cpp (events and sleeping).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/fabric/connection_book.hpp"
#include "core/fabric/pending_events.hpp"
#include "core/tcp/tcp_admission.hpp"
#include "core/tcp/tcp_connection.hpp"
#include "core/tcp/tcp_memory.hpp"
#include "core/tcp/tcp_options.hpp"
#include "core/tcp/tcp_outbox.hpp"
#include "core/tcp/tcp_watched.hpp"

namespace rtrs::tcp {

// Capabilities of the TCP fabric, independent of its transport.
Capabilities tcp_capabilities() noexcept;

class FabricImpl final : public TcpFabric {
 public:
  // Resources in use now.
  struct Books {
    std::size_t accepted = 0;  // number of connections, and their accounted memory in bytes
    std::uint64_t memory = 0;
    std::size_t half_open = 0;
    std::size_t last_words = 0;
    // Sums over the counters per client address.
    std::size_t accepted_by_host = 0;
    std::uint64_t memory_by_host = 0;
    std::size_t half_open_by_host = 0;
  };
  // `secret` must be random. The fabric takes ownership of the transport.
  FabricImpl(TcpOptions, const KeySequence::Secret& secret, std::unique_ptr<Transport>);
  ~FabricImpl() override;
  FabricImpl(const FabricImpl&) = delete;
  FabricImpl& operator=(const FabricImpl&) = delete;
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  TcpStats stats() const noexcept override;
  Transport& transport() noexcept override { return *transport_; }
  Books books() const noexcept;
  // Returns kNoSocket if the connection has no socket.
  SocketId socket_of(ConKey) const noexcept;
  std::uint16_t listening_port() const noexcept override { return admission_.port(); }

  Result<Region> allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  Result<Region> register_memory(std::span<std::byte> m) override { return memory_.register_memory(m); }
  void release(RegionId id) override { memory_.release(id); }
  Result<RemoteKey> make_key(RegionId id, std::size_t offset, std::size_t length) override {
    return memory_.make_key(Scope::any, {}, id, offset, length);
  }
  void release_key(RemoteKeyId id) override { memory_.release_key(id); }
  std::uint32_t rkey_of(ConKey, const RemoteKey& remote_key) noexcept override { return remote_key.rkey; }
  Result<RemoteKey> make_revocable_key(ConKey key, RegionId id, std::size_t offset,
                                       std::size_t length) override {
    return memory_.make_key(Scope::path, key, id, offset, length);
  }
  Result<RemoteKey> make_request_key(ConKey key, RegionId id, std::size_t offset,
                                     std::size_t length) override {
    return memory_.make_key(Scope::connection, key, id, offset, length);
  }
  void invalidate(ConKey, RemoteKeyId, std::uint64_t cookie) override;
  Result<std::uint32_t> rebind(ConKey key, RemoteKeyId id) override { return memory_.rebind(id, key); }

  Errc listen(const PathAddress& local) override;
  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override;
  void accept(std::uint32_t request, ConKey, const ConnectionParams&, std::span<const std::byte>) override;
  void reject(std::uint32_t request, std::span<const std::byte>) override;
  void disconnect(ConKey) override;
  std::string describe(ConKey) const override;
  DevicePort device_of(ConKey) const override { return {"tcp", 1}; }
  std::string describe_request(std::uint32_t request) const override;
  const Capabilities& capabilities_of_request(std::uint32_t) const noexcept override { return capabilities_; }
  std::string identity_of_request(std::uint32_t request) const override;

  void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept override;
  std::size_t post(std::span<const WorkRequest>) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;
  int wait_fd() const noexcept override { return poller_.fd(); }
  bool try_wait() noexcept override;

 private:
  // Totals of the accepted connections from one host.
  struct HostBooks {
    unsigned connections = 0;
    std::uint64_t memory = 0;
  };

  Connection* find(ConKey key) const noexcept { return connections_.find(key); }
  Connection& create(ConKey, const ConnectionParams&, bool is_client);
  void report(const FabricEvent&, std::string bytes = {});
  void say(LogLevel, const std::string&) const;
  // Logs violations and similar problems at a limited rate, so that a peer cannot fill the log.
  void warn(const std::string&);

  // --- set-up and teardown of connections ---
  void fail_connect(Connection&, const std::string& where, Reason, const std::string& detail,
                    std::string bytes = {});
  void finish_connecting(Connection&);
  // Continues the handshake of the guard as far as possible without waiting.
  void secure(Connection&);
  void ask(Connection&);
  void fail_handshake(Connection&, int error);
  void read_reply(Connection&);
  // `sealed`: the connection is encrypted. Encryption already detects modified data, so no CRC is needed.
  bool wants_crc(bool sealed) const noexcept { return options_.crc && !sealed; }
  // Returns the reason to reject the request, or Reason::none.
  Reason refusal_of(const HalfOpen&, std::uint64_t cost, std::string& why) const;
  std::uint64_t cost_of(const HalfOpen&, const ConnectionParams&) const noexcept;
  Reason serve(Connection&, HalfOpen&, std::span<const std::byte> private_data);
  void count_in(Connection&, std::uint32_t host, std::uint64_t cost);
  void count_out(Connection&) noexcept;
  // Part of max_memory in bytes that the connections of a host may use now.
  std::uint64_t memory_for(const HostBooks& host) const noexcept;
  // Allocates memory for more outstanding requests. Returns false if that exceeds max_memory or fails.
  bool make_room(Connection&) noexcept;
  // Lets a later poll() report the connection as lost with Reason::no_resources.
  void give_up(Connection&) noexcept;
  void lose(Connection&, Reason, const std::string& why);
  void end_broken(Connection&);
  // --- packet delivery, defined in tcp_delivery.cpp ---
  void check_deliveries();
  void judge_end(const Connection&);
  void log_lost_packets(const Connection&, const Transport::Delivery&);
  // Removes the connection from all lists.
  void forget(Connection&) noexcept;

  // --- a round ---
  void begin_round() noexcept;
  void flush_dirty() noexcept;
  void look() noexcept;
  void handle(const Transport::Ready&);
  void found(Connection&, const Transport::Ready&);
  void handle_connection(Connection&, std::uint32_t events);
  void take_request(HalfOpen&);
  void expire();
  std::size_t read_ready(std::span<FabricEvent>) noexcept;
  // Returns true if the connection stays in the list.
  bool serve_ready(Connection&, std::span<FabricEvent>, std::size_t& count) noexcept;
  void mark_ready(Connection&) noexcept;
  void mark_dirty(Connection&) noexcept;
  // Wakes a sleeping fabric because there is work.
  void wake() noexcept;
  void key_died(std::uint32_t key) noexcept;

  std::unique_ptr<Transport> transport_;
  TcpOptions options_;
  TcpStats stats_;
  Capabilities capabilities_;
  Poller poller_;
  Memory memory_;
  Outboxes outboxes_;
  std::vector<std::byte> inbox_;
  std::vector<iwarp::Event> list_;
  // Closed objects, freed by the next poll(), because events point into them and this round may still report
  // them as ready.
  std::vector<std::unique_ptr<Watched>> free_at_next_poll_;
  Admission admission_;

  ConnectionBook<Connection> connections_;
  std::unordered_map<std::uint32_t, HostBooks> of_host_;  // keyed by the digest of the client's address
  unsigned accepted_ = 0;
  std::uint64_t memory_used_ = 0;

  PendingEvents pending_;
  std::vector<Connection*> ready_;      // recently active connections, which are read in turn
  std::vector<Connection*> dirty_;      // connections with unsent requests
  std::vector<Connection*> mid_;        // connections with an incomplete message; may also list others
  std::vector<Connection*> delivered_;  // connections whose receives hold data of reported events
  bool check_now_ = true;
  bool asleep_ = false;              // true from a successful try_wait() to the next poll() or wake()
  bool heard_ = false;               // some connection received data in this round
  bool heartbeat_received_ = false;  // received on con 0 of a path since the last delivery check
  unsigned polls_since_check_ = 0;
  unsigned idle_rounds_ = 0;
  std::string last_refusal_;            // last TLS failure of a connect attempt, which is logged only once
  std::vector<std::uint32_t> passing_;  // ConKey::place() of paths whose small packets are acknowledged
  Nanos next_delivery_check_ = 0;
  Nanos next_packet_warning_ = 0;
  std::optional<std::uint32_t> suspect_;  // address pair whose last session ended with passed_greeting_only()
  Nanos next_warning_ = 0;
  std::uint64_t unsaid_ = 0;
};

}  // namespace rtrs::tcp
