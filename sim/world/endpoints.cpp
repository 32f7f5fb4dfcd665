#include "sim/world/endpoints.hpp"

#include <algorithm>
#include <cerrno>
#include <variant>
#include <vector>

namespace rtrs::sim {

namespace {

// User header of a raw request, 24 bytes.
struct RawHeader {
  std::uint32_t operation = 0;
  std::uint32_t sectors = 0;
  std::uint64_t lba = 0;
  std::uint64_t io = 0;
};
static_assert(sizeof(RawHeader) == 24);

class RawClient final : public ClientEnd {
 public:
  RawClient(const ClientOptions& options, Recorder* recorder) : client_(options, recorder) {}
  Client& session() noexcept override { return client_; }
  Errc open(Fabric& fabric, Nanos now) override { return client_.open(fabric, now); }
  Errc submit(Fabric& fabric, Nanos now, const SectorRequest& wanted) override {
    const RawHeader header{wanted.direction == Direction::write ? 1U : 0U, wanted.sectors, wanted.lba,
                           wanted.io};
    IoRequest request;
    request.direction = wanted.direction;
    request.service = wanted.service;
    request.affinity = wanted.affinity;
    request.user_header = std::as_bytes(std::span(&header, 1));
    request.data = wanted.data;
    request.region = wanted.region;
    request.region_offset = wanted.region_offset;
    request.user_data = wanted.io;
    return client_.submit(fabric, now, request);
  }
  std::size_t poll(Fabric& fabric, Nanos now, std::span<IoCompletion> done) override {
    return client_.poll(fabric, now, done);
  }
  Nanos next_deadline() const noexcept override { return client_.next_deadline(); }
  Nanos next_timer() const noexcept override { return client_.next_timer(); }
  bool take_news(PathEvent& news) override { return client_.take_news(news); }
  void close(Fabric& fabric, Nanos now) override { client_.close(fabric, now); }
  bool closed() const noexcept override { return client_.closed(); }
  std::uint64_t most_reads(std::uint32_t reads) const noexcept override { return reads; }

 private:
  Client client_;
};

BlockClientOptions block_options(const ClientOptions& session) {
  BlockClientOptions options;
  options.session = session;
  return options;
}

class DiskClient final : public ClientEnd {
 public:
  DiskClient(const ClientOptions& options, Recorder* recorder)
      : client_(block_options(options), recorder),
        has_request_timeout_(options.protocol.request_timeout != kNever) {}
  Client& session() noexcept override { return client_.session(); }
  Errc open(Fabric& fabric, Nanos now) override {
    const Errc opened = client_.open(fabric, now);
    if (opened != Errc::ok) return opened;
    const rnbd::MapOutcome mapped = client_.map(fabric, now, kDiskName, wire::rnbd::AccessMode::read_write);
    device_ = mapped.device;
    return mapped.error == 0 ? Errc::ok : Errc::invalid;
  }
  Errc submit(Fabric& fabric, Nanos now, const SectorRequest& wanted) override {
    BlockRequest request;
    request.opcode =
        wanted.direction == Direction::write ? wire::rnbd::Opcode::write : wire::rnbd::Opcode::read;
    request.offset = wanted.lba * kSectorBytes;
    request.length = wanted.data.size();
    request.data = wanted.data.data();
    request.region = wanted.region;
    request.region_offset = wanted.region_offset;
    // The server passes `prio` on to storage, where `prio` identifies the request of each message.
    request.prio = static_cast<std::uint16_t>(wanted.io);
    request.user_data = wanted.io;
    largest_ = std::max(largest_, request.length);
    return client_.submit(fabric, now, device_, request);
  }
  std::size_t poll(Fabric& fabric, Nanos now, std::span<IoCompletion> done) override {
    const std::size_t room = std::min(done.size(), results_.size());
    const std::size_t count = client_.poll(fabric, now, std::span(results_).first(room));
    for (std::size_t at = 0; at < count; ++at) {
      const BlockCompletion& result = results_[at];
      const bool of_peer = result.result == Errc::peer_error;
      done[at] = IoCompletion{result.user_data, result.result, of_peer ? result.error : std::uint16_t{0}};
      // These errors must not occur, because the disk has no volatile cache, all requests are valid, and the
      // device is never unmapped.
      if (result.result == Errc::invalid || result.result == Errc::not_open ||
          result.result == Errc::cache_lost)
        broken_ = "a valid request of a disk without losses succeeds or fails with an error of the session";
      if (is_wait_timeout(result.result) && !has_pending_work(now))
        broken_ = "no request fails for lack of a path, a permit or its device while it could be sent";
    }
    return count;
  }
  Nanos next_deadline() const noexcept override { return client_.next_deadline(); }
  Nanos next_timer() const noexcept override { return client_.next_timer(); }
  bool take_news(PathEvent& news) override {
    BlockEvent event;
    while (client_.take_event(event)) {
      if (const auto* path = std::get_if<PathEvent>(&event)) {
        news = *path;
        // The flag is stored here, because the session may have no path later.
        if (path->kind == PathEvent::Kind::link_up) extended_ = client_.session().peer_extends();
        return true;
      }
      const auto* device = std::get_if<rnbd::DeviceChanged>(&event);
      if (device != nullptr && device->state == rnbd::DeviceState::unmapped && !closing_)
        broken_ = "a disk that the server has stays mapped";
      const bool open = device != nullptr && device->state == rnbd::DeviceState::open;
      if (open && device->geometry.features != 0 && !extended_)
        broken_ = "features count only from a server that granted an extension";
    }
    return false;
  }
  void close(Fabric& fabric, Nanos now) override {
    closing_ = true;
    client_.close(fabric, now);
  }
  bool closed() const noexcept override { return client_.closed(); }
  std::uint64_t most_reads(std::uint32_t reads) const noexcept override {
    // max_io_size() is 0 until the session knows its limits; until then no request is sent.
    const std::uint64_t message = std::max<std::uint64_t>(client_.session().max_io_size(), 1);
    return client_.messages_in_flight() + reads * ((largest_ + message - 1) / message);
  }
  const char* broken() const noexcept override { return broken_; }

