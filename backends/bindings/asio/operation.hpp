// One pending asynchronous operation: stores its completion handler from the initiation to the completion,
// following the Boost.Asio rules for asynchronous operations.
//  * Work guards for the executor of the IO object and for the handler's associated executor.
//  * A handler of at most kInPlace bytes is kept in place. A larger one is kept in memory of its associated
//    allocator, by default Asio's recycling allocator. That memory is free again before the handler runs.
//  * The associated cancellation slot, if connected, is served while the operation is pending.
//  * Destroying a pending operation posts its handler with operation_aborted. When the execution context is
//    destroyed first, the handler is destroyed with it and does not run, as for Asio's own operations.
// Not thread-safe: everything but the handler belongs to the thread that runs the io_context.
#pragma once
#include <boost/asio/append.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"

namespace rtrs::asio {

class Operation;

// Pending operations of an execution context; their handlers are destroyed with the context.
class PendingOperations : public boost::asio::execution_context::service {
 public:
  static inline boost::asio::execution_context::id id;
  explicit PendingOperations(boost::asio::execution_context& context) : service(context) {}

 private:
  friend class Operation;
  void shutdown() override;
  Operation* first_ = nullptr;
};

class Operation {
 public:
  using Error = boost::system::error_code;
  using IoExecutor = boost::asio::io_context::executor_type;
  static constexpr std::size_t kInPlace = 256;  // size in bytes for handler, executors and work guards

  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { abort(); }

  bool empty() const noexcept { return end_ == nullptr; }

  // Starts the operation. `pending` must be the service of the execution context of `executor`.
  // `on_cancel(type)` is called if the handler's cancellation slot is signalled while the operation is
  // pending; it may end the operation with abort().
  template <class Handler, class OnCancel>
  void begin(PendingOperations& pending, const IoExecutor& executor, Handler&& handler, OnCancel on_cancel) {
    using Item = Kept<std::decay_t<Handler>>;
    Item* kept = keep<Item>(handler, executor, std::forward<Handler>(handler));
    link(pending);
    auto slot = boost::asio::get_associated_cancellation_slot(kept->handler);
    // Copies `on_cancel`, because `on_cancel` may call abort(), which destroys the handler of the slot that
    // holds it.
    if (slot.is_connected())
      slot.assign([on_cancel](boost::asio::cancellation_type_t type) {
        const OnCancel copy = on_cancel;
        copy(type);
      });
  }
  // Call only from the event loop: the handler runs inside the call if its executor allows that, and may
  // destroy this operation.
  void complete(const Error& error) { end_(*this, End::dispatch, error); }
  // Callable from anywhere: the handler runs later through the io_context.
  void complete_later(const Error& error) { end_(*this, End::post, error); }
  void abort() {
    if (!empty()) complete_later(boost::asio::error::operation_aborted);
  }
  // Destroys the handler.
  void drop() {
    if (!empty()) end_(*this, End::drop, {});
  }

 private:
  enum class End { dispatch, post, drop };

  template <class Handler>
  struct Kept {
    using Guard = boost::asio::executor_work_guard<boost::asio::associated_executor_t<Handler, IoExecutor>>;
    using IoGuard = boost::asio::executor_work_guard<IoExecutor>;

    template <class From>
    Kept(const IoExecutor& executor, From&& from)
        : handler(std::forward<From>(from)),
          io_work(executor),
          work(boost::asio::get_associated_executor(handler, executor)) {}
    void forget(Operation& operation) noexcept {
      operation.unlink();
      auto slot = boost::asio::get_associated_cancellation_slot(handler);
      if (slot.is_connected()) slot.clear();
    }
    void end(End how, const Error& error) {
      if (how == End::dispatch)
        boost::asio::dispatch(work.get_executor(), Call<Handler>{std::move(handler), error});
      else if (how == End::post)
        boost::asio::post(io_work.get_executor(), boost::asio::append(std::move(handler), error));
    }
    Handler handler;
    IoGuard io_work;
    Guard work;
  };
  // Calls the handler with its error. Has no associated executor, because the caller passes one to
  // dispatch().
  template <class Handler>
  struct Call {
    using allocator_type = boost::asio::associated_allocator_t<Handler>;
    allocator_type get_allocator() const noexcept { return boost::asio::get_associated_allocator(handler); }
    void operator()() { std::move(handler)(error); }
    Handler handler;
    Error error;
  };

