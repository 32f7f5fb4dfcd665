// Starts the asynchronous operations of an IO object for any completion token.
#pragma once
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/system/error_code.hpp>
#include <utility>

#include "backends/bindings/asio/operation.hpp"

namespace rtrs::asio {

// Initiation function object: `start(object, handler, arguments...)`. Provides the object's executor, which
// some tokens use.
template <class Object, class Start>
class Initiation {
 public:
  using executor_type = typename Object::executor_type;

  Initiation(Object& object, Start start) : object_(&object), start_(std::move(start)) {}
  executor_type get_executor() const noexcept { return object_->get_executor(); }

  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, Arguments&&... arguments) const {
    start_(*object_, std::forward<Handler>(handler), std::forward<Arguments>(arguments)...);
  }

 private:
  Object* object_;
  Start start_;
};

// Lazy tokens (deferred, use_awaitable) keep copies of the arguments until they start the operation.
template <class Token, class Object, class Start, class... Arguments>
auto initiate(Object& object, Token&& token, Start start, Arguments&&... arguments) {
  return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
      Initiation<Object, Start>(object, std::move(start)), token, std::forward<Arguments>(arguments)...);
}

// Returns true if an operation that already had effects may be cancelled. The cancellation type `total` alone
// permits only a cancellation without effects, so it is ignored.
inline bool allows_effects(boost::asio::cancellation_type_t type) noexcept {
  using boost::asio::cancellation_type;
  return (type & (cancellation_type::terminal | cancellation_type::partial)) != cancellation_type::none;
}

// Starts an operation unless an earlier one is still pending. In that case, completes the new operation with
// `refusal` and returns false.
template <class Handler>
bool begin_single(Operation& operation, PendingOperations& pending, const Operation::IoExecutor& executor,
                  Handler&& handler, const boost::system::error_code& refusal) {
  if (!operation.empty()) {
    Operation refused;
    refused.begin(pending, executor, std::forward<Handler>(handler), [](boost::asio::cancellation_type_t) {});
    refused.complete_later(refusal);
    return false;
  }
  operation.begin(pending, executor, std::forward<Handler>(handler),
                  [&operation](boost::asio::cancellation_type_t type) {
                    if (allows_effects(type)) operation.abort();
                  });
  return true;
}

}  // namespace rtrs::asio
