// Tests Driver with a fake kernel and a fake NBD server.
#include "tools/lib/control/kernel_nbd/driver.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::kernel_nbd::driver_test {
namespace {

using namespace std::string_literals;
namespace asio = boost::asio;

// An NBD server that sends the same handshake to each client and keeps the connections open.
class Server {
 public:
  Server(asio::io_context& context, const std::string& path) : acceptor_(context, {path}) { accept(); }
  std::size_t peers() const { return peers_.size(); }
  // Waits up to 60 s; returns true if the peer has closed its end.
  bool has_ended(std::size_t peer) {
    pollfd one{peers_.at(peer).native_handle(), POLLIN, 0};
    std::array<char, 100> room{};
    ssize_t got = 1;
    while (got > 0 && ::poll(&one, 1, 60'000) == 1) got = ::recv(one.fd, room.data(), room.size(), 0);
    return got == 0;
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error,
                                  asio::local::stream_protocol::socket one) {
      if (error) return;
      asio::write(
          one, asio::buffer("NBDMAGICIHAVEOPT\0\3"
                            "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\3\0\0\0\14\0\0\0\0\0\0\0\0\20\0\1\155"
                            "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\1\0\0\0\0"s));
      peers_.push_back(std::move(one));
      accept();
    });
  }
  asio::local::stream_protocol::acceptor acceptor_;
  std::vector<asio::local::stream_protocol::socket> peers_;
};

// The control socket of an nbdkit. Answers each request with the list of devices.
class Control {
 public:
  Control(asio::io_context& context, const std::string& path, std::uint64_t bytes)
      : acceptor_(context, {path}), peer_(context), path_(path), bytes_(std::to_string(bytes)) {
    acceptor_.async_accept(peer_, [this](const boost::system::error_code& error) {
      if (!error) read();
    });
  }
  ~Control() { std::filesystem::remove(path_); }

 private:
  void read() {
    asio::async_read_until(
        peer_, asio::dynamic_buffer(line_), '\n',
        [this](const boost::system::error_code& error, std::size_t) {
          if (error) return;
          const std::string id = std::to_string(++asked_);
          line_.clear();
          asio::write(peer_,
                      asio::buffer(R"({"jsonrpc":"2.0","id":)" + id +
                                   R"(,"result":{"devices":[{"mapping_path":"disk1","size_bytes":512},)" +
                                   R"({"mapping_path":"disk0","size_bytes":)" + bytes_ + "}]}}\n"));
          read();
        });
  }
  asio::local::stream_protocol::acceptor acceptor_;
  asio::local::stream_protocol::socket peer_;
  std::string path_;
  std::string bytes_;
  std::string line_;
  int asked_ = 0;
};

struct Calls {
  std::vector<std::string> all;
  int error = 0;  // errno that the next call returns
  int asked = 0;  // number of times that the driver has opened the kernel interface
  int listeners = 0;
  int handed = -1;  // a duplicate of the descriptor, as the kernel would keep it
  int pipe_read = -1;
  int pipe_write = -1;
};

class FakeKernel final : public Kernel {
 public:
  FakeKernel(Calls& calls, std::string blocks) : calls_(calls), blocks_(std::move(blocks)) {}
  tl::expected<unsigned, int> attach(const NewDevice&) override { return tl::unexpected(EPERM); }
  int hand_over(unsigned index, const std::string& identity, int fd) override {
    calls_.all.push_back("hand over " + std::to_string(index) + " " + identity);
    if (calls_.error != 0) return std::exchange(calls_.error, 0);
    if (calls_.handed >= 0) ::close(calls_.handed);
    calls_.handed = ::dup(fd);
    return 0;
  }
  int resize(unsigned index, const std::string& identity, std::uint64_t bytes) override {
    calls_.all.push_back("resize " + std::to_string(index) + " " + identity + " to " + std::to_string(bytes));
    std::ofstream(blocks_ + "/nbd" + std::to_string(index) + "/size") << bytes / 512 << '\n';
    return 0;
  }
  int detach(unsigned index) override {
    calls_.all.push_back("detach " + std::to_string(index));
    if (calls_.error != 0) return std::exchange(calls_.error, 0);
    std::filesystem::remove_all(blocks_ + "/nbd" + std::to_string(index));
    return 0;
  }

 private:
  Calls& calls_;
  std::string blocks_;
};

constexpr char kMissed = 'm';

class FakeNews final : public LostConnections {
 public:
  explicit FakeNews(Calls& calls) : calls_(calls) { ++calls_.listeners; }
  ~FakeNews() override { --calls_.listeners; }
  int fd() const override { return calls_.pipe_read; }
  News read() override {
    News news;
    char index = 0;
    if (::read(calls_.pipe_read, &index, 1) != 1) return news;
    news.missed = index == kMissed;
    if (!news.missed) news.lost.push_back(static_cast<unsigned>(index));
    return news;
  }

