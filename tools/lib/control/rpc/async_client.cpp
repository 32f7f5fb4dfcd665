#include "tools/lib/control/rpc/async_client.hpp"

#include <sys/un.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>

namespace rtrs::rpc {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;

namespace {

// Maximum size of the receive buffer in bytes. No server that programs call in this way sends a longer line.
constexpr std::size_t kMaxBuffered = std::size_t{4} << 20;

Error broken(int error, const char* what) {
  return {Code::failed, std::string(what) + ": " + std::strerror(error), {}, error};
}

}  // namespace

struct AsyncClient::State : std::enable_shared_from_this<State> {
  struct Waiter {
    Then then;
    std::unique_ptr<asio::steady_timer> timer;
  };
  explicit State(asio::io_context& context_) : context(context_), socket(context_) {}

  void read();
  bool take_lines();
  void write();
  void answer(int id, tl::expected<nlohmann::json, Error> result);
  void close() noexcept;
  void fail();

  asio::io_context& context;
  Protocol::socket socket;
  std::array<char, 16384> room{};
  std::string input;
  std::deque<std::string> output;
  std::map<int, Waiter> waiters;
  int last_id = 0;
  bool over = false;
  bool abandoned = false;  // the AsyncClient was destroyed
};

void AsyncClient::State::read() {
  socket.async_read_some(asio::buffer(room), [self = shared_from_this()](const auto& error, std::size_t got) {
    if (self->over) return;
    if (error) return self->fail();
    self->input.append(self->room.data(), got);
    if (!self->take_lines()) return self->fail();
    if (!self->over) self->read();
  });
}

// Returns false if the server has sent something other than JSON-RPC, or a line that is too long.
bool AsyncClient::State::take_lines() {
  std::size_t newline = 0;
  while (!over && (newline = input.find('\n')) != std::string::npos) {
    const std::string line = input.substr(0, newline);
    input.erase(0, newline + 1);
    std::optional<Answer> got = parse_answer(line);
    if (!got) return false;
    if (got->method || !got->id.is_number_integer()) continue;
    const int id = got->id.get<int>();
    if (got->error)
      answer(id, tl::unexpected(std::move(*got->error)));
    else
      answer(id, std::move(*got->result));
  }
  return input.size() <= kMaxBuffered;
}

void AsyncClient::State::answer(int id, tl::expected<nlohmann::json, Error> result) {
  const auto found = waiters.find(id);
  if (found == waiters.end()) return;
  const Waiter waiter = std::move(found->second);
  waiters.erase(found);
  waiter.timer->cancel();
  waiter.then(std::move(result));
}

void AsyncClient::State::write() {
  asio::async_write(socket, asio::buffer(output.front()),
                    [self = shared_from_this()](const auto& error, std::size_t) {
                      if (self->over) return;
                      if (error) return self->fail();
                      self->output.pop_front();
                      if (!self->output.empty()) self->write();
                    });
}

void AsyncClient::State::close() noexcept {
  over = true;
  boost::system::error_code ignored;
  socket.close(ignored);
}

void AsyncClient::State::fail() {
  close();
  while (!waiters.empty())
    answer(waiters.begin()->first, tl::unexpected(broken(ENOTCONN, "the connection has ended")));
}

tl::expected<std::unique_ptr<AsyncClient>, int> AsyncClient::connect(asio::io_context& context,
                                                                     const std::string& path) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) return tl::unexpected(ENAMETOOLONG);
  auto state = std::make_shared<State>(context);
  boost::system::error_code error;
  state->socket.open(Protocol(), error);
  // The socket is non-blocking, because a blocking connect() waits if the listen queue of the server is full.
  if (!error) state->socket.non_blocking(true, error);
  if (!error) state->socket.connect(Protocol::endpoint(path), error);
  if (error) return tl::unexpected(error.value());
  state->read();
  return std::unique_ptr<AsyncClient>(new AsyncClient(std::move(state)));
}

AsyncClient::~AsyncClient() {
  state_->close();
  state_->abandoned = true;
  state_->waiters.clear();
}

void AsyncClient::call(const std::string& method, const nlohmann::json& params,
                       std::chrono::milliseconds patience, Then then) {
  if (state_->over) {
    asio::post(state_->context, [state = std::weak_ptr(state_), then = std::move(then)] {
      const auto here = state.lock();
      if (here != nullptr && !here->abandoned)
        then(tl::unexpected(broken(ENOTCONN, "the connection has ended")));
    });
    return;
  }
  const int id = ++state_->last_id;
  State::Waiter& waiter = state_->waiters[id];
  waiter.then = std::move(then);
  waiter.timer = std::make_unique<asio::steady_timer>(state_->context, patience);
  waiter.timer->async_wait([state = std::weak_ptr(state_), id](const boost::system::error_code& stopped) {
    const auto here = state.lock();
    if (here != nullptr && !stopped) here->answer(id, tl::unexpected(broken(ETIMEDOUT, "no answer in time")));
  });
  state_->output.push_back(request_line(id, method, params) + '\n');
  if (state_->output.size() == 1) state_->write();
}

bool AsyncClient::is_over() const noexcept {
  return state_->over;
}

}  // namespace rtrs::rpc
