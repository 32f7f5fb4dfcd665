#include "tools/urtrsd/storage/export.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "tools/urtrsd/storage/block_limits.hpp"
#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::export_test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class Confined : public ::testing::TestWithParam<Confinement> {
 protected:
  std::unique_ptr<Catalog> catalog(const std::string& search_path, std::vector<ExportSpec> specs = {}) {
    auto created = Catalog::create(std::move(specs), search_path, GetParam());
    EXPECT_TRUE(created) << created.error().sentence;
    return std::move(*created);
  }
  static OpenError refusal(Catalog& catalog, const std::string& name,
                           AccessMode mode = AccessMode::read_only) {
    const auto opened = catalog.open("sess", name, mode);
    if (opened) return {0, "opened " + name};
    return opened.error();
  }
  TestDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Ways, Confined,
                         ::testing::Values(Confinement::automatic, Confinement::component_walk),
                         [](const auto& tested) {
                           return tested.param == Confinement::automatic ? "automatic" : "component_walk";
                         });

TEST_P(Confined, OpenReportsTheGeometryOfTheFile) {
  directory_.make_file("a/disk.img", kMiB);
  auto exports = catalog(directory_.path());
  auto opened = exports->open("sess", "//a/disk.img", AccessMode::read_write);
  ASSERT_TRUE(opened) << opened.error().sentence;
  const Export& device = *opened->device;
  EXPECT_EQ(device.kind(), ExportKind::file);
  EXPECT_EQ(device.sectors(), 2048U);
  EXPECT_FALSE(device.read_only());
  EXPECT_EQ(device.geometry().logical_block_size, 512U);
  EXPECT_TRUE(device.geometry().write_cache);
  EXPECT_TRUE(device.geometry().fua);
  EXPECT_GT(device.geometry().max_write_zeroes_sectors, 0U);
  EXPECT_TRUE(device.warnings().empty());
  EXPECT_EQ(device.geometry().discard_granularity == 0, device.geometry().max_discard_sectors == 0);
}

TEST_P(Confined, ReadOnlyOpenAnnouncesNoChanges) {
  directory_.make_file("disk.img", kMiB);
  auto exports = catalog(directory_.path());
  auto opened = exports->open("sess", "disk.img", AccessMode::read_only);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->device->read_only());
  EXPECT_EQ(opened->device->geometry().max_discard_sectors, 0U);
  EXPECT_EQ(opened->device->geometry().max_write_zeroes_sectors, 0U);
}

TEST_P(Confined, NamesThatLeadOutOfTheSearchPathAreRejected) {
  directory_.make_file("secret.img", kMiB);
  std::filesystem::create_directory(directory_ / "root");
  directory_.make_file("root/inside.img", kMiB);
  std::filesystem::create_symlink("../secret.img", directory_ / "root/relative");
  std::filesystem::create_symlink(directory_ / "secret.img", directory_ / "root/absolute");
  std::filesystem::create_directory_symlink("..", directory_ / "root/up");
  auto exports = catalog(directory_ / "root");
  EXPECT_EQ(refusal(*exports, "../secret.img").error, EINVAL);
  EXPECT_EQ(refusal(*exports, "x/../inside.img").error, EINVAL);
  EXPECT_EQ(refusal(*exports, "relative").error, EACCES);
  EXPECT_EQ(refusal(*exports, "absolute").error, EACCES);
  EXPECT_NE(refusal(*exports, "absolute").sentence.find("symbolic link"), std::string::npos);
  EXPECT_NE(refusal(*exports, "up/secret.img").error, 0);
  EXPECT_EQ(refusal(*exports, "inside.img").error, 0);
}

TEST_P(Confined, LinksWithinTheSearchPathRequireOpenat2) {
  directory_.make_file("real.img", kMiB);
  std::filesystem::create_symlink("real.img", directory_ / "link");
  auto exports = catalog(directory_.path());
  const bool kernel = GetParam() == Confinement::automatic && exports->warnings().empty();
  EXPECT_EQ(refusal(*exports, "link").error, kernel ? 0 : EACCES);
}

