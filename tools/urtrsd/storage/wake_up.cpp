#include "tools/urtrsd/storage/wake_up.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace rtrs::daemon {

WakeUp::WakeUp() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void WakeUp::signal() noexcept {
  const std::uint64_t one = 1;
  while (::write(event_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void WakeUp::clear() noexcept {
  std::uint64_t count = 0;
  while (::read(event_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace rtrs::daemon
