// The part of Remote that opens a device when a connection requests it, and closes unused devices.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/rnbd/geometry.hpp"
#include "tools/nbdkit/explain.hpp"
#include "tools/nbdkit/remote.hpp"

namespace rtrs::nbdkit {
namespace {

using Error = boost::system::error_code;

const Error kTimedOut{ETIMEDOUT, boost::system::system_category()};
const Error kAskedToEnd{ECANCELED, boost::system::system_category()};

// Time between two checks for a stop request during the start.
constexpr Nanos kStartLook = milliseconds(200);

}  // namespace

std::string Remote::explain(const Error& error, const std::string& device, wire::rnbd::AccessMode mode,
                            Nanos waited) const {
  if (error == kAskedToEnd) return explain_early_end(device);
  const auto paths = session_->session().paths();
  return error == kTimedOut ? explain_timeout(settings_, device, waited, paths)
                            : explain_map_failure(settings_, device, mode, error, paths);
}

Error Remote::await_link(Lock& lock, Patience& patience) {
  while (!session_->session().link_up())
    if (const Error error = wait_once(lock, patience)) return error;
  return {};
}

Error Remote::wait_once(Lock& lock, Patience& patience) {
  if (session_->hopeless()) return asio::to_error_code(Errc::no_path);
  if (asio::steady_now() >= patience.began + patience.bound && !extend_timeout(patience)) return kTimedOut;
  if (patience.at_start && ending_ && ending_(true)) return kAskedToEnd;
  const Nanos until = patience.began + patience.bound;
  session_->wait_for_news(lock, patience.at_start ? std::min(until, asio::steady_now() + kStartLook) : until);
  return {};
}

bool Remote::extend_timeout(Patience& patience) {
  const Nanos longer = settings_.name_in_use_timeout();
  if (!patience.at_start || name_refused_.none() || patience.bound >= longer) return false;
  lines_(true, "no path connected within " + duration_words(patience.bound) +
                   " (connect_timeout): " + taken_name_words(settings_) + ". Retrying for up to " +
                   duration_words(longer) + " in total");
  patience.bound = longer;
  return true;
}

// Returns the access mode in which to open `device` for a connection.
wire::rnbd::AccessMode Remote::mode_of(const std::string& device, bool read_only) const {
  const auto found = std::ranges::find(exports_.all(), device, &Export::name);
  const bool by_hand = found != exports_.all().end() && found->mapped_as.has_value();
  const wire::rnbd::AccessMode most = by_hand ? *found->mapped_as : settings_.access_mode;
  return read_only ? wire::rnbd::AccessMode::read_only : most;
}

tl::expected<Remote::Use, std::string> Remote::attach(const std::string& name, bool read_only) {
  Lock lock = session_->lock();
  const std::string* const device = chosen_device(name);
  if (device == nullptr) return tl::unexpected(explain_unknown_export(settings_, name));
  Patience patience{asio::steady_now(), settings_.connect_timeout, false};
  return attach(lock, *device, mode_of(*device, read_only), patience);
}

tl::expected<Remote::Use, std::string> Remote::attach(Lock& lock, const std::string& name,
                                                      wire::rnbd::AccessMode mode, Patience& patience) {
  Export& one = exports_.join(name);
  Exports::Wish wish{mode, !settings_.one_device() && !settings_.access_mode_given, 0};
  ++attaching_;
  const Error error = await_export(lock, one, wish, patience);
  --attaching_;
  if (!error) {
    show_use(one);
    return Use{&one, one.handle};
  }
  std::string why = explain(error, name, Exports::mode_for(one, wish), patience.bound);
  leave(one);
  return tl::unexpected(std::move(why));
}

Error Remote::await_export(Lock& lock, Export& one, Exports::Wish& wish, Patience& patience) {
  for (;;) {
    switch (exports_.next(one, wish)) {
      case Exports::Step::serve:
        return {};
      case Exports::Step::fail:
        return asio::of_errno(one.error);
      case Exports::Step::map:
        if (const Error error = map(one, Exports::mode_for(one, wish))) return error;
        break;
      case Exports::Step::unmap:
        exports_.ends(one);
        session_->unmap(one.handle);
        break;
      case Exports::Step::wait:
        if (const Error error = wait_once(lock, patience)) return error;
        break;
    }
  }
}

Error Remote::map(Export& one, wire::rnbd::AccessMode mode) {
  const rnbd::MapOutcome outcome = session_->map(one.name, mode);
  if (outcome.error == 0) exports_.began(one, outcome.device, mode);
  return asio::of_errno(outcome.error);
}

void Remote::detach(const Use& use) {
  const Lock lock = session_->lock();
  leave(*use.device);
}

void Remote::leave(Export& one) {
  const std::string name = one.name;
  exports_.leave(one, asio::steady_now());
  const auto& all = exports_.all();
  const auto left = std::ranges::find(all, name, &Export::name);
  if (left == all.end())
    status_->forget(name);
  else
    show_use(*left);
}

void Remote::show_use(const Export& one) {
  // If device= lists exactly one device, the plugin itself counts as a user of it. The status must not count
  // that user.
  const unsigned own = settings_.one_device() && one.users != 0 ? 1 : 0;
  status_->on_use(one.name, one.users - own, !rnbd::is_writable(one.mode));
  show_status_soon();
}

// Starts to close an unused device, at most one per call.
void Remote::close_unused(Nanos now) {
  const Lock lock = session_->lock();
  Export* const one = exports_.unused(now);
  if (one == nullptr || close_begun_) return;
  exports_.ends(*one);
  session_->unmap(one->handle);
}

bool Remote::busy() const {
  return session_->under_way() != 0 || attaching_ != 0;
}

int Remote::io(const Use& use, const BlockRequest& request) {
  return session_->io(use.handle, request);
}

std::string Remote::failure_text(const Use& use, const BlockRequest& request, int error) {
  const Lock lock = session_->lock();
  return explain_failed_request(settings_, use.device->name, request, error, session_->session().paths(),
                                use.device->refusal);
}

Remote::Shape Remote::shape(const Use& use) {
  const Lock lock = session_->lock();
  return {use.device->name, use.device->geometry, rnbd::is_writable(use.device->mode)};
}

}  // namespace rtrs::nbdkit
