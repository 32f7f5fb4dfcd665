#include "backends/asio/remote_device.hpp"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "backends/asio/error.hpp"

namespace rtrs::asio {
namespace {

// A server answers a CLOSE at once or is gone; a device that is not unmapped is closed with the session.
constexpr std::chrono::seconds kUnmapGrace{5};
// Between two attempts to open a device while the link stays up.
constexpr std::chrono::milliseconds kReopenPause{250};

wire::Uuid random_uuid(std::random_device& source) {
  wire::Uuid uuid;
  for (std::uint8_t& byte : uuid.bytes) byte = static_cast<std::uint8_t>(source());
  return uuid;
}

SessionSettings make_settings(const RemoteDeviceOptions& options,
                              std::function<void(const PathNews&)> on_news) {
  SessionSettings settings;
  settings.client.protocol = options.protocol;
  settings.client.session_name = options.session_name;
  settings.client.paths = options.paths;
  std::random_device source;
  settings.client.session_uuid = random_uuid(source);
  for (unsigned path = 0; path < kMaxPaths; ++path) settings.client.path_uuids.push_back(random_uuid(source));
  settings.wait = options.wait;
  settings.on_news = std::move(on_news);
  return settings;
}

// What the peer answered: its errno, or 0. Other errors mean that nothing was delivered.
bool was_delivered(const boost::system::error_code& error) {
  return !error || error.category() == boost::system::generic_category();
}

}  // namespace

RemoteDevice::RemoteDevice(boost::asio::io_context& context, std::unique_ptr<Fabric> fabric,
                           RemoteDeviceOptions options)
    : context_(context),
      options_(std::move(options)),
      session_(context, std::move(fabric),
               make_settings(options_, [this](const PathNews& news) { on_path_news(news); }), &recorder_),
      retry_timer_(context),
      reopen_timer_(context),
      close_timer_(context) {}

RemoteDevice::~RemoteDevice() {
  *alive_ = false;
}

int RemoteDevice::open_trace(const std::string& file, const trace::Origin& origin,
                             const trace::FileOptions& options) {
  return recorder_.open_file(file.c_str(), origin, options);
}

int RemoteDevice::dump_trace(const std::string& file, const trace::Origin& origin) const {
  return recorder_.dump_ring(file.c_str(), origin);
}

template <class Input>
void RemoteDevice::feed(const Input& input) {
  actions_.clear();
  devices_.on(input, actions_);
  perform();
}

void RemoteDevice::begin_map() {
  map_begun_ = true;
  session_.async_open([this](const boost::system::error_code& error) { on_opened(error); });
}

void RemoteDevice::on_opened(const boost::system::error_code& error) {
  if (error) {
    map_result_ = error;
    return settle();
  }
  actions_.clear();
  const auto outcome = devices_.on(rnbd::MapRequested{options_.device, options_.access_mode}, actions_);
  if (outcome.error != 0) {
    map_result_ = of_errno(outcome.error);
  } else {
    handle_ = outcome.device;
    has_handle_ = true;
    perform();
  }
  settle();
}

void RemoteDevice::perform() {
  for (const rnbd::ClientAction& action : actions_) {
    if (const auto* message = std::get_if<rnbd::SendMessage>(&action)) send(*message);
    if (const auto* change = std::get_if<rnbd::DeviceChanged>(&action)) on_device_changed(*change);
    if (const auto* replaced = std::get_if<rnbd::CacheReplaced>(&action))
      news_.push_back(DeviceNews{state(), 0, geometry_, true, replaced->unflushed});
  }
  if (devices_.retry_wanted()) arm_retry();
  if (devices_.reopen_wanted()) arm_reopen();
}

void RemoteDevice::send(const rnbd::SendMessage& action) {
  auto message = std::make_unique<Message>();
  message->token = action.token;
  message->length = action.response_length;
  IoRequest request;
  request.direction = action.direction == wire::Direction::read ? Direction::read : Direction::write;
  request.service = true;
  request.user_header = action.user_header();
  request.data = std::span(message->response).first(message->length);
  session_.async_request(request,
                         [this, owned = std::move(message)](const boost::system::error_code& error) mutable {
                           on_message_done(std::move(owned), error);
                         });
}

void RemoteDevice::on_message_done(std::unique_ptr<Message> message, const boost::system::error_code& error) {
  rnbd::MessageDone done;
  done.token = message->token;
  done.delivered = was_delivered(error);
  if (done.delivered) done.peer_errno = static_cast<std::uint16_t>(error.value());
  done.response = std::span(message->response).first(message->length);
  feed(done);
  settle();
}

void RemoteDevice::on_device_changed(const rnbd::DeviceChanged& change) {
  const bool refused = change.state == rnbd::DeviceState::closed && change.peer_errno != 0;
  // The same refusal again is no news.
  if (!refused || change.peer_errno != refused_errno_)
    news_.push_back(DeviceNews{change.state, change.peer_errno, change.geometry, false, 0});
  if (refused) refused_errno_ = change.peer_errno;
  if (change.state == rnbd::DeviceState::open) {
    refused_errno_ = 0;
    geometry_ = change.geometry;
    if (!mapping_.empty()) map_result_ = boost::system::error_code{};
  }
  if (change.state != rnbd::DeviceState::unmapped) return;
  has_handle_ = false;
  if (!mapping_.empty())
    map_result_ = change.peer_errno != 0 ? of_errno(change.peer_errno) : to_error_code(Errc::session_closed);
  if (close_begun_) close_session();
}

void RemoteDevice::arm_retry() {
  if (retry_armed_) return;
  retry_armed_ = true;
  retry_timer_.expires_after(kReopenPause);
  retry_timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (error || !*alive) return;
    retry_armed_ = false;
    feed(rnbd::RetryDue{});
    settle();
  });
}

