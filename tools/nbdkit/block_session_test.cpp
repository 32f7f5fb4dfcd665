// Tests threads that wait for requests while the server rejects every connection. The threads must poll while
// the paths retry, and their requests must fail when the session closes.
#include "tools/nbdkit/block_session.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <deque>
#include <thread>
#include <vector>

#include "core/fabric/plain_fabric.hpp"

namespace rtrs::nbdkit::block_session_test {
namespace {

class RefusingFabric : public PlainFabric {
 public:
  RefusingFabric() {
    can_.name = "refusing";
    can_.max_send_depth = can_.max_receive_depth = 1024;
    can_.max_message = 1U << 20;
    can_.connect_data = can_.accept_data = can_.reject_data = 64;
  }
  const Capabilities& capabilities() const noexcept override { return can_; }
  Result<Region> allocate(std::size_t bytes) override {
    memory_.emplace_back(bytes);
    return register_memory(memory_.back());
  }
  Result<Region> register_memory(std::span<std::byte> bytes) override {
    regions_.push_back(bytes);
    return Region{static_cast<RegionId>(regions_.size() - 1), bytes};
  }
  void release(RegionId) override {}
  Result<RemoteKey> make_key(RegionId id, std::size_t, std::size_t) override { return RemoteKey{id, 1, 0}; }
  void release_key(RemoteKeyId) override {}
  void invalidate(ConKey, RemoteKeyId, std::uint64_t) override {}
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override { return 1U; }
  Errc listen(const PathAddress&) override { return Errc::ok; }
  void connect(ConKey key, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override {
    ++attempts;
    events_.push_back(event::ConnectFailed{key, Reason::connect_refused, {}});
  }
  void accept(std::uint32_t, ConKey, const ConnectionParams&, std::span<const std::byte>) override {}
  void reject(std::uint32_t, std::span<const std::byte>) override {}
  void disconnect(ConKey key) override { events_.push_back(event::ConnectionClosed{key}); }
  std::string describe(ConKey) const override { return "refused"; }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}
  std::size_t post(std::span<const WorkRequest> work) noexcept override { return work.size(); }
  std::size_t poll(Nanos, std::span<FabricEvent> out) noexcept override {
    std::size_t count = 0;
    for (; count < out.size() && !events_.empty(); events_.pop_front()) out[count++] = events_.front();
    return count;
  }

  int attempts = 0;

 protected:
  std::deque<FabricEvent> events_;

 private:
  Capabilities can_;
  std::deque<std::vector<std::byte>> memory_;
};

// A fabric that never answers, with a descriptor on which a thread can sleep.
class SilentFabric final : public RefusingFabric {
 public:
  SilentFabric() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~SilentFabric() override { ::close(fd_); }
  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override {
    ++attempts;
  }
  int wait_fd() const noexcept override { return fd_; }
  bool try_wait() noexcept override {
    ++waits;
    return events_.empty();
  }

  int waits = 0;

 private:
  int fd_;
};

class BlockSessionTest : public ::testing::Test, public BlockSession::Listener {
 protected:
  // The session is not created in the constructor, because other threads call virtual functions as soon as
  // the session exists.
  void SetUp() override {
    BlockSessionOptions options;
    options.session_name = "block_session_test";
    options.paths = {PathAddress{"", "10.0.0.2", 1}, PathAddress{"", "10.0.1.2", 1}};
    options.protocol.reconnect_min = options.protocol.reconnect_max = milliseconds(1);
    options.protocol.reconnect_jitter = 0;
    options.protocol.queue_timeout = kNever;
    auto made = std::make_unique<RefusingFabric>();
    fabric = made.get();
    session = std::make_unique<BlockSession>(std::move(made), options, *this);
    const BlockSession::Lock lock = session->lock();
    EXPECT_EQ(session->open(), Errc::ok);
    device = session->map("disk", wire::rnbd::AccessMode::read_write).device;
  }
  void TearDown() override { session.reset(); }
  void on_event(const BlockEvent&) override { ++events; }
  unsigned on_io_begin() override { return 7; }
  void on_io_end(unsigned begun, Nanos, bool failed) override {
    EXPECT_EQ(begun, 7U);
    failures += failed ? 1 : 0;
  }
  void start_readers(int count) {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([this] {
        std::vector<std::byte> data(4096);
        BlockRequest io;
        io.length = data.size();
        io.data = data.data();
        errors[static_cast<std::size_t>(next++)] = session->io(device, io);
      });
  }
  void until_under_way(unsigned count) {
    BlockSession::Lock lock = session->lock();
    while (session->under_way() != count) session->wait_for_news(lock, asio::steady_now() + milliseconds(1));
  }