TEST_P(Confined, InvalidNamesAreRejected) {
  auto exports = catalog(directory_.path());
  EXPECT_EQ(refusal(*exports, "").error, EINVAL);
  EXPECT_EQ(refusal(*exports, "///").error, EINVAL);
  EXPECT_EQ(refusal(*exports, std::string("a\0b", 3)).error, EINVAL);
  EXPECT_EQ(refusal(*exports, std::string(4096, 'a')).error, EINVAL);
  EXPECT_EQ(refusal(*exports, std::string(256, 'a')).error, ENAMETOOLONG);
  EXPECT_EQ(refusal(*exports, "missing.img").error, ENOENT);
  EXPECT_EQ(refusal(*exports, "a\nb").sentence.find('\n'), std::string::npos);
}

TEST_P(Confined, OnlyFilesAndBlockDevicesAreOpened) {
  std::filesystem::create_directory(directory_ / "dir");
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory_ / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  auto exports = catalog(directory_.path());
  EXPECT_EQ(refusal(*exports, "dir").error, ENOTBLK);
  EXPECT_EQ(refusal(*exports, "dir").sentence,
            "device \"dir\" is a directory; only regular files and block devices can be exported");
  EXPECT_EQ(refusal(*exports, "fifo", AccessMode::read_write).error, ENOTBLK);
  EXPECT_NE(refusal(*exports, "socket").sentence.find("a socket"), std::string::npos);
  auto dev = catalog("/dev");
  EXPECT_EQ(refusal(*dev, "full", AccessMode::read_write).error, ENOTBLK);
  EXPECT_NE(refusal(*dev, "full").sentence.find("a character device"), std::string::npos);
}

TEST_P(Confined, SizesAreRoundedDown) {
  directory_.make_file("odd.img", 1024 + 511);
  directory_.make_file("tiny.img", 511);
  directory_.make_file("empty.img", 0);
  auto exports = catalog(directory_.path());
  auto odd = exports->open("sess", "odd.img", AccessMode::read_write);
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->device->size_bytes(), 1024U);
  ASSERT_EQ(odd->device->warnings().size(), 1U);
  EXPECT_EQ(odd->device->warnings()[0],
            "device \"odd.img\" has 1535 bytes, not a multiple of 512: the last 511 bytes are not exported");
  EXPECT_EQ(refusal(*exports, "tiny.img").error, EINVAL);
  EXPECT_EQ(refusal(*exports, "empty.img").sentence,
            "device \"empty.img\" is empty; a device needs at least one block");
  EXPECT_EQ(std::filesystem::file_size(directory_ / "odd.img"), 1535U);
}

TEST_P(Confined, SessionsHaveTheirOwnDirectories) {
  directory_.make_file("sess/disk.img", kMiB);
  directory_.make_file("other/secret.img", kMiB);
  std::filesystem::create_symlink("../other/secret.img", directory_ / "sess/link");
  auto exports = catalog(directory_.path() + "/%SESSNAME%/ignored");
  EXPECT_EQ(refusal(*exports, "disk.img").error, 0);
  EXPECT_EQ(refusal(*exports, "link").error, EACCES);
  EXPECT_EQ(refusal(*exports, "secret.img").error, ENOENT);
  for (const char* session : {"", ".", "..", "sess/../other", "other/"}) {
    const auto opened = exports->open(session, "secret.img", AccessMode::read_only);
    ASSERT_FALSE(opened) << session;
    EXPECT_EQ(opened.error().error, EINVAL) << session;
  }
}

