// Tests adding and removing exports while other exports are opened.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>

#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/test_files.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon::catalog_change_test {
namespace {

class CatalogChangeTest : public testing::Test {
 protected:
  std::unique_ptr<Catalog> catalog(std::vector<ExportSpec> specs = {}) {
    auto created = Catalog::create(std::move(specs), directory.path());
    EXPECT_TRUE(created) << created.error().sentence;
    return std::move(*created);
  }
  static int add(Catalog& to, const ExportSpec& spec) {
    const auto prepared = to.prepare(spec);
    if (!prepared) return prepared.error().error;
    const auto added = to.add(spec, &*prepared);
    return added ? 0 : added.error().error;
  }
  static int open(Catalog& from, const std::string& name, AccessMode mode = AccessMode::read_only) {
    const auto opened = from.open("s", name, mode);
    return opened ? 0 : opened.error().error;
  }
  static ExportSpec memory(const std::string& name) {
    ExportSpec spec;
    spec.name = name;
    spec.memory_bytes = 1 << 20;
    return spec;
  }
  ExportSpec file(const std::string& name, bool read_only) {
    directory.make_file(name, 4096);
    ExportSpec spec;
    spec.name = "export-of-" + name;
    spec.path = directory / name;
    spec.read_only = read_only;
    return spec;
  }
  TestDirectory directory;
};

TEST_F(CatalogChangeTest, AddedExportsCanBeOpenedAndRemovedOnesCannot) {
  const auto exports = catalog({memory("a")});
  EXPECT_EQ(open(*exports, "b"), ENOENT);
  EXPECT_EQ(add(*exports, memory("b")), 0);
  EXPECT_EQ(open(*exports, "/b"), 0);
  EXPECT_EQ(exports->specs().size(), 2U);
  EXPECT_TRUE(exports->remove("/a"));
  EXPECT_FALSE(exports->remove("a"));
  EXPECT_EQ(open(*exports, "a"), ENOENT);
  EXPECT_EQ(open(*exports, "b"), 0);
}

TEST_F(CatalogChangeTest, NamesAreUnique) {
  const auto exports = catalog({memory("a")});
  EXPECT_EQ(add(*exports, memory("/a")), EEXIST);
  EXPECT_TRUE(exports->remove("a"));
  EXPECT_EQ(add(*exports, memory("/a")), 0);
}

TEST_F(CatalogChangeTest, UnreadableFilesAreNotAdded) {
  const auto exports = catalog();
  ExportSpec gone;
  gone.name = "gone";
  gone.path = directory / "gone";
  EXPECT_EQ(add(*exports, gone), ENOENT);
  EXPECT_TRUE(exports->specs().empty());
}

TEST_F(CatalogChangeTest, ReadOnlyExportProtectsItsFileBelowTheSearchPath) {
  const auto exports = catalog();
  const ExportSpec spec = file("disk.img", true);
  EXPECT_EQ(open(*exports, "disk.img", AccessMode::read_write), 0);
  EXPECT_EQ(add(*exports, spec), 0);
  EXPECT_EQ(open(*exports, "disk.img", AccessMode::read_write), EACCES);
  EXPECT_EQ(exports->exported_as(spec.path), spec.name);
  EXPECT_TRUE(exports->remove(spec.name));
  EXPECT_EQ(open(*exports, "disk.img", AccessMode::read_write), 0);
  EXPECT_EQ(exports->exported_as(spec.path), "");
}

TEST_F(CatalogChangeTest, FileIsKnownWhileAnyExportUsesIt) {
  const ExportSpec first = file("disk.img", false);
  ExportSpec second = first;
  second.name = "again";
  second.read_only = true;
  const auto exports = catalog();
  EXPECT_EQ(add(*exports, first), 0);
  EXPECT_EQ(add(*exports, second), 0);
  EXPECT_TRUE(exports->remove(first.name));
  EXPECT_EQ(exports->exported_as(first.path), "again") << "so a trace must not replace it";
  EXPECT_TRUE(exports->remove("again"));
  EXPECT_EQ(exports->exported_as(first.path), "");
  EXPECT_EQ(add(*exports, first), 0);
  EXPECT_EQ(exports->exported_as(first.path), first.name);
}

TEST_F(CatalogChangeTest, ExportRemovedDuringAnOpenIsNotOpened) {
  const auto exports = catalog();
  const ExportSpec spec = file("disk.img", false);
  EXPECT_EQ(add(*exports, spec), 0);
  auto found = exports->find("s", spec.name, AccessMode::read_write);
  ASSERT_TRUE(found);
  EXPECT_TRUE(exports->remove(spec.name));
  const auto admitted = exports->admit(*found, "s", spec.name, AccessMode::read_write);
  ASSERT_FALSE(admitted);
  EXPECT_EQ(admitted.error().error, ENOENT);
  auto below = exports->find("s", "disk.img", AccessMode::read_write);
  ASSERT_TRUE(below) << below.error().sentence;
  EXPECT_TRUE(exports->admit(*below, "s", "disk.img", AccessMode::read_write)) << "it needs no export";
}

TEST_F(CatalogChangeTest, RemovedMemoryExportStaysOpenAndItsSuccessorIsEmpty) {
  const auto exports = catalog({memory("a")});
  auto opened = exports->open("s", "a", AccessMode::read_write);
  ASSERT_TRUE(opened);
  opened->device->memory()[0] = std::byte{7};
  const DeviceId before = opened->device->id();
  EXPECT_TRUE(exports->remove("a"));
  EXPECT_EQ(add(*exports, memory("a")), 0);
  EXPECT_EQ(opened->device->memory()[0], std::byte{7});
  auto next = exports->open("t", "a", AccessMode::read_write);
  ASSERT_TRUE(next) << next.error().sentence;
  EXPECT_EQ(next->device->memory()[0], std::byte{0});
  EXPECT_NE(next->device->id(), before);
}

TEST_F(CatalogChangeTest, SearchPathIsUsedOnceItExists) {
  auto created = Catalog::create({}, directory / "later");
  ASSERT_TRUE(created);
  Catalog& exports = **created;
  EXPECT_EQ(open(exports, "disk.img"), ENOENT);
  ASSERT_TRUE(exports.check_again("").problem);
  EXPECT_EQ(exports.check_again("").problem->why.error, ENOENT);
  directory.make_file("later/disk.img", 4096);
  EXPECT_FALSE(exports.check_again("").problem);
  EXPECT_EQ(open(exports, "disk.img"), 0);
}

TEST_F(CatalogChangeTest, ReplacedSearchPathIsUsed) {
  directory.make_file("folder/old.img", 4096);
  auto created = Catalog::create({}, directory / "folder");
  ASSERT_TRUE(created);
  EXPECT_EQ(open(**created, "old.img"), 0);
  std::filesystem::rename(directory / "folder", directory / "before");
  directory.make_file("folder/new.img", 4096);
  EXPECT_EQ(open(**created, "new.img"), 0);
  EXPECT_EQ(open(**created, "old.img"), ENOENT);
}

TEST_F(CatalogChangeTest, MissingExportIsServedOnceItsFileExists) {
  ExportSpec late;
  late.name = "late";
  late.path = directory / "late.img";
  const auto exports = catalog({late, memory("a")});
  const auto problems = exports->check(Catalog::CheckLocks::take);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].name, "late");
  EXPECT_EQ(problems[0].why.error, ENOENT);
  EXPECT_FALSE(problems[0].late);
  EXPECT_TRUE(exports->check_again("late").problem);
  EXPECT_FALSE(exports->check_again("removed").problem);
  directory.make_file("late.img", 4096 + 100);
  const auto checked = exports->check_again("late");
  EXPECT_FALSE(checked.problem);
  EXPECT_EQ(checked.warnings.size(), 1U) << "the incomplete last sector";
  EXPECT_EQ(open(*exports, "late", AccessMode::read_write), 0);
}

