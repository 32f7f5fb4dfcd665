// Client and server ends of a world with block devices that can lose their caches.
#include <algorithm>
#include <array>

#include "sim/world/endpoints.hpp"

namespace rtrs::sim {

namespace {

class DisksClient final : public ClientEnd {
 public:
  DisksClient(const BlockClientOptions& options, Recorder* recorder, const DiskUser& user)
      : client_(options, recorder),
        book_(user.book),
        network_(user.network),
        load_(client_, user.book, user.disks, user.choice, user.names) {
    book_.begins(client_);
  }
  Client& session() noexcept override { return client_.session(); }
  Errc open(Fabric& fabric, Nanos now) override { return client_.open(fabric, now); }
  Errc submit(Fabric&, Nanos, const SectorRequest&) override { return Errc::invalid; }
  std::size_t poll(Fabric& fabric, Nanos now, std::span<IoCompletion>) override {
    std::array<BlockCompletion, 64> results;
    book_.polls(now);
    const std::size_t count = client_.poll(fabric, now, results);
    book_.polled();
    for (const BlockCompletion& one : std::span(results).first(count)) book_.over(one, now);
    if (count < results.size()) book_.check_closing();
    return count;
  }
  Nanos next_deadline() const noexcept override { return client_.next_deadline(); }
  Nanos next_timer() const noexcept override { return client_.next_timer(); }
  bool take_news(PathEvent& news) override {
    BlockEvent event;
    while (client_.take_event(event)) {
      book_.event(event, network_.now());
      if (const auto* path = std::get_if<PathEvent>(&event)) {
        news = *path;
        return true;
      }
    }
    return false;
  }
  void close(Fabric& fabric, Nanos now) override { client_.close(fabric, now); }
  bool closed() const noexcept override { return client_.closed(); }
  std::uint64_t most_reads(std::uint32_t) const noexcept override {
    // max_io_size() is 0 until the session knows its limits; until then no request is sent.
    constexpr std::uint64_t kLargest = std::uint64_t{kSectorsOfADisk} * kDiskSector;
    const std::uint64_t message = std::max<std::uint64_t>(client_.session().max_io_size(), 1);
    return client_.messages_in_flight() + book_.reads() * ((kLargest + message - 1) / message);
  }
  DiskLoad* disks() noexcept override { return &load_; }

 private:
  BlockClient client_;
  DiskBook& book_;
  const Net& network_;
  DiskLoad load_;
};

class DisksServer final : public ServerEnd {
 public:
  DisksServer(const ServerConfig& config, Recorder* recorder, unsigned life, const DiskHost& host)
      : server_(config, life * kGenerationsOfOneLife, recorder),
        disks_(host.disks),
        network_(host.network),
        room_(std::min<std::size_t>(host.actions, actions_.size())) {}
  const Server& transport() const noexcept override { return server_.transport(); }
  Errc listen(Fabric& fabric, Nanos now) override { return server_.listen(fabric, now, PathAddress{}); }
  std::size_t poll(Fabric& fabric, Nanos now) override {
    return count_ = server_.poll(fabric, now, std::span(actions_).first(room_));
  }
  void hand_out(Fabric& fabric, Nanos now, ServerUser& user) override {
    for (const block::Action& action : std::span(actions_).first(count_)) {
      disks_.perform(host(fabric, now), action);
      if (const auto* opened = std::get_if<block::SessionOpened>(&action))
        user.session_opened(opened->session, opened->name);
      if (const auto* closed = std::get_if<block::SessionClosed>(&action))
        user.session_closed(closed->session);
    }
    // Deadline 0: the block server still has actions to hand out.
    if (server_.next_deadline() != 0) disks_.check_answers(server_);
  }
  Nanos next_deadline() const noexcept override { return server_.next_deadline(); }
  bool take_news(PathEvent& news) override { return server_.take_news(news); }
  void respond(Fabric&, Nanos, const StorageModel::Op&, std::uint16_t) override {}
  Errc disconnect_path(Fabric& fabric, Nanos now, std::uint16_t session, unsigned path) override {
    return server_.disconnect_path(fabric, now, session, path);
  }
  void close_session(Fabric& fabric, Nanos now, std::uint16_t session) override {
    server_.close_session(fabric, now, session);
  }
  void close(Fabric& fabric, Nanos now) override { server_.close(fabric, now); }
  bool closed() const noexcept override { return server_.closed(); }
  void storage_due(Fabric& fabric, Nanos now) override { disks_.due(host(fabric, now)); }

 private:
  static constexpr unsigned kGenerationsOfOneLife = 1000;  // maximum number of sessions per server process

  Disks::Host host(Fabric& fabric, Nanos clock) { return {server_, fabric, network_.now(), clock}; }

  BlockServer server_;
  Disks& disks_;
  const Net& network_;
  std::array<block::Action, 64> actions_;
  std::size_t room_;
  std::size_t count_ = 0;
};

}  // namespace

std::unique_ptr<ClientEnd> make_disks_client(const ClientOptions& session, Recorder* recorder,
                                             const DiskUser& user) {
  BlockClientOptions options;
  options.session = session;
  options.max_requests = user.max_requests;
  return std::make_unique<DisksClient>(options, recorder, user);
}

std::unique_ptr<ServerEnd> make_disks_server(const ServerConfig& config, Recorder* recorder, unsigned life,
                                             const DiskHost& host) {
  return std::make_unique<DisksServer>(config, recorder, life, host);
}

}  // namespace rtrs::sim
