#include "tools/urtrs-mapd/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "tools/lib/control/plugin/start_log.hpp"

namespace rtrs::mapd {

namespace {

constexpr std::string_view kLockPrefix = "map-";
constexpr std::string_view kLockSuffix = ".lock";

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::string failed(const std::string& what, int error) {
  return fmt::format("{}: {} (errno {})", what, std::strerror(error), error);
}

int open_lock(const std::string& file) {
  return ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

int pidfd_of(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

// Called between fork and exec, so it must not allocate memory or take a lock.
void write_number(int fd, pid_t number) {
  std::array<char, 24> text;
  char* at = text.data() + text.size();
  *--at = '\n';
  do *--at = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  [[maybe_unused]] const ssize_t written =
      ::pwrite(fd, at, static_cast<std::size_t>(text.data() + text.size() - at), 0);
}

// Closes the descriptors of this program at exec, because the new program may outlive this one.
void close_on_exec() {
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  constexpr int kMaxDescriptors = 65536;  // used by kernels before 5.11, which lack CLOSE_RANGE_CLOEXEC
  for (int fd = 3; fd < kMaxDescriptors; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void tell(int report, int number) {
  [[maybe_unused]] const ssize_t told = ::write(report, &number, sizeof(number));
}

// Waits until the parent has exited and init is the parent. nbdkit -f ends when its parent ends, so this is
// necessary before nbdkit is executed.
void outlive(pid_t parent) {
  const timespec pause{0, 1'000'000};
  while (::getppid() == parent) ::nanosleep(&pause, nullptr);
}

// Descriptors and environment of the new process.
struct Inheritance {
  int lock = -1;
  int said = -1;  // becomes standard output and standard error of the new process
  int log = -1;   // log of this process, for use after the start
  std::vector<char*> environment;
};

[[noreturn]] void become(char* const* command, const Inheritance& has, int report) {
  ::setsid();
  close_on_exec();
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) tell(report, errno);
  if (child != 0) ::_exit(0);
  outlive(parent);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(has.said, STDERR_FILENO);
  ::dup2(has.said, STDOUT_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  write_number(has.lock, ::getpid());
  ::fcntl(has.lock, F_SETFD, 0);  // the new program inherits the descriptor and thus keeps the lock
  ::fcntl(has.log, F_SETFD, 0);
  ::execvpe(command[0], command, has.environment.data());
  tell(report, errno);
  ::_exit(127);
}

// Starts the command. The new process inherits the lock. Returns 0 or an errno.
int spawn(const std::vector<std::string>& command, int lock, int said) {
  std::array<int, 2> ends{-1, -1};
  if (::ftruncate(lock, 0) != 0 || ::pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  const Descriptor log(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (log.get() < 0) return errno;
  std::string variable = fmt::format("{}={}", plugin::kLogVariable, log.get());
  Inheritance has{lock, said, log.get(), {}};
  for (char** one = environ; *one != nullptr; ++one) has.environment.push_back(*one);
  has.environment.push_back(variable.data());
  has.environment.push_back(nullptr);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) return errno;
  if (pid == 0) become(words.data(), has, write_end.get());
  ::close(write_end.release());
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  int error = 0;
  // A successful exec closes the pipe, so read() returns 0.
  while (::read(read_end.get(), &error, sizeof(error)) < 0 && errno == EINTR) continue;
  return error;
}

// Copies output of the process to standard error, and keeps the last bytes in `tail`. Returns false at the
// end of the stream.
bool pass_on(int said, std::string& tail) {
  constexpr std::size_t kTail = 4096;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t got = ::read(said, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    const auto size = static_cast<std::size_t>(got);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, piece.data(), size);
    tail.append(piece.data(), size);
    if (tail.size() > kTail) tail.erase(0, tail.size() - kTail);
  }
}

// Returns the last line that contains "error: ", without that prefix; if there is none, the last line.
std::string error_in(const std::string& tail) {
  constexpr std::string_view kError = "error: ";
  std::string last;
  std::string last_error;
  std::istringstream lines(tail);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    last = line;
    if (const std::size_t at = line.find(kError); at != std::string::npos)
      last_error = line.substr(at + kError.size());
  }
  return last_error.empty() ? last : last_error;
}

pid_t number_in(int fd) {
  std::array<char, 24> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  pid_t pid = 0;
  if (got > 0) std::from_chars(text.data(), text.data() + got, pid);
  return pid;
}

}  // namespace

SessionFiles::SessionFiles(const std::string& folder, const std::string& session)
    : lock(fmt::format("{}/{}{}{}", folder, kLockPrefix, session, kLockSuffix)),
      nbd(fmt::format("{}/nbd-{}.sock", folder, session)),
      control(fmt::format("{}/client-map-{}.sock", folder, session)) {}

void SessionFiles::remove() const {
  const Descriptor held(::open(lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (held.get() >= 0 && ::flock(held.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return;
  for (const std::string* file : {&nbd, &control, &lock}) ::unlink(file->c_str());
}

std::vector<std::string> sessions_with_locks(const std::string& folder) {
  std::vector<std::string> sessions;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::string name = entry.path().filename();
    if (name.size() <= kLockPrefix.size() + kLockSuffix.size() || !name.starts_with(kLockPrefix) ||
        !name.ends_with(kLockSuffix))
      continue;
    name.erase(name.size() - kLockSuffix.size());
    sessions.push_back(name.substr(kLockPrefix.size()));
  }
  std::sort(sessions.begin(), sessions.end());
  return sessions;
}

Process::Process(boost::asio::io_context& context, pid_t pid, int pidfd, Gone gone)
    : pid_(pid), end_(context, pidfd) {
  watch(std::move(gone));
}

void Process::watch(Gone gone) {
  end_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                  [gone = std::move(gone)](const boost::system::error_code& error) {
                    if (!error) gone();
                  });
}

struct Process::Said {
  Said(const boost::asio::any_io_executor& executor, int fd) : end(executor, fd) {}
  boost::asio::posix::stream_descriptor end;  // closed when the stream ends
  std::string tail;

  void take() {
    if (end.is_open() && !pass_on(end.native_handle(), tail)) end.close();
  }
  // `said` is shared, because the handler may run after the Process was destroyed.
  static void hear(const std::shared_ptr<Said>& said) {
    if (!said->end.is_open()) return;
    said->end.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                         [said](const boost::system::error_code& error) {
                           if (error) return;
                           said->take();
                           hear(said);
                         });
  }
};

Process::~Process() {
  if (said_ && said_->end.is_open()) said_->end.close();
}

void Process::listen(int said) {
  said_ = std::make_shared<Said>(end_.get_executor(), said);
  Said::hear(said_);
}

std::string Process::last_error() {
  if (!said_) return {};
  said_->take();
  return error_in(said_->tail);
}

void Process::signal(int number) const {
  // Uses the pidfd instead of kill(), because a different process may have the process id by now.
  ::syscall(SYS_pidfd_send_signal, const_cast<boost::asio::posix::stream_descriptor&>(end_).native_handle(),
            number, nullptr, 0);
}

std::vector<std::string> Process::command() const {
  std::ifstream words(fmt::format("/proc/{}/cmdline", pid_));
  std::vector<std::string> command;
  for (std::string word; std::getline(words, word, '\0');) command.push_back(std::move(word));
  return command;
}

tl::expected<std::unique_ptr<Process>, std::string> Process::start(boost::asio::io_context& context,
                                                                   const SessionFiles& files,
                                                                   const std::vector<std::string>& command,
                                                                   Gone gone) {
  std::array<int, 2> said{-1, -1};
  if (::pipe2(said.data(), O_CLOEXEC) != 0) return tl::unexpected(failed("cannot make a pipe", errno));
  Descriptor listens(said[0]);
  ::fcntl(listens.get(), F_SETFL, O_NONBLOCK);
  {
    const Descriptor speaks(said[1]);
    const Descriptor lock(open_lock(files.lock));
    if (lock.get() < 0) return tl::unexpected(failed(fmt::format("cannot open \"{}\"", files.lock), errno));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return tl::unexpected(
          fmt::format("a process of this session runs already and holds \"{}\"", files.lock));
    // The sockets belonged to a process that was killed. No process listens on them now, because none holds
    // the lock.
    for (const std::string* socket : {&files.nbd, &files.control}) ::unlink(socket->c_str());
    if (const int error = spawn(command, lock.get(), speaks.get()); error != 0)
      return tl::unexpected(failed(fmt::format("cannot run {}", command[0]), error));
  }
  auto process = adopt(context, files, std::move(gone));
  if (process && *process != nullptr) (*process)->listen(listens.release());
  if (process && *process == nullptr) {
    std::string tail;
    pass_on(listens.get(), tail);
    const std::string why = error_in(tail);
    return tl::unexpected(why.empty() ? fmt::format("{} has ended at once", command[0]) : why);
  }
  return process;
}

tl::expected<std::unique_ptr<Process>, std::string> Process::adopt(boost::asio::io_context& context,
                                                                   const SessionFiles& files, Gone gone) {
  const Descriptor lock(::open(files.lock.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (lock.get() < 0 && errno == ENOENT) return nullptr;
  if (lock.get() < 0) return tl::unexpected(failed(fmt::format("cannot open \"{}\"", files.lock), errno));
  // Retries, because a process that was just started may not have written its process id yet.
  for (int attempt = 0; attempt < 25; ++attempt) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      ::flock(lock.get(), LOCK_UN);
      return nullptr;
    }
    const pid_t pid = number_in(lock.get());
    Descriptor pidfd(pid > 1 ? pidfd_of(pid) : -1);
    // The lock was held before the pidfd was opened and is still held, so `pid` is the process that holds it.
    if (pidfd.get() >= 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
      return std::unique_ptr<Process>(new Process(context, pid, pidfd.release(), std::move(gone)));
    ::flock(lock.get(), LOCK_UN);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return tl::unexpected(fmt::format("an unknown process holds the lock \"{}\"; \"fuser {}\" shows which",
                                    files.lock, files.lock));
}

}  // namespace rtrs::mapd
