#include "tools/urtrsd/storage/nbd_disk.hpp"

#include <algorithm>
#include <array>

namespace rtrs::daemon {

bool NbdDisk::is_uri(std::string_view source) noexcept {
  constexpr std::array<std::string_view, 5> kSchemes{"nbd://", "nbds://", "nbd+unix://", "nbds+unix://",
                                                     "nbd+vsock://"};
  return std::any_of(kSchemes.begin(), kSchemes.end(),
                     [source](std::string_view scheme) { return source.substr(0, scheme.size()) == scheme; });
}

NbdLink::Losses NbdDisk::losses() const noexcept {
  const std::uint64_t both = losses_.load(std::memory_order_acquire);
  return {both / 2, both % 2 == 0};
}

void NbdCommands::push(NbdCommand& command) noexcept {
  command.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &command;
  last_ = &command;
}

NbdCommand* NbdCommands::pop() noexcept {
  NbdCommand* const command = first_;
  if (command != nullptr) first_ = command->next;
  return command;
}

void NbdResults::put(NbdCommand& command) noexcept {
  const std::lock_guard guard(mutex_);
  const bool first = done_.empty();
  done_.push(command);
  some_.store(true, std::memory_order_release);
  if (first) event_.signal();
}

NbdCommand* NbdResults::take() noexcept {
  const std::lock_guard guard(mutex_);
  NbdCommand* const command = done_.pop();
  if (done_.empty()) {
    some_.store(false, std::memory_order_release);
    event_.clear();
  }
  return command;
}

}  // namespace rtrs::daemon
