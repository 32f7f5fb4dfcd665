#include "tools/nbdkit/status_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "backends/platform/address/signals_blocked.hpp"
#include "tools/nbdkit/explain.hpp"

namespace rtrs::nbdkit {
namespace {

// Limit for reading an existing file. A status with 1,000 events and kMaxPaths paths is smaller than 1 MiB.
constexpr off_t kMaxStatus = off_t{16} << 20;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

bool is_regular(int descriptor) {
  struct stat is {};
  return ::fstat(descriptor, &is) == 0 && S_ISREG(is.st_mode);
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t size = ::read(descriptor, part.data(), part.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0 || text.size() > static_cast<std::size_t>(kMaxStatus)) return text;
    text.append(part.data(), static_cast<std::size_t>(size));
  }
}

bool is_a_status(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return false;
  for (const char* field : {"format", "pid", "session", "device", "paths", "latency", "events"})
    if (!json.contains(field)) return false;
  return true;
}

int write_all(int descriptor, const std::string& content) {
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t size = ::write(descriptor, content.data() + done, content.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size == 0 ? EIO : errno;
    done += static_cast<std::size_t>(size);
  }
  return 0;
}

// nbdkit sets its umask to 022, so nbdkit-urtrs passes the umask of the user in an environment variable.
mode_t mask_of_user() {
  const char* const given = std::getenv(kMaskVariable);
  if (given == nullptr) return 0;
  unsigned mask = 0;
  const char* const end = given + std::strlen(given);
  const auto [stop, error] = std::from_chars(given, end, mask, 8);
  return error == std::errc{} && stop == end ? mask & 0777U : 0;
}

}  // namespace

std::string check_status_file(const std::string& file) {
  const std::string name = "status=" + file + ": ";
  struct stat is {};
  if (::lstat(file.c_str(), &is) != 0)
    return errno == ENOENT ? std::string() : name + "cannot look at it: " + errno_words(errno);
  if (!S_ISREG(is.st_mode))
    return name + "exists and is not a regular file; choose a file that the plugin may replace";
  if (is.st_size == 0) return {};
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (in.get() < 0) return name + "exists and cannot be read: " + errno_words(errno);
  if (is.st_size > kMaxStatus || !is_a_status(read_all(in.get())))
    return name + "exists and is not a status file of this plugin; remove it or use another file";
  return {};
}

int replace_file(const std::string& file, const std::string& content) {
  const std::string beside = file + ".new";
  Descriptor out(::open(beside.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                        0666 & ~mask_of_user()));
  // ENXIO means a FIFO without a reader, ELOOP a symbolic link.
  if (out.get() < 0) return errno == ENXIO || errno == ELOOP ? EEXIST : errno;
  if (!is_regular(out.get())) return EEXIST;
  int error = ::ftruncate(out.get(), 0) == 0 ? write_all(out.get(), content) : errno;
  if (::close(out.release()) != 0 && error == 0) error = errno;
  struct stat is {};
  if (error == 0 && ::lstat(file.c_str(), &is) == 0 && !S_ISREG(is.st_mode)) error = EEXIST;
  if (error == 0 && std::rename(beside.c_str(), file.c_str()) != 0) error = errno;
  if (error != 0) std::remove(beside.c_str());
  return error;
}

struct LatestWriter::State {
  Write write;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> next;
  int error = 0;
  bool ending = false;
  bool ended = false;
};

LatestWriter::LatestWriter(Write write, std::chrono::milliseconds patience)
    : state_(std::make_shared<State>()), patience_(patience) {
  state_->write = std::move(write);
  const net::SignalsBlocked blocked;
  std::thread(run, state_).detach();
}

LatestWriter::~LatestWriter() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, patience_, [this] { return state_->ended; });
}

void LatestWriter::put(std::string content) {
  const std::lock_guard lock(state_->mutex);
  state_->next = std::move(content);
  state_->changed.notify_all();
}

int LatestWriter::last_error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

void LatestWriter::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->ending || state->next; });
    if (!state->next) break;
    const std::string content = *std::exchange(state->next, std::nullopt);
    lock.unlock();
    const int error = state->write(content);
    lock.lock();
    state->error = error;
    state->changed.notify_all();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace rtrs::nbdkit
