#include "tools/urtrsd/storage/nbd_disk.hpp"

#include <libnbd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "tools/urtrsd/storage/block_limits.hpp"

namespace rtrs::daemon {
namespace {

constexpr Nanos kConnectPatience = 10'000'000'000;

Nanos steady_now() {
  return static_cast<Nanos>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

int milliseconds_until(Nanos then, Nanos now) {
  return then <= now ? 0 : static_cast<int>((then - now) / 1'000'000 + 1);
}

// Sets keepalive and timeouts of the socket, so that the connection ends within 20 s after the link fails. No
// effect on a Unix socket.
void bound_silence(int fd) {
  const int on = 1;
  const int seconds = 5;
  const int probes = 3;
  const unsigned unanswered_ms = 20'000;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

// Returns the last error of libnbd. Removes the names of libnbd functions at its start, which do not help an
// administrator.
std::string last_error() {
  const char* said = nbd_get_error();
  std::string text = said == nullptr ? "no reason was given" : said;
  for (std::size_t at = text.find(": "); at != std::string::npos && text.rfind("nbd_", 0) == 0;
       at = text.find(": "))
    text.erase(0, at + 2);
  return text;
}

bool writes(OpStep step) {
  return step == OpStep::write || step == OpStep::write_zero_bytes;
}
bool changes(OpStep step) {
  return writes(step) || step == OpStep::punch_hole || step == OpStep::zero_range;
}

}  // namespace

NbdDisk::NbdDisk(std::string uri, std::string described, Tell tell, const Options& options)
    : uri_(std::move(uri)),
      described_(std::move(described)),
      tell_(std::move(tell)),
      wait_(options.wait),
      waits_(options.wait != 0),
      link_(options.wait) {
  link_.inherit(options.losses);
}

tl::expected<std::shared_ptr<NbdDisk>, OpenError> NbdDisk::connect(const std::string& uri,
                                                                   std::string described, Tell tell,
                                                                   const Options& options) {
  std::shared_ptr<NbdDisk> disk(new NbdDisk(uri, std::move(described), std::move(tell), options));
  if (disk->wake_.fd() < 0) return refuse(EMFILE, disk->described_ + ": " + errno_text(EMFILE));
  const std::string why = disk->connect_once();
  if (!why.empty())
    return refuse(disk->known_ ? EINVAL : ENODEV, disk->described_ + " cannot be used: " + why);
  disk->publish();
  disk->thread_ = std::thread([raw = disk.get()] { raw->run(); });
  return disk;
}

NbdDisk::~NbdDisk() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  wake_.signal();
  if (thread_.joinable()) thread_.join();
  if (handle_ != nullptr && link_.is_up()) nbd_aio_disconnect(handle_, 0);
  nbd_close(handle_);
}

void NbdDisk::stop_waiting() noexcept {
  waits_.store(false, std::memory_order_relaxed);
  wake_.signal();
}

void NbdDisk::submit(NbdCommand& command) noexcept {
  command.wait_until = 0;
  {
    const std::lock_guard guard(mutex_);
    submitted_.push(command);
  }
  wake_.signal();
}

// --- connecting ---

std::string NbdDisk::connect_once() {
  handle_ = nbd_create();
  if (handle_ == nullptr) return last_error();
  nbd_set_uri_allow_local_file(handle_, true);  // the administrator wrote the URI, so it may name local files
  std::string why = nbd_aio_connect_uri(handle_, uri_.c_str()) < 0 ? last_error() : await_connection();
  if (why.empty()) why = learn();
  if (why.empty()) {
    bound_silence(nbd_aio_get_fd(handle_));
    link_.connected();
    gave_up_ = false;
    told_wait_is_over_ = false;
    told_.clear();
    return why;
  }
  nbd_close(handle_);
  handle_ = nullptr;
  link_.lost(steady_now());
  return why;
}

std::string NbdDisk::await_connection() {
  const Nanos end = steady_now() + kConnectPatience;
  while (nbd_aio_is_connecting(handle_) != 0) {
    const Nanos now = steady_now();
    if (now >= end) return "the server does not answer";
    if (thread_.joinable()) {
      take_submitted();
      fail_overdue(now);
    }
    {
      const std::lock_guard guard(mutex_);
      if (stopping_) return "it is closed";
    }
    wait(milliseconds_until(std::min(end, held_until_), now));
  }
  return nbd_aio_is_ready(handle_) != 0 ? std::string() : last_error();
}

// Reads the properties of the disk. Returns "" if the disk can be used, otherwise an error text.
std::string NbdDisk::learn() {
  Facts facts;
  const std::int64_t size = nbd_get_size(handle_);
  // libnbd returns a size of 2^63 bytes or more as a negative number and sets no error text.
  if (size < 0)
    return nbd_get_error() == nullptr ? "its server reports a size of 2^63 bytes or more" : last_error();
  facts.size = static_cast<std::uint64_t>(size);
  facts.block = static_cast<std::uint64_t>(
      std::max<std::int64_t>(nbd_get_block_size(handle_, LIBNBD_SIZE_MINIMUM), 512));
  facts.preferred = static_cast<std::uint64_t>(
      std::max<std::int64_t>(nbd_get_block_size(handle_, LIBNBD_SIZE_PREFERRED), 512));
  facts.read_only = nbd_is_read_only(handle_) > 0;
  facts.flush = nbd_can_flush(handle_) > 0;
  facts.fua = nbd_can_fua(handle_) > 0;
  facts.trim = nbd_can_trim(handle_) > 0;
  facts.zero = nbd_can_zero(handle_) > 0;
  if (!known_) {
    known_ = true;
    facts_ = facts;
    size_ = facts.size;
    geometry_ =
        nbd_geometry({facts.size, facts.block, facts.preferred, facts.flush, facts.trim}, !facts.read_only);
    return facts.block > 32768 ? "its smallest block has " + std::to_string(facts.block) +
                                     " bytes, at most 32768 can be exported"
                               : std::string();
  }
  const bool same = facts.block == facts_.block && facts.read_only == facts_.read_only &&
                    facts.flush == facts_.flush && facts.fua == facts_.fua && facts.trim == facts_.trim &&
                    facts.zero == facts_.zero;
  if (!same || facts.size < size_)
    return "its server now has a different or smaller disk; to use it, close the export in all sessions "
           "(urtrs device close)";
  size_ = facts.size;
  return {};
}

// libnbd has completed all commands before this is called.
void NbdDisk::drop() {
  const std::string why =
      gave_up_ ? "no reply for " + std::to_string(NbdLink::kAnswerPatience / 1'000'000'000) + " s"
      : nbd_aio_is_closed(handle_) != 0 ? "it closed the connection"
                                        : last_error();
  finish_ended();
  nbd_close(handle_);
  handle_ = nullptr;
  told_ = why;
  tell_(described_ + ": its NBD server is lost: " + why +
        (waits_.load(std::memory_order_relaxed)
             ? "; IO waits for up to " + std::to_string(wait_ / 1'000'000'000) + " s (nbd_wait)"
             : "; IO fails until it is back") +
        "; urtrsd reconnects every second");
}

// Breaks the connection. libnbd then completes all commands.
void NbdDisk::give_up() {
  gave_up_ = true;
  ::shutdown(nbd_aio_get_fd(handle_), SHUT_RDWR);
}

// --- the thread ---

void NbdDisk::run() {
  while (true) {
    take_submitted();
    {
      const std::lock_guard guard(mutex_);
      if (stopping_) return;
    }
    const Nanos now = steady_now();
    fail_overdue(now);
    if (handle_ == nullptr && link_.next_attempt() <= now) {
      const std::string why = connect_once();
      publish();
      if (why.empty()) {
        tell_(described_ + ": its NBD server is back" +
              (link_.losses().reported ? ""
                                       : "; it may have lost writes that were not flushed, so the next flush "
                                         "of each open device fails once (EIO)"));
        send_held();
      } else if (why != told_) {
        told_ = why;
        tell_(described_ + ": its NBD server cannot be used: " + why);
      }
      continue;
    }
    if (link_.lost_at() <= now && !gave_up_) give_up();
    if (handle_ == nullptr || link_.is_up()) wait(wait_ms(now));
    finish_ended();
    if (handle_ != nullptr && !link_.is_up()) drop();
    publish();
  }
}

void NbdDisk::publish() noexcept {
  owes_flush_.store(link_.owes_flush(), std::memory_order_relaxed);
  losses_.store(2 * link_.losses().count + (link_.losses().reported ? 0 : 1), std::memory_order_release);
  up_.store(link_.is_up(),
            // Stored last: a thread that sees the server as lost also sees the recorded loss.
            std::memory_order_release);
}

int NbdDisk::wait_ms(Nanos now) const {
  const Nanos event = handle_ == nullptr ? link_.next_attempt() : gave_up_ ? kNever : link_.lost_at();
  const Nanos next = std::min(event, held_until_);
  return next == kNever ? -1 : milliseconds_until(next, now);
}

// Waits until a command is submitted, the connection has an event, or the timeout expires.
void NbdDisk::wait(int timeout_ms) {
  std::array<pollfd, 2> fds{pollfd{wake_.fd(), POLLIN, 0}, pollfd{-1, 0, 0}};
  if (handle_ != nullptr) {
    const unsigned direction = nbd_aio_get_direction(handle_);
    fds[1].fd = nbd_aio_get_fd(handle_);
    if ((direction & LIBNBD_AIO_DIRECTION_READ) != 0) fds[1].events |= POLLIN;
    if ((direction & LIBNBD_AIO_DIRECTION_WRITE) != 0) fds[1].events |= POLLOUT;
  }
  if (::poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
  if (fds[0].revents != 0) wake_.clear();
  const unsigned direction = handle_ != nullptr ? nbd_aio_get_direction(handle_) : 0;
  if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && (direction & LIBNBD_AIO_DIRECTION_READ) != 0)
    nbd_aio_notify_read(handle_);
  else if ((fds[1].revents & (POLLOUT | POLLHUP | POLLERR)) != 0 &&
           (direction & LIBNBD_AIO_DIRECTION_WRITE) != 0)
    nbd_aio_notify_write(handle_);
}

void NbdDisk::take_submitted() {
  NbdCommands taken;
  {
    const std::lock_guard guard(mutex_);
    taken = std::exchange(submitted_, {});
  }
  while (NbdCommand* command = taken.pop()) {
    command->seen_at_begin = *command->seen;
    begin(*command);
  }
  finish_ended();
}

void NbdDisk::begin(NbdCommand& command) {
  command.disk = this;
  command.flushing = command.lost_changes = false;
  const bool zeroes = command.opcode == Opcode::write_zeroes;
  if (!link_.is_up()) return hold(command, steady_now());
  if (command.step == OpStep::sync_data && link_.take_loss(*command.seen, command.seen_at_begin))
    return finish(command, -EIO);
  if (command.step == OpStep::sync_data && !facts_.flush) return finish(command, 0);
  const bool ranged = command.step == OpStep::punch_hole || command.step == OpStep::zero_range;
  if (ranged && !(zeroes ? facts_.zero : facts_.trim)) return finish(command, -EOPNOTSUPP);
  if (post(command, command.step)) return;
  if (is_alive()) return finish(command, -EIO);
  if (link_.is_up()) link_.lost(steady_now());
  hold(command, steady_now());
}

// --- commands in flight ---

bool NbdDisk::post(NbdCommand& command, OpStep step) {
  const nbd_completion_callback done{&NbdDisk::completed, &command, nullptr};
  const std::uint32_t fua = command.fua && facts_.fua ? LIBNBD_CMD_FLAG_FUA : 0;
  command.changes = link_.changes();
  std::int64_t cookie = -1;
  switch (step) {
    case OpStep::read:
      cookie = nbd_aio_pread(handle_, command.buffer, command.length, command.offset, done, 0);
      break;
    case OpStep::write:
    case OpStep::write_zero_bytes:
      cookie = nbd_aio_pwrite(handle_, command.buffer, command.length, command.offset, done, fua);
      break;
    case OpStep::punch_hole:
    case OpStep::zero_range:
      if (command.opcode == Opcode::discard)
        cookie = nbd_aio_trim(handle_, command.length, command.offset, done, 0);
      else
        cookie = nbd_aio_zero(handle_, command.length, command.offset, done,
                              step == OpStep::zero_range ? LIBNBD_CMD_FLAG_NO_HOLE : 0);
      break;
    case OpStep::sync_data:
    case OpStep::done:  // not reached, because finished operations are not submitted
      cookie = nbd_aio_flush(handle_, done, 0);
      break;
  }
  if (cookie >= 0) link_.asked(steady_now());
  return cookie >= 0;
}

// Callback of libnbd, which must not call functions of libnbd.
int NbdDisk::completed(void* data, int* error) {
  auto* const command = static_cast<NbdCommand*>(data);
  command->result = -*error;
  command->disk->ended_.push(*command);
  return 1;
}

bool NbdDisk::is_alive() const noexcept {
  return handle_ != nullptr && (nbd_aio_is_ready(handle_) != 0 || nbd_aio_is_processing(handle_) != 0);
}

void NbdDisk::finish_ended() {
  if (link_.is_up() && !is_alive()) link_.lost(steady_now());
  while (NbdCommand* command = ended_.pop()) end(*command);
}

void NbdDisk::end(NbdCommand& command) {
  link_.answered(steady_now());
  const bool flush = command.flushing || command.step == OpStep::sync_data;
  if (command.result < 0 && !link_.is_up()) return hold(command, steady_now());
  if (command.result < 0) {
    command.lost_changes = flush || command.fua;  // the failure may also concern earlier writes
    return finish(command, command.result);
  }
  if (flush) link_.flushed(command.changes);
  if (!command.flushing && changes(command.step)) link_.changed();
  const bool has_to_flush = command.fua && !facts_.fua && facts_.flush && !flush && writes(command.step);
  if (has_to_flush) {
    command.flushing = true;
    if (post(command, OpStep::sync_data)) return;
    if (is_alive()) return finish(command, -EIO);
    if (link_.is_up()) link_.lost(steady_now());
    return hold(command, steady_now());
  }
  const bool transfers = command.step == OpStep::read || writes(command.step);
  finish(command, transfers ? static_cast<std::int32_t>(command.length) : 0);
}

void NbdDisk::finish(NbdCommand& command, std::int32_t result) noexcept {
  command.result = result;
  publish();
  command.results->put(command);
}

}  // namespace rtrs::daemon
