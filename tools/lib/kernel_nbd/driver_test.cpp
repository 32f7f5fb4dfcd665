// The thin part of what keeps devices connected, with a kernel and an NBD server that are this test's.
#include "tools/lib/kernel_nbd/driver.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::kernel_nbd {
namespace {

using namespace std::string_literals;
namespace asio = boost::asio;

// Says the same to everyone, and notes who is still there.
class Server {
 public:
  Server(asio::io_context& context, const std::string& path) : acceptor_(context, {path}) { accept(); }
  bool is_open_to(int fd) const { return fd >= 0 && ::fcntl(fd, F_GETFD) >= 0; }

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

struct Calls {
  std::vector<std::string> all;
  int handed = -1;  // a copy of the descriptor, as the kernel has one
  int pipe_read = -1;
  int pipe_write = -1;
};

class FakeKernel final : public Kernel {
 public:
  FakeKernel(Calls& calls, std::string blocks) : calls_(calls), blocks_(std::move(blocks)) {}
  tl::expected<unsigned, int> attach(const NewDevice&) override { return tl::unexpected(EPERM); }
  int hand_over(unsigned index, const std::string& identity, int fd) override {
    calls_.all.push_back("hand over " + std::to_string(index) + " " + identity);
    calls_.handed = ::dup(fd);
    return 0;
  }
  int resize(unsigned index, const std::string&, std::uint64_t bytes) override {
    calls_.all.push_back("resize " + std::to_string(index) + " " + std::to_string(bytes));
    return 0;
  }
  int detach(unsigned index) override {
    calls_.all.push_back("detach " + std::to_string(index));
    std::filesystem::remove_all(blocks_ + "/nbd" + std::to_string(index));
    return 0;
  }

 private:
  Calls& calls_;
  std::string blocks_;
};

class FakeNews final : public LostConnections {
 public:
  explicit FakeNews(Calls& calls) : calls_(calls) {}
  int fd() const override { return calls_.pipe_read; }
  News read() override {
    News news;
    char index = 0;
    if (::read(calls_.pipe_read, &index, 1) == 1) news.lost.push_back(static_cast<unsigned>(index));
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
    places_.open = [this] { return std::make_unique<FakeKernel>(calls_, folder_.path()); };
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
  void attach(unsigned wait) {
    std::filesystem::create_directories(folder_ / "nbd1");
    std::ofstream(folder_ / "nbd1/backend") << identity_of({0x16d, wait, folder_ / "s", "disk0"}) << '\n';
    std::ofstream(folder_ / "nbd1/size") << "8\n";
  }
  void lose() const { EXPECT_EQ(::write(calls_.pipe_write, "\1", 1), 1); }
  // Runs until so many calls were made.
  void until(std::size_t calls) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (calls_.all.size() < calls && std::chrono::steady_clock::now() < end)
      context_.run_one_for(std::chrono::seconds(1));
    ASSERT_GE(calls_.all.size(), calls);
  }

  trace::ScratchFolder folder_;
  asio::io_context context_;
  Calls calls_;
  Places places_;
  Keeper::Options how_;
  bool has_module_ = true;
};

TEST_F(DriverTest, TheKernelGetsAConnectionThatStaysOpen) {
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

TEST_F(DriverTest, OneThatNobodyServesAnyMoreIsDetached) {
  attach(0);
  Driver devices(context_, places_, how_, [](int, const std::string&) {});
  devices.begin();
  // Lost before it is listed: it is, once it was.
  for (int turn = 0; turn < 200; ++turn) context_.run_one_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(calls_.all.empty());
  lose();
  until(1);
  EXPECT_EQ(calls_.all[0], "detach 1");
}

TEST_F(DriverTest, AModuleThatComesLaterIsFound) {
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

TEST(ControlOf, IsBesideTheSocketForNbd) {
  EXPECT_EQ(control_of("/run/urtrs/nbd-a@b.sock"), "/run/urtrs/client-map-a@b.sock");
  EXPECT_EQ(control_of("/run/disk0.sock"), "");
}

}  // namespace
}  // namespace rtrs::kernel_nbd
