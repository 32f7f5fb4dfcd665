// One pending completion handler of any type, kept in place: no allocation an operation. The handler leaves
// its slot before it runs, so that it may start the next operation.
#pragma once
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "core/base/assert.hpp"

namespace rtrs::asio {

class HandlerSlot {
 public:
  static constexpr std::size_t kBytes = 256;

  HandlerSlot() = default;
  HandlerSlot(const HandlerSlot&) = delete;
  HandlerSlot& operator=(const HandlerSlot&) = delete;
  ~HandlerSlot() {
    if (call_ != nullptr) call_(*this, nullptr);
  }
  bool empty() const noexcept { return call_ == nullptr; }

  // `executor`: where the handler runs unless it has an associated executor.
  template <class Executor, class Handler>
  void store(const Executor& executor, Handler&& handler) {
    using Stored = Item<Executor, std::decay_t<Handler>>;
    static_assert(sizeof(Stored) <= kBytes, "capture less in the handler, or capture a pointer");
    RTRS_ASSERT(empty());
    ::new (static_cast<void*>(bytes_)) Stored{executor, std::forward<Handler>(handler)};
    call_ = [](HandlerSlot& slot, const boost::system::error_code* error) {
      Stored* stored = std::launder(reinterpret_cast<Stored*>(slot.bytes_));
      Stored local(std::move(*stored));
      stored->~Stored();
      slot.call_ = nullptr;
      if (error == nullptr) return;
      const auto target = boost::asio::get_associated_executor(local.handler, local.executor);
      boost::asio::dispatch(target, [handler = std::move(local.handler), code = *error]() mutable {
        std::move(handler)(code);
      });
    };
  }
  void complete(const boost::system::error_code& error) { call_(*this, &error); }

 private:
  template <class Executor, class Handler>
  struct Item {
    Executor executor;
    Handler handler;
  };
  alignas(std::max_align_t) std::byte bytes_[kBytes];
  void (*call_)(HandlerSlot&, const boost::system::error_code*) = nullptr;
};

}  // namespace rtrs::asio
