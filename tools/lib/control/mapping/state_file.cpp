#include "tools/lib/control/mapping/state_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>

#include "tools/lib/control/mapping/state_text.hpp"

namespace rtrs::mapping {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t now = ::write(fd, text.data() + at, text.size() - at);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return errno;
    at += static_cast<std::size_t>(now);
  }
  return 0;
}

class Disk final : public StateDisk {
 public:
  int create(const std::string& file) override {
    remove(file);  // the file may be left over from a process that was killed while it wrote the file
    fd_.emplace(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    return fd_->get() < 0 ? errno : 0;
  }
  int write(const std::string& text) override { return write_all(fd_->get(), text); }
  int sync() override {
    const int error = ::fsync(fd_->get()) != 0 ? errno : 0;
    fd_.reset();
    return error;
  }
  int rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) != 0 ? errno : 0;
  }
  int sync_folder_of(const std::string& file) override {
    const Descriptor folder(::open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return folder.get() < 0 || ::fsync(folder.get()) != 0 ? errno : 0;
  }
  void remove(const std::string& file) override { ::unlink(file.c_str()); }

 private:
  static std::string folder_of(const std::string& file) {
    const std::size_t slash = file.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : file.substr(0, slash);
  }

  std::optional<Descriptor> fd_;
};

}  // namespace

tl::expected<std::string, int> read_state(const std::string& file) {
  // Uses O_NONBLOCK, because opening a pipe would block.
  const Descriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return tl::unexpected(errno);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return tl::unexpected(errno);
  if (!S_ISREG(found.st_mode)) return tl::unexpected(S_ISDIR(found.st_mode) ? EISDIR : EINVAL);
  std::string text;
  std::array<char, 65536> room;
  while (text.size() <= kMaxStateBytes) {
    const ssize_t got = ::read(fd.get(), room.data(), room.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tl::unexpected(errno);
    if (got == 0) return text;
    text.append(room.data(), static_cast<std::size_t>(got));
  }
  return tl::unexpected(EFBIG);
}

bool may_be_state(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  // After a crash, some file systems leave a file that consists of zeros.
  return at == std::string_view::npos || text[at] == '{' ||
         text.find_first_not_of('\0') == std::string_view::npos;
}

int write_state(const std::string& file, const std::string& text, StateDisk& disk) {
  const std::string beside = file + ".new";
  int error = disk.create(beside);
  if (error != 0) return error;
  error = disk.write(text);
  if (const int synced = disk.sync(); error == 0) error = synced;
  if (error == 0) error = disk.rename(beside, file);
  if (error != 0) {
    disk.remove(beside);
    return error;
  }
  // Without this sync, a loss of power can undo the rename.
  return disk.sync_folder_of(file);
}

int write_state(const std::string& file, const std::string& text) {
  Disk disk;
  return write_state(file, text, disk);
}

tl::expected<std::string, int> set_aside(const std::string& file) {
  constexpr int kMostNames = 100;
  for (int number = 1; number <= kMostNames; ++number) {
    const std::string name = file + ".damaged" + (number == 1 ? "" : "-" + std::to_string(number));
    if (::renameat2(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) == 0) return name;
    if (errno != EEXIST) return tl::unexpected(errno);
  }
  return tl::unexpected(EEXIST);
}

}  // namespace rtrs::mapping
