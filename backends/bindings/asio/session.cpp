#include "backends/bindings/asio/session.hpp"

#include <algorithm>
#include <array>

namespace rtrs::asio {

Session::Session(boost::asio::io_context& context, std::unique_ptr<Fabric> fabric, SessionSettings settings,
                 Recorder* recorder)
    : context_(context),
      pending_(boost::asio::use_service<PendingOperations>(context)),
      fabric_(std::move(fabric)),
      settings_(std::move(settings)),
      client_(clamp_to(settings_.client, fabric_->capabilities()), recorder),
      pump_(context, *fabric_, settings_.wait,
            {[this](Nanos now) { return this->step(now); }, [this] { return client_.next_deadline(); },
             [this] { return client_.inflight() == 0 && opening_.empty() && closing_.empty(); }}) {}

Session::~Session() {
  *alive_ = false;
}

void Session::start() {
  if (std::exchange(started_, true)) {
    // The handler of a previous open was cancelled, so this call reports the result of that open.
    if (ended_) return finish_later(&Session::opening_, to_error_code(Errc::session_closed));
    if (client_.link_up()) return finish_later(&Session::opening_, {});
    if (hopeless()) finish_later(&Session::opening_, to_error_code(Errc::no_path));
    return;
  }
  const Errc opened = client_.open(*fabric_, steady_now());
  pump_.start();
  if (opened != Errc::ok) finish_later(&Session::opening_, to_error_code(opened));
}

void Session::begin_close() {
  if (!started_ || client_.closed()) return finish_later(&Session::closing_, {});
  client_.close(*fabric_, steady_now());
  pump_.step_soon();
}

void Session::finish_later(Operation Session::*operation, const boost::system::error_code& error) {
  boost::asio::post(context_, [this, alive = alive_, operation, error] {
    if (*alive && !(this->*operation).empty()) (this->*operation).complete(error);
  });
}

bool Session::step(Nanos now) {
  std::array<IoCompletion, 64> done;
  const std::size_t count = client_.poll(*fabric_, now, done);
  const auto alive = alive_;
  for (const IoCompletion& one : std::span(done).first(count)) {
    requests_.complete(static_cast<std::uint32_t>(one.user_data), to_error_code(one.result, one.peer_errno));
    if (!*alive) return false;
  }
  PathEvent news;
  while (client_.take_news(news)) {
    tell(news);
    if (!*alive) return false;
  }
  // Waits until nothing is in flight, because the batch that reports the end may have no room for the last
  // results.
  if (ended_ && client_.inflight() == 0 && !closing_.empty()) {
    closing_.complete({});
    if (!*alive) return false;
  }
  return count != 0;
}

void Session::tell(const PathEvent& news) {
  const auto alive = alive_;
  if (settings_.on_news) settings_.on_news(news);
  if (!*alive) return;
  switch (news.kind) {
    case PathEvent::Kind::link_up:
      if (!opening_.empty()) opening_.complete({});
      break;
    case PathEvent::Kind::path:
      if (!opening_.empty() && closing_.empty() && hopeless())
        opening_.complete(to_error_code(Errc::no_path));
      break;
    case PathEvent::Kind::session_ended:
      ended_ = true;
      if (!opening_.empty()) opening_.complete(to_error_code(Errc::session_closed));
      break;
    case PathEvent::Kind::link_down:
    case PathEvent::Kind::refused:
      break;
  }
}

bool Session::hopeless() const {
  const auto paths = client_.paths();
  return std::all_of(paths.begin(), paths.end(), [](const PathStatus& path) {
    return path.state == PathState::closed || path.state == PathState::absent;
  });
}

void Session::submit(std::uint32_t slot, IoRequest request) {
  request.user_data = slot;
  const Errc result = client_.submit(*fabric_, steady_now(), request);
  if (result != Errc::ok) return fail_later(slot, result);
  pump_.step_if_due();
}

void Session::fail_later(std::uint32_t slot, Errc errc) {
  boost::asio::post(context_, [this, alive = alive_, slot, errc] {
    if (*alive) requests_.complete(slot, to_error_code(errc));
  });
}

Errc Session::add_path(const PathAddress& address) {
  const Errc result = client_.add_path(*fabric_, steady_now(), address);
  pump_.step_soon();
  return result;
}
Errc Session::reconnect_path(unsigned path) {
  const Errc result = client_.reconnect_path(*fabric_, steady_now(), path);
  pump_.step_soon();
  return result;
}
Errc Session::disconnect_path(unsigned path) {
  const Errc result = client_.disconnect_path(*fabric_, steady_now(), path);
  pump_.step_soon();
  return result;
}
Errc Session::remove_path(unsigned path) {
  const Errc result = client_.remove_path(*fabric_, steady_now(), path);
  pump_.step_soon();
  return result;
}

}  // namespace rtrs::asio
