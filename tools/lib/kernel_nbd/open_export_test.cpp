// Connections to a server that is a thread of this test.
#include "tools/lib/kernel_nbd/open_export.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <thread>

#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::kernel_nbd {
namespace {

using namespace std::string_literals;

constexpr std::chrono::seconds kLong{60};

class OpenExportTest : public testing::Test {
 protected:
  OpenExportTest() : path_(folder_ / "nbd.sock"), listener_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
  }

  // Says `text` to the next one, then waits until it closes.
  std::thread serve(const std::string& text) {
    return std::thread([this, text] {
      const Descriptor one(::accept(listener_.get(), nullptr, nullptr));
      EXPECT_EQ(::send(one.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
      std::array<char, 100> room{};
      while (::recv(one.get(), room.data(), room.size(), 0) > 0) continue;
    });
  }

  trace::ScratchFolder folder_;
  std::string path_;
  Descriptor listener_;
};

const std::string kAnswers =
    "NBDMAGICIHAVEOPT\0\3"s
    "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\3\0\0\0\14\0\0\0\0\0\0\0\0\20\0\1\155"s
    "\0\3\xe8\x89\x04\x55\x65\xa9\0\0\0\7\0\0\0\1\0\0\0\0"s;

TEST_F(OpenExportTest, TheConnectionIsOpenAfterwards) {
  std::thread server = serve(kAnswers);
  {
    const OpenResult opened = open_export(path_, "disk0", kLong);
    ASSERT_TRUE(opened) << opened.error();
    EXPECT_EQ(opened->what, (Export{4096, 0x16d, 512}));
    EXPECT_EQ(::send(opened->fd.get(), "x", 1, MSG_NOSIGNAL), 1);
  }
  server.join();
}

TEST_F(OpenExportTest, WhyThereIsNone) {
  std::thread server = serve("no NBD at all, and longer than a greeting");
  const OpenResult odd = open_export(path_, "disk0", kLong);
  server.join();
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().find("no NBD server"), std::string::npos);
  const OpenResult late = open_export(path_, "disk0", std::chrono::milliseconds(10));
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().find("within 10 ms"), std::string::npos);
  const OpenResult nobody = open_export(folder_ / "none", "disk0", kLong);
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().find("none: No such file"), std::string::npos) << nobody.error();
  EXPECT_FALSE(open_export(std::string(200, 'x'), "disk0", kLong));
}

}  // namespace
}  // namespace rtrs::kernel_nbd