TEST_F(CatalogChangeTest, AllFilesAreProtectedUntilAReadOnlyFileIsKnown) {
  const auto exports = catalog();
  const ExportSpec spec = file("disk.img", true);
  directory.make_file("other.img", 4096);
  EXPECT_TRUE(exports->add(spec, nullptr));
  EXPECT_EQ(open(*exports, "other.img", AccessMode::read_write), EBUSY) << "it might be the export";
  EXPECT_FALSE(exports->check_again(spec.name).problem);
  EXPECT_EQ(open(*exports, "other.img", AccessMode::read_write), 0);
  EXPECT_EQ(open(*exports, "disk.img", AccessMode::read_write), EACCES);
}

// The directory of the export does not exist at first. Later it is created as a symbolic link, and the
// catalog does not check the export between these two events.
TEST_F(CatalogChangeTest, FileOfAFormerlyMissingReadOnlyExportIsProtected) {
  directory.make_file("real/other.img", 4096);
  ExportSpec iso;
  iso.name = "iso";
  iso.path = directory / "link/a.iso";
  iso.read_only = true;
  const auto exports = catalog({iso});
  std::filesystem::create_directory_symlink("real", directory / "link");
  directory.make_file("real/a.iso", 4096);
  EXPECT_EQ(open(*exports, "real/a.iso", AccessMode::read_write), EACCES);
  EXPECT_EQ(open(*exports, "real/other.img", AccessMode::read_write), 0);
}