 private:
  // True if the result means that a request failed while it waited to be sent. With the option
  // request_timeout, Errc::request_timeout can also mean that the server did not respond. False for requests
  // of more than one message.
  bool is_wait_timeout(Errc result) const noexcept {
    const bool waited = result == Errc::no_path || result == Errc::no_permit ||
                        (result == Errc::request_timeout && !has_request_timeout_);
    return waited && largest_ <= client_.session().max_io_size();
  }
  bool has_pending_work(Nanos now) const noexcept {
    const bool open = client_.state(device_) == rnbd::DeviceState::open && !client_.refused(device_);
    return !open || client_.messages_in_flight() != 0 || client_.session().queue_ends(now) != kNever;
  }

  BlockClient client_;
  std::array<BlockCompletion, 64> results_;  // results of the last poll
  bool has_request_timeout_;
  rnbd::DeviceHandle device_ = 0;
  std::uint64_t largest_ = 0;  // bytes of the largest request
  const char* broken_ = nullptr;
  bool closing_ = false;
  bool extended_ = false;  // the server granted an extension
};

class RawServer final : public ServerEnd {
 public:
  RawServer(const ServerConfig& config, Recorder* recorder) : server_(config, recorder) {}
  const Server& transport() const noexcept override { return server_; }
  Errc listen(Fabric& fabric, Nanos now) override { return server_.listen(fabric, now, PathAddress{}); }
  std::size_t poll(Fabric& fabric, Nanos now) override { return count_ = server_.poll(fabric, now, events_); }
  void hand_out(Fabric&, Nanos, ServerUser& user) override {
    for (const ServerEvent& event : std::span(events_).first(count_)) tell(event, user);
  }
  Nanos next_deadline() const noexcept override { return server_.next_deadline(); }
  bool take_news(PathEvent& news) override { return server_.take_news(news); }
  void respond(Fabric& fabric, Nanos now, const StorageModel::Op& op, std::uint16_t error) override {
    server_.respond(fabric, now, op.id, error);
  }
  Errc disconnect_path(Fabric& fabric, Nanos now, std::uint16_t session, unsigned path) override {
    return server_.disconnect_path(fabric, now, session, path);
  }
  void close_session(Fabric& fabric, Nanos now, std::uint16_t session) override {
    server_.close_session(fabric, now, session);
  }
  void close(Fabric& fabric, Nanos now) override { server_.close(fabric, now); }
  bool closed() const noexcept override { return server_.closed(); }