TEST_P(Confined, WritersAreCountedByDeviceNotByName) {
  directory_.make_file("disk.img", kMiB);
  std::filesystem::create_hard_link(directory_ / "disk.img", directory_ / "alias.img");
  auto exports = catalog(directory_.path(), {{"named", directory_ / "disk.img"}});
  auto first = exports->open("alpha", "disk.img", AccessMode::read_write);
  ASSERT_TRUE(first);
  EXPECT_EQ(refusal(*exports, "alias.img", AccessMode::read_write).error, EPERM);
  EXPECT_EQ(refusal(*exports, "named", AccessMode::read_write).error, EPERM);
  EXPECT_EQ(refusal(*exports, "alias.img", AccessMode::read_only).error, 0);
  EXPECT_EQ(refusal(*exports, "alias.img", AccessMode::migration).error, 0);
  first->lease.release();
  EXPECT_EQ(refusal(*exports, "alias.img", AccessMode::read_write).error, 0);
}

TEST_P(Confined, AFailedOpenKeepsNoLease) {
  directory_.make_file("empty.img", 0);
  auto exports = catalog(directory_.path());
  EXPECT_EQ(refusal(*exports, "empty.img", AccessMode::read_write).error, EINVAL);
  EXPECT_TRUE(exports->access().empty());
}

TEST_P(Confined, MissingSearchPathIsReported) {
  auto exports = catalog(directory_ / "nowhere");
  const auto problems = exports->check(Catalog::CheckLocks::take);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].why.error, ENOENT);
  EXPECT_EQ(refusal(*exports, "disk.img").error, ENOENT);
}

TEST(SearchPathAtRoot, FollowsAbsoluteLinks) {
  TestDirectory directory;
  directory.make_file("real.img", kMiB);
  std::filesystem::create_symlink(directory / "real.img", directory / "link");
  auto exports = Catalog::create({}, "/");
  ASSERT_TRUE(exports);
  if (!(*exports)->warnings().empty()) GTEST_SKIP() << (*exports)->warnings()[0];
  EXPECT_TRUE((*exports)->open("sess", directory / "link", AccessMode::read_only));
}

TEST(Catalog, OnlyConfiguredNamesAreOpened) {
  TestDirectory directory;
  ExportSpec iso{"iso", directory.make_file("a.iso", kMiB), 0, true, 0};
  ExportSpec ram{"ram", "", 64 * 1024, false, 7};
  auto exports = Catalog::create({iso, ram}, std::nullopt);
  ASSERT_TRUE(exports);
  auto writer = (*exports)->open("s", "iso", AccessMode::read_write);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().error, EACCES);
  EXPECT_TRUE((*exports)->open("s", "/iso", AccessMode::read_only));
  EXPECT_EQ((*exports)->open("s", "a.iso", AccessMode::read_only).error().error, ENOENT);
  EXPECT_TRUE((*exports)->check(Catalog::CheckLocks::ask).empty());
}

TEST(Catalog, MemoryKeepsItsContentBetweenOpens) {
  auto exports = Catalog::create({{"ram", "", 64 * 1024, false, 7}}, std::nullopt);
  ASSERT_TRUE(exports);
  {
    auto writer = (*exports)->open("s", "ram", AccessMode::read_write);
    ASSERT_TRUE(writer);
    EXPECT_EQ(writer->device->kind(), ExportKind::memory);
    EXPECT_EQ(writer->device->delay_ms(), 7U);
    writer->device->memory()[100] = std::byte{42};
    EXPECT_EQ((*exports)->open("t", "ram", AccessMode::read_write).error().error, EPERM);
  }
  auto reader = (*exports)->open("t", "ram", AccessMode::read_only);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->device->memory()[100], std::byte{42});
}