 private:
  Calls& calls_;
};

class DriverTest : public testing::Test {
 protected:
  DriverTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC), 0);
    calls_.pipe_read = ends[0];
    calls_.pipe_write = ends[1];
    places_.blocks = folder_.path();
    places_.open = [this] {
      ++calls_.asked;
      return std::make_unique<FakeKernel>(calls_, folder_.path());
    };
    places_.watch = [this]() -> tl::expected<std::unique_ptr<LostConnections>, int> {
      if (!has_module_) return tl::unexpected(ENOENT);
      return std::make_unique<FakeNews>(calls_);
    };
    how_.list_pause = milliseconds(20);
    how_.least_pause = milliseconds(1);
    how_.most_pause = milliseconds(5);
  }
  ~DriverTest() override {
    for (const int fd : {calls_.pipe_read, calls_.pipe_write, calls_.handed}) ::close(fd);
  }
  void attach(unsigned wait, const std::string& socket = "s", std::uint16_t flags = 0x16d) {
    std::filesystem::create_directories(folder_ / "nbd1");
    std::ofstream(folder_ / "nbd1/backend") << identity_of({flags, wait, folder_ / socket, "disk0"}) << '\n';
    std::ofstream(folder_ / "nbd1/size") << "8\n";
  }
  void tell(char news) const { EXPECT_EQ(::write(calls_.pipe_write, &news, 1), 1); }
  void lose() const { tell(1); }
  Driver::Log log() {
    return [this](int severity, const std::string& line) {
      log_ += std::to_string(severity) + " " + line + "\n";
    };
  }
  // Returns the number of log lines that contain `text`.
  std::size_t lines(const std::string& text) const {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = log_.find(text, at)) != std::string::npos; ++at) ++count;
    return count;
  }
  void run_for(int milliseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < end) context_.run_one_for(std::chrono::milliseconds(1));
  }
  // Runs the event loop until so() returns true.
  void until(const std::function<bool()>& so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!so() && std::chrono::steady_clock::now() < end) context_.run_one_for(std::chrono::seconds(1));
    ASSERT_TRUE(so());
  }
  // Runs the event loop until `calls` calls were made.
  void until(std::size_t calls) {
    until([&] { return calls_.all.size() >= calls; });
    ASSERT_GE(calls_.all.size(), calls);
  }

  tools::ScratchFolder folder_;
  asio::io_context context_;
  Calls calls_;
  Places places_;
  Keeper::Options how_;
  bool has_module_ = true;
  std::string log_;
};

TEST_F(DriverTest, ConnectionStaysOpenAfterTheHandOver) {
  attach(300);
  const Server server(context_, folder_ / "s");
  Driver devices(context_, places_, how_, [](int, const std::string&) {});
  devices.begin();
  until(1);
  EXPECT_EQ(calls_.all[0], "hand over 1 urtrs1 16d 300 " + (folder_ / "s") + " disk0");
  EXPECT_EQ(::write(calls_.handed, "x", 1), 1);
  context_.poll();
  lose();
  until(2);
  EXPECT_EQ(calls_.all[1], calls_.all[0]);
}

TEST_F(DriverTest, DeviceWithoutAServerIsDetached) {
  attach(0);
  Driver devices(context_, places_, how_, [](int, const std::string&) {});
  devices.begin();
  until(1);
  EXPECT_EQ(calls_.all[0], "detach 1");
}

TEST_F(DriverTest, DeviceWhoseSocketFileWasRemovedIsDetachedWhenLost) {
  attach(0);
  const Server server(context_, folder_ / "s");
  std::filesystem::remove(folder_ / "s");
  Driver devices(context_, places_, how_, [](int, const std::string&) {});
  devices.begin();
  // Waits until the driver has listed the device, because it ignores the loss of an unlisted device.
  for (int turn = 0; turn < 200; ++turn) context_.run_one_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(calls_.all.empty());
  lose();
  until(1);
  EXPECT_EQ(calls_.all[0], "detach 1");
}

// The file of the dead server's socket still exists. The kernel reported the lost connection before the
// driver listened for events. The driver must still detach the device.
TEST_F(DriverTest, DeviceWhoseServerDiedEarlierIsDetached) {
  attach(0);
  { const Server dead(context_, folder_ / "s"); }
  Driver devices(context_, places_, how_, [](int, const std::string&) {});
  devices.begin();
  until(1);
  EXPECT_EQ(calls_.all, std::vector<std::string>{"detach 1"});
}

TEST_F(DriverTest, ModuleLoadedLaterIsFound) {
  attach(300);
  has_module_ = false;
  const Server server(context_, folder_ / "s");
  Driver devices(context_, places_, how_, [](int, const std::string&) {});
  devices.begin();
  for (int turn = 0; turn < 10; ++turn) context_.run_one_for(std::chrono::milliseconds(30));
  EXPECT_TRUE(calls_.all.empty());
  has_module_ = true;
  until(1);
  EXPECT_TRUE(calls_.all[0].starts_with("hand over 1 "));
}