TEST_F(CatalogChangeTest, TraceMustNotReplaceAMissingExport) {
  ExportSpec late;
  late.name = "late";
  late.path = directory / "late.img";
  const auto exports = catalog({late});
  EXPECT_EQ(exports->exported_as(directory.path() + "/./late.img"), "late");
  EXPECT_EQ(exports->exported_as(directory / "other.img"), "");
}

TEST_F(CatalogChangeTest, ConcurrentOpensAreSafe) {
  const auto exports = catalog({memory("a")});
  std::atomic<bool> done = false;
  std::thread opener([&] {
    while (!done) {
      static_cast<void>(exports->find("s", "a", AccessMode::read_only));
      static_cast<void>(exports->find("s", "b", AccessMode::read_only));
      static_cast<void>(exports->takes_descriptors("b"));
    }
  });
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(add(*exports, memory("b")), 0);
    EXPECT_TRUE(exports->remove("b"));
  }
  done = true;
  opener.join();
  EXPECT_EQ(exports->specs().size(), 1U);
}

// An NBD server for one client and a disk of 1 MiB. It sends the oldstyle greeting and acknowledges writes.
class OneNbdServer {
 public:
  explicit OneNbdServer(const std::string& path)
      : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~OneNbdServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  bool ended() const { return ended_; }  // the client has disconnected

 private:
  void serve() {
    const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<unsigned char, 152> greeting{'N', 'B',  'D',  'M',  'A',  'G', 'I', 'C', 0, 0, 0x42,
                                            2,   0x81, 0x86, 0x12, 0x53, 0,   0,   0,   0, 0, 0x10};
    greeting[27] = 5;            // NBD_FLAG_HAS_FLAGS and NBD_FLAG_SEND_FLUSH
    const timeval bound{30, 0};  // time limit in case the test fails
    ::setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    if (!client || ::send(client.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL) < 0) return;
    std::array<unsigned char, 28 + 512> request{};
    while (::recv(client.get(), request.data(), 28, MSG_WAITALL) == 28 && request[7] == 1) {
      ::recv(client.get(), request.data() + 28, 512, MSG_WAITALL);
      std::array<unsigned char, 16> reply{0x67, 0x44, 0x66, 0x98};
      std::copy_n(request.begin() + 8, 8, reply.begin() + 8);
      ::send(client.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    }
    ended_ = true;
  }
  UniqueFd listener_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

// The connection stays open after the last device is closed, because the next FLUSH must report if unflushed
// writes were lost. The destructor of the catalog must close the connection, because otherwise its thread
// would use a destroyed log.
TEST_F(CatalogChangeTest, ConnectionWithUnflushedWritesEndsWithTheCatalog) {
  const std::string socket = directory.path() + "/nbd";
  OneNbdServer server(socket);
  ExportSpec spec;
  spec.name = "n";
  spec.path = "nbd+unix:///?socket=" + socket;
  auto owner = catalog({spec});
  {
    auto opened = owner->open("s", "n", AccessMode::read_write);
    if (!opened && opened.error().error == EOPNOTSUPP) GTEST_SKIP() << opened.error().sentence;
    ASSERT_TRUE(opened) << opened.error().sentence;
    std::array<std::byte, 512> data{};
    NbdResults results;
    NbdCommand write;
    write.results = &results;
    write.opcode = Opcode::write;
    write.step = OpStep::write;
    write.length = data.size();
    write.buffer = data.data();
    write.seen = &opened->device->nbd_seen();
    opened->device->nbd()->submit(write);
    pollfd done{results.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&done, 1, -1), 1);
    ASSERT_NE(results.take(), nullptr);
    ASSERT_EQ(write.result, 512);
  }
  EXPECT_FALSE(server.ended()) << "a loss of the write could not be reported";
  owner.reset();
  for (int i = 0; i < 1000 && !server.ended(); ++i) ::poll(nullptr, 0, 10);
  EXPECT_TRUE(server.ended());
}

}  // namespace
}  // namespace rtrs::daemon::catalog_change_test