TEST(FileFacts, PreallocatedBlocksBeyondTheEndAreKept) {
  const UniqueFd fd(::memfd_create("disk", MFD_CLOEXEC));
  ASSERT_TRUE(fd);
  ASSERT_EQ(::ftruncate(fd.get(), kMiB), 0);
  ASSERT_EQ(::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, kMiB, kMiB), 0);
  struct stat before {};
  struct stat after {};
  ASSERT_EQ(::fstat(fd.get(), &before), 0);
  const auto facts = file_facts(fd.get(), true, true);
  ASSERT_TRUE(facts);
  EXPECT_NE(facts->geometry.max_discard_sectors, 0U);
  ASSERT_EQ(::fstat(fd.get(), &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
}

// To test for discard support, the server punches a hole beyond the end of the file. For a huge sparse file
// that offset would exceed off_t or the maximum file size, so the test must use a smaller offset.
TEST(FileFacts, HugeSparseFilesSupportDiscardLikeOthers) {
  const UniqueFd endless(::memfd_create("disk", MFD_CLOEXEC));
  ASSERT_TRUE(endless);
  ASSERT_EQ(::ftruncate(endless.get(), std::numeric_limits<off_t>::max() - (off_t{1} << 31)), 0);
  const auto facts = file_facts(endless.get(), true, true);
  ASSERT_TRUE(facts);
  EXPECT_NE(facts->geometry.max_discard_sectors, 0U);
  TestDirectory directory;
  const UniqueFd fd(::open(directory.make_file("disk.img", kMiB).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(fd);
  const auto small = file_facts(fd.get(), true, true);
  ASSERT_TRUE(small);
  // The maximum file size of ext4 is 16 TiB.
  if (::ftruncate(fd.get(), (off_t{1} << 44) - (off_t{1} << 31)) != 0) return;
  const auto huge = file_facts(fd.get(), true, true);
  ASSERT_TRUE(huge);
  EXPECT_EQ(huge->geometry.max_discard_sectors, small->geometry.max_discard_sectors);
}

TEST(Catalog, CheckDoesNotChangeFileTimes) {
  TestDirectory directory;
  const std::string path = directory.make_file("disk.img", kMiB);
  const std::array<timespec, 2> long_ago{timespec{1, 0}, timespec{1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago.data(), 0), 0);
  const auto created = Catalog::create({{"a", path}}, std::nullopt);
  ASSERT_TRUE(created);
  for (const auto locks : {Catalog::CheckLocks::ask, Catalog::CheckLocks::take})
    EXPECT_TRUE((*created)->check(locks).empty());
  EXPECT_TRUE((*created)->prepare({"b", path})) << "for an export that may be added later";
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mtim.tv_sec, 1);
}

TEST(Catalog, CheckNamesEveryBadExport) {
  TestDirectory directory;
  auto exports = Catalog::create({{"gone", directory / "gone.img"}, {"dir", directory.path()}}, std::nullopt);
  ASSERT_TRUE(exports);
  const auto problems = (*exports)->check(Catalog::CheckLocks::ask);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].why.error, ENOENT);
  EXPECT_NE(problems[0].why.sentence.find("export \"gone\""), std::string::npos);
  EXPECT_EQ(problems[1].why.error, ENOTBLK);
}

TEST(Catalog, ReadOnlyExportProtectsItsFileUnderAllNames) {
  TestDirectory directory;
  const std::string path = directory.make_file("a.iso", kMiB);
  std::filesystem::create_hard_link(path, directory / "alias.iso");
  std::filesystem::create_symlink(path, directory / "link.iso");
  auto exports = Catalog::create({{"iso", directory / "link.iso", 0, true}}, directory.path());
  ASSERT_TRUE(exports);
  for (const char* name : {"a.iso", "alias.iso"}) {
    for (const AccessMode mode : {AccessMode::read_write, AccessMode::migration}) {
      const auto writer = (*exports)->open("s", name, mode);
      ASSERT_FALSE(writer) << name;
      EXPECT_EQ(writer.error().error, EACCES);
      EXPECT_NE(writer.error().sentence.find("exported read-only as \"iso\""), std::string::npos);
    }
    EXPECT_TRUE((*exports)->open("s", name, AccessMode::read_only)) << name;
  }
  // A new file at the path of the exported file is protected too, because its path is compared.
  directory.make_file("new.iso", kMiB);
  std::filesystem::rename(directory / "new.iso", path);
  EXPECT_EQ((*exports)->open("s", "a.iso", AccessMode::read_write).error().error, EACCES);
  // Once the new file has been opened as the export, it is protected under all its names.
  EXPECT_TRUE((*exports)->open("s", "iso", AccessMode::read_only));
  std::filesystem::create_hard_link(path, directory / "new-alias.iso");
  EXPECT_EQ((*exports)->open("s", "new-alias.iso", AccessMode::read_write).error().error, EACCES);
}