TEST_F(DriverTest, HandedOverAndUnusableConnectionsAreClosed) {
  attach(300);
  Server server(context_, folder_ / "s");
  Driver devices(context_, places_, how_, log());
  devices.begin();
  until(1);
  ::close(std::exchange(calls_.handed, -1));
  EXPECT_TRUE(server.has_ended(0)) << "only the kernel still has the connection";
  attach(300, "s", 0x165);
  until([&] { return lines("3 /dev/nbd1 (disk0): the export has the NBD flags") > 0; });
  EXPECT_TRUE(server.has_ended(1));
  EXPECT_EQ(calls_.all.size(), 1U);
}

TEST_F(DriverTest, DeviceIsResizedWhenNbdkitReportsANewSize) {
  how_.settle = 0;
  attach(300, "nbd-a.sock");
  const Server server(context_, folder_ / "nbd-a.sock");
  std::optional<Control> control(std::in_place, context_, folder_ / "client-map-a.sock", 8192);
  Driver devices(context_, places_, how_, log());
  devices.begin();
  until(2);
  EXPECT_EQ(calls_.all[1], "resize 1 urtrs1 16d 300 " + (folder_ / "nbd-a.sock") + " disk0 to 8192");
  // Restarts nbdkit.
  control.reset();
  control.emplace(context_, folder_ / "client-map-a.sock", 16384);
  until(3);
  EXPECT_TRUE(calls_.all[2].ends_with(" to 16384")) << calls_.all[2];
}

TEST_F(DriverTest, MissedEventsAndRefusalsAreRetried) {
  attach(300);
  const Server server(context_, folder_ / "s");
  Driver devices(context_, places_, how_, log());
  calls_.error = EINVAL;
  devices.begin();
  until(2);
  EXPECT_EQ(calls_.all[1], calls_.all[0]) << "retried because the kernel refused it";
  run_for(50);
  EXPECT_EQ(calls_.all.size(), 2U);
  tell(kMissed);
  until(3);
  tell(1);
  until(4);
}

TEST_F(DriverTest, KernelErrorIsLoggedOnce) {
  attach(300);
  has_module_ = false;
  Driver devices(context_, places_, how_, log());
  devices.begin();
  run_for(200);
  EXPECT_EQ(
      log_,
      "4 cannot open netlink to the kernel's NBD client: No such file or directory (errno 2); retrying\n");
}

TEST_F(DriverTest, KernelIsNotQueriedWithoutADevice) {
  has_module_ = false;
  Driver devices(context_, places_, how_, log());
  devices.begin();
  run_for(100);
  EXPECT_EQ(log_, "");
}

TEST_F(DriverTest, ReloadedModuleIsQueriedAgain) {
  attach(300);
  const Server server(context_, folder_ / "s");
  Driver devices(context_, places_, how_, log());
  devices.begin();
  until(1);
  EXPECT_EQ(calls_.listeners, 1);
  std::filesystem::remove_all(folder_ / "nbd1");
  until([&] { return calls_.listeners == 0; });
  attach(300);
  until(2);
  EXPECT_EQ(calls_.asked, 2);
  lose();
  until(3);
  EXPECT_EQ(calls_.asked, 2);
  // The nbd module was reloaded between two listings, so events were lost. ENOENT must make the driver open
  // netlink again and check every device.
  std::filesystem::copy(folder_ / "nbd1", folder_ / "nbd2");
  until(4);
  EXPECT_TRUE(calls_.all[3].starts_with("hand over 2 "));
  calls_.error = ENOENT;
  lose();
  until(7);
  std::sort(calls_.all.begin() + 5, calls_.all.end());
  EXPECT_TRUE(calls_.all[5].starts_with("hand over 1 "));
  EXPECT_TRUE(calls_.all[6].starts_with("hand over 2 "));
  EXPECT_EQ(calls_.asked, 3);
  EXPECT_EQ(calls_.listeners, 1);
  lose();
  until(8);
}

TEST_F(DriverTest, FailedDetachIsLogged) {
  attach(0);
  Driver devices(context_, places_, how_, log());
  devices.begin();
  calls_.error = EBUSY;
  lose();
  until(1);
  EXPECT_EQ(lines("3 /dev/nbd1 cannot be detached: Device or resource busy"), 1U) << log_;
}

TEST_F(DriverTest, ReplacedDeviceIsNotDetached) {
  attach(0);
  how_.list_pause = seconds(60);
  Driver devices(context_, places_, how_, log());
  devices.begin();
  attach(5);
  lose();
  until([&] { return lines("is detached: ") > 0; });
  EXPECT_TRUE(calls_.all.empty());
}

TEST(ControlOf, IsInTheFolderOfTheNbdSocket) {
  EXPECT_EQ(control_of("/run/urtrs/nbd-a@b.sock"), "/run/urtrs/client-map-a@b.sock");
  EXPECT_EQ(control_of("/run/disk0.sock"), "");
}

}  // namespace
}  // namespace rtrs::kernel_nbd::driver_test