 private:
  static void tell(const ServerEvent& event, ServerUser& user) {
    switch (event.kind) {
      case ServerEvent::Kind::session_opened:
        return user.session_opened(event.session, event.name);
      case ServerEvent::Kind::session_closed:
        return user.session_closed(event.session);
      case ServerEvent::Kind::request:
        return user.raw_request(event);
    }
  }
  Server server_;
  std::array<ServerEvent, 64> events_;
  std::size_t count_ = 0;
};

class DiskServer final : public ServerEnd {
 public:
  DiskServer(const ServerConfig& config, Recorder* recorder, unsigned life, std::uint32_t sectors)
      : server_(config, life * kGenerationsOfOneLife, recorder), blocks_(sectors / kSectorsPerBlock) {}
  const Server& transport() const noexcept override { return server_.transport(); }
  Errc listen(Fabric& fabric, Nanos now) override { return server_.listen(fabric, now, PathAddress{}); }
  std::size_t poll(Fabric& fabric, Nanos now) override {
    return count_ = server_.poll(fabric, now, actions_);
  }
  void hand_out(Fabric& fabric, Nanos now, ServerUser& user) override {
    for (const block::Action& action : std::span(actions_).first(count_))
      std::visit([&](const auto& one) { perform(fabric, now, user, one); }, action);
  }
  Nanos next_deadline() const noexcept override { return server_.next_deadline(); }
  bool take_news(PathEvent& news) override { return server_.take_news(news); }
  void respond(Fabric& fabric, Nanos now, const StorageModel::Op& op, std::uint16_t error) override {
    expect(server_.storage_done(fabric, now, op.operation, error), "an operation waits for its result");
  }
  Errc disconnect_path(Fabric& fabric, Nanos now, std::uint16_t session, unsigned path) override {
    return server_.disconnect_path(fabric, now, session, path);
  }
  void close_session(Fabric& fabric, Nanos now, std::uint16_t session) override {
    server_.close_session(fabric, now, session);
  }
  void close(Fabric& fabric, Nanos now) override { server_.close(fabric, now); }
  bool closed() const noexcept override { return server_.closed(); }
  bool knows_version(std::uint16_t session) const noexcept override {
    const rnbd::ServerDevices* devices = server_.devices(session);
    return devices != nullptr && devices->version() != 0;
  }
  const char* broken() const noexcept override { return broken_; }

 private:
  static constexpr unsigned kGenerationsOfOneLife = 1000;  // maximum number of sessions per server process

  void expect(bool holds, const char* rule) noexcept {
    if (!holds && broken_ == nullptr) broken_ = rule;
  }
  void perform(Fabric&, Nanos, ServerUser& user, const block::SessionOpened& action) {
    user.session_opened(action.session, action.name);
  }
  void perform(Fabric&, Nanos, ServerUser& user, const block::SessionClosed& action) {
    expect(std::none_of(open_.begin(), open_.end(),
                        [&](const Open& one) { return one.session == action.session; }),
           "a session that is closed has no open export");
    user.session_closed(action.session);
  }
  void perform(Fabric&, Nanos, ServerUser&, const block::SessionRefused&) {
    expect(false, "there is memory for a session");
  }
  void perform(Fabric& fabric, Nanos now, ServerUser&, const block::OpenExport& action) {
    block::ExportOpened answer;
    answer.error = action.name == kDiskName ? 0 : ENOENT;
    expect(answer.error == 0, "the only export is requested");
    answer.handle = ++last_handle_;
    answer.export_id = 1;
    answer.instance = 1;  // this storage never loses data
    answer.geometry.nsectors = blocks_;
    // Without an extension, a client cannot distinguish these bits from the uninitialised bytes of a kernel
    // server.
    answer.geometry.features = wire::rnbd::kFeaturePreflush | wire::rnbd::kFeatureNounmap;
    if (answer.error == 0) open_.push_back({answer.handle, action.session});
    expect(server_.export_opened(fabric, now, action.id, answer), "an open waits for its export");
  }
  void perform(Fabric&, Nanos, ServerUser&, const block::CloseExport& action) {
    expect(std::erase_if(open_, [&](const Open& one) { return one.handle == action.handle; }) == 1,
           "an export is closed once");
  }
  void perform(Fabric& fabric, Nanos now, ServerUser&, const block::MeasureExport& action) {
    expect(server_.export_measured(fabric, now, action.id, blocks_), "a measurement is waited for");
  }
  void perform(Fabric&, Nanos, ServerUser&, const block::CacheDamaged&) {
    expect(false, "only an existing cache is damaged");
  }
  void perform(Fabric&, Nanos, ServerUser& user, const block::StartStorage& action) {
    expect(std::any_of(
               open_.begin(), open_.end(),
               [&](const Open& one) { return one.handle == action.handle && one.session == action.session; }),
           "a request reaches an export that its session has open");
    user.block_request(action);
  }

  struct Open {
    std::uint64_t handle = 0;
    std::uint16_t session = 0;
  };
  BlockServer server_;
  std::array<block::Action, 64> actions_;
  std::size_t count_ = 0;
  std::uint64_t blocks_;
  std::vector<Open> open_;
  std::uint64_t last_handle_ = 0;
  const char* broken_ = nullptr;
};

}  // namespace

std::unique_ptr<ClientEnd> make_raw_client(const ClientOptions& options, Recorder* recorder) {
  return std::make_unique<RawClient>(options, recorder);
}
std::unique_ptr<ClientEnd> make_block_client(const ClientOptions& options, Recorder* recorder) {
  return std::make_unique<DiskClient>(options, recorder);
}
std::unique_ptr<ServerEnd> make_raw_server(const ServerConfig& config, Recorder* recorder) {
  return std::make_unique<RawServer>(config, recorder);
}
std::unique_ptr<ServerEnd> make_block_server(const ServerConfig& config, Recorder* recorder, unsigned life,
                                             std::uint32_t sectors) {
  return std::make_unique<DiskServer>(config, recorder, life, sectors);
}

}  // namespace rtrs::sim