  template <class Item>
  static constexpr bool fits = sizeof(Item) <= kInPlace && alignof(Item) <= alignof(std::max_align_t);

  template <class Item, class Handler>
  static auto allocator_for(const Handler& handler) {
    auto of_handler =
        boost::asio::get_associated_allocator(handler, boost::asio::recycling_allocator<void>());
    return typename std::allocator_traits<decltype(of_handler)>::template rebind_alloc<Item>(of_handler);
  }

  template <class Item, class Handler, class... Args>
  Item* keep(const Handler& handler, Args&&... args) {
    RTRS_ASSERT(empty());
    Item* kept = nullptr;
    if constexpr (fits<Item>) {
      kept = ::new (static_cast<void*>(bytes_)) Item(std::forward<Args>(args)...);
    } else {
      auto allocator = allocator_for<Item>(handler);
      const auto give_back = [&allocator](Item* memory) { allocator.deallocate(memory, 1); };
      std::unique_ptr<Item, decltype(give_back)> memory(allocator.allocate(1), give_back);
      kept = ::new (static_cast<void*>(memory.get())) Item(std::forward<Args>(args)...);
      large_ = memory.release();
    }
    end_ = &end<Item>;
    return kept;
  }

  template <class Item>
  static void end(Operation& operation, End how, const Error& given) {
    Item* kept = nullptr;
    if constexpr (fits<Item>)
      kept = std::launder(reinterpret_cast<Item*>(operation.bytes_));
    else
      kept = static_cast<Item*>(operation.large_);
    // Copies the error, because destroying the handler may destroy `given`.
    const Error error = given;
    kept->forget(operation);
    Item local(std::move(*kept));
    kept->~Item();
    if constexpr (!fits<Item>) {
      auto allocator = allocator_for<Item>(local.handler);
      allocator.deallocate(kept, 1);
    }
    operation.end_ = nullptr;
    local.end(how, error);
  }

  void link(PendingOperations& pending) noexcept {
    previous_ = &pending.first_;
    next_ = pending.first_;
    if (next_ != nullptr) next_->previous_ = &next_;
    pending.first_ = this;
  }
  void unlink() noexcept {
    *previous_ = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }

  void (*end_)(Operation&, End, const Error&) = nullptr;
  // List of the pending operations of the context: `previous_` points to the pointer that refers to this
  // operation, `next_` to the next operation.
  Operation** previous_ = nullptr;
  Operation* next_ = nullptr;
  union {
    alignas(std::max_align_t) std::byte bytes_[kInPlace];
    void* large_;
  };
};

// Table of operations of one kind, addressed by index.
class OperationTable {
 public:
  // Returns an unused operation, which stays unused until take() returns its index.
  Operation& next() {
    if (free_.empty()) {
      operations_.push_back(std::make_unique<Operation>());
      free_.reserve(operations_.capacity());
      free_.push_back(static_cast<std::uint32_t>(operations_.size() - 1));
    }
    return *operations_[free_.back()];
  }
  std::uint32_t take() {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  // Like Operation::complete(); the index is free before the handler runs.
  void complete(std::uint32_t index, const boost::system::error_code& error) {
    free_.push_back(index);
    operations_[index]->complete(error);
  }

 private:
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<std::uint32_t> free_;
};

inline void PendingOperations::shutdown() {
  while (first_ != nullptr) first_->drop();
}

}  // namespace rtrs::asio