  RefusingFabric* fabric = nullptr;
  std::unique_ptr<BlockSession> session;
  rnbd::DeviceHandle device = 0;
  int events = 0;
  int failures = 0;
  std::vector<std::thread> threads;
  std::atomic<int> next = 0;
  std::array<int, 8> errors{};
};

// While no thread waits, the poller's own thread, the keeper, sleeps until the next deadline of the session.
class SleepingSessionTest : public ::testing::Test, public BlockSession::Listener {
 protected:
  void start(Nanos reconnect) {
    BlockSessionOptions options;
    options.session_name = "block_session_test";
    options.paths = {PathAddress{"", "10.0.0.2", 1}};
    options.protocol.connect_timeout = milliseconds(1);
    options.protocol.reconnect_min = options.protocol.reconnect_max = reconnect;
    options.protocol.reconnect_jitter = 0;
    auto made = std::make_unique<SilentFabric>();
    fabric = made.get();
    session = std::make_unique<BlockSession>(std::move(made), options, *this);
    // The keeper holds the lock from try_wait() until it sleeps. So the keeper sleeps when until() returns.
    until([this] { return fabric->waits != 0; });
  }
  void TearDown() override { session.reset(); }
  void on_event(const BlockEvent&) override {}
  unsigned on_io_begin() override { return 0; }
  void on_io_end(unsigned, Nanos, bool) override {}
  // Polls the condition. wait_for_news() cannot be used, because it would wake the keeper.
  template <class So>
  void until(So so) {
    const Nanos end = asio::steady_now() + seconds(60);
    for (bool is_so = false; !is_so; std::this_thread::yield()) {
      const BlockSession::Lock lock = session->lock();
      is_so = so();
      ASSERT_TRUE(is_so || asio::steady_now() < end);
    }
  }
  bool waits() const { return session->session().paths()[0].state == PathState::waiting; }

  SilentFabric* fabric = nullptr;
  std::unique_ptr<BlockSession> session;
};

TEST_F(SleepingSessionTest, KeeperServesDeadlinesOfAnOpenedSession) {
  start(milliseconds(1));
  {
    const BlockSession::Lock lock = session->lock();
    EXPECT_EQ(session->open(), Errc::ok);
  }
  until([this] { return fabric->attempts > 3; });
}

TEST_F(SleepingSessionTest, RequestedReconnectTimesOut) {
  start(seconds(1'000'000));
  {
    const BlockSession::Lock lock = session->lock();
    EXPECT_EQ(session->open(), Errc::ok);
  }
  until([this] { return waits(); });
  {
    const BlockSession::Lock lock = session->lock();
    EXPECT_EQ(session->reconnect_path(0), Errc::ok);
    EXPECT_FALSE(waits());
  }
  until([this] { return waits(); });
  EXPECT_EQ(fabric->attempts, 2);
}

TEST_F(BlockSessionTest, CloseFailsEveryWaitingRequest) {
  start_readers(8);
  until_under_way(8);
  {
    BlockSession::Lock lock = session->lock();
    session->close();
    while (!session->closed()) session->wait_for_news(lock, kNever);
  }
  for (std::thread& thread : threads) thread.join();
  for (const int error : errors) EXPECT_EQ(error, ESHUTDOWN);
  EXPECT_EQ(failures, 8);
  EXPECT_EQ(session->under_way(), 0U);
}

TEST_F(BlockSessionTest, PathsRetryWhileThreadsWait) {
  start_readers(4);
  until_under_way(4);
  {
    BlockSession::Lock lock = session->lock();
    const int before = fabric->attempts;
    while (fabric->attempts < before + 10) session->wait_for_news(lock, kNever);
    EXPECT_GT(events, 0);
    EXPECT_EQ(session->under_way(), 4U);
    session->close();
    while (!session->closed()) session->wait_for_news(lock, kNever);
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(BlockSessionTest, RequestAfterCloseFailsAtOnce) {
  {
    BlockSession::Lock lock = session->lock();
    session->close();
    while (!session->closed()) session->wait_for_news(lock, kNever);
  }
  start_readers(1);
  threads.front().join();
  EXPECT_EQ(errors[0], ESHUTDOWN);
  EXPECT_EQ(failures, 1) << "counted as a failed request";
}

}  // namespace
}  // namespace rtrs::nbdkit::block_session_test