void RemoteDevice::arm_reopen() {
  if (reopen_armed_) return;
  reopen_armed_ = true;
  reopen_timer_.expires_after(std::chrono::seconds(devices_.reopen_pause_s()));
  reopen_timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (error || !*alive) return;
    reopen_armed_ = false;
    feed(rnbd::ReopenDue{});
    settle();
  });
}

void RemoteDevice::on_path_news(const PathNews& news) {
  if (news.kind == PathNews::Kind::link_up) feed(rnbd::LinkUp{session_.client().peer_extends()});
  if (news.kind == PathNews::Kind::link_down) {
    feed(rnbd::LinkDown{});
    if (close_begun_) close_session();
  }
  const auto alive = alive_;
  if (options_.on_path) options_.on_path(news);
  if (*alive) settle();
}

void RemoteDevice::begin_close() {
  close_begun_ = true;
  abandon(to_error_code(Errc::session_closed));
  if (!has_handle_ || !session_.client().link_up()) {
    close_session();
    return settle_later();
  }
  close_timer_.expires_after(kUnmapGrace);
  close_timer_.async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (error || !*alive) return;
    close_session();
    settle();
  });
  feed(rnbd::UnmapRequested{handle_});
  settle_later();
}

void RemoteDevice::close_session() {
  if (session_closing_) return;
  session_closing_ = true;
  close_timer_.cancel();
  if (!map_begun_) return on_session_closed();
  session_.async_close([this](const boost::system::error_code&) {
    on_session_closed();
    settle();
  });
}

void RemoteDevice::on_session_closed() {
  recorder_.close_file();
  if (!mapping_.empty()) map_result_ = to_error_code(Errc::session_closed);
  closed_ = true;
}

void RemoteDevice::settle_later() {
  if (settle_posted_) return;
  settle_posted_ = true;
  boost::asio::post(context_, [this, alive = alive_] {
    if (!*alive) return;
    settle_posted_ = false;
    settle();
  });
}

// The only place where code of the user runs, hence the last thing every event does.
void RemoteDevice::settle() {
  issue();
  const auto alive = alive_;
  while (!news_.empty()) {
    const DeviceNews news = news_.front();
    news_.pop_front();
    if (options_.on_device) options_.on_device(news);
    if (!*alive) return;
  }
  while (!finished_.empty()) {
    Request& request = *finished_.front();
    finished_.pop_front();
    free_requests_.push_back(&request);
    request.handler.complete(request.error);
    if (!*alive) return;
  }
  if (map_result_ && !mapping_.empty()) {
    mapping_.complete(*std::exchange(map_result_, std::nullopt));
    if (!*alive) return;
  }
  if (closed_ && finished_.empty() && !closing_.empty()) closing_.complete({});
}

}  // namespace rtrs::asio