TEST(Catalog, CheckOpensForWritingUnlessReadOnly) {
  TestDirectory directory;
  const std::string path = directory.make_file("a.img", kMiB);
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  if (::access(path.c_str(), W_OK) == 0) GTEST_SKIP() << "this user may write to files of mode 0444 (root)";
  const auto problems = (*Catalog::create({{"a", path}}, std::nullopt))->check(Catalog::CheckLocks::ask);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].why.error, EACCES);
  EXPECT_NE(problems[0].why.sentence.find("cannot be opened for writing"), std::string::npos);
  EXPECT_NE(problems[0].why.sentence.find(",ro"), std::string::npos);
  EXPECT_TRUE(
      (*Catalog::create({{"a", path, 0, true}}, std::nullopt))->check(Catalog::CheckLocks::ask).empty());
}

TEST(Catalog, ImageIsLockedAgainstOtherServers) {
  TestDirectory directory;
  const std::string path = directory.make_file("a.img", kMiB);
  auto one = std::move(*Catalog::create({{"a", path}}, std::nullopt));
  auto other = std::move(*Catalog::create({{"b", path}}, directory.path()));
  EXPECT_TRUE(other->check(Catalog::CheckLocks::take).empty());
  {
    const auto writer = one->open("s", "a", AccessMode::read_write);
    ASSERT_TRUE(writer);
    EXPECT_TRUE(one->open("t", "a", AccessMode::read_only));
    for (const char* name : {"b", "a.img"})
      EXPECT_EQ(other->open("s", name, AccessMode::read_only).error().error, EBUSY) << name;
    EXPECT_EQ(other->check(Catalog::CheckLocks::take).size(), 1U);
    EXPECT_TRUE(other->check(Catalog::CheckLocks::ask).empty());
    const std::string told = other->warnings().at(0);
    EXPECT_EQ(told.rfind("export \"b\" (\"" + path + "\") is in use by ", 0), 0U) << told;
    EXPECT_TRUE(one->open("u", "a", AccessMode::migration)) << "the check did not take the lock";
  }
  EXPECT_TRUE(other->open("s", "b", AccessMode::read_write));
  EXPECT_TRUE(other->access().empty());
}

TEST(Catalog, OpensOfOneDeviceShareItsSlots) {
  TestDirectory directory;
  auto exports =
      Catalog::create({{"a", directory.make_file("a.img", kMiB)}, {"ram", "", 4096}}, directory.path());
  ASSERT_TRUE(exports);
  const auto writer = (*exports)->open("s", "a", AccessMode::read_write);
  const auto reader = (*exports)->open("t", "a.img", AccessMode::read_only);
  const auto other = (*exports)->open("t", "ram", AccessMode::read_only);
  ASSERT_TRUE(writer && reader && other);
  EXPECT_EQ(&writer->device->share(), &reader->device->share());
  EXPECT_NE(&writer->device->share(), &other->device->share());
  EXPECT_FALSE(writer->device->owns_share());
  EXPECT_TRUE(other->device->owns_share());
}

TEST(Catalog, NamesAreUnique) {
  const auto exports = Catalog::create({{"a", "", 512}, {"/a", "", 512}}, std::nullopt);
  ASSERT_FALSE(exports);
  EXPECT_EQ(exports.error().error, EEXIST);
}

TEST(OpenError, QuotedTextCannotForgeLines) {
  EXPECT_EQ(in_quotes("a\n\"b\\\x7f"), "\"a\\x0a\\\"b\\\\\\x7f\"");
  EXPECT_EQ(in_quotes(std::string(300, 'x')), "\"" + std::string(200, 'x') + "...\"");
}

}  // namespace
}  // namespace rtrs::daemon::export_test
