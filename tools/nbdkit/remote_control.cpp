// The part of Remote that serves the control socket (interface ControlledClient).
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "backends/bindings/asio/path_syntax.hpp"
#include "backends/platform/address/socket_address.hpp"
#include "backends/platform/address/unique_fd.hpp"
#include "core/rnbd/geometry.hpp"
#include "tools/lib/control/plugin/timers.hpp"
#include "tools/nbdkit/explain.hpp"
#include "tools/nbdkit/remote.hpp"

namespace rtrs::nbdkit {
namespace {

constexpr std::size_t kMaxNews = 1024;
constexpr std::size_t kMaxMappings = 16;  // maximum number of mappings in progress

std::uint64_t bytes_of(const rnbd::Geometry& geometry) {
  return geometry.nsectors * wire::rnbd::kSectorBytes;
}

std::string state_of(const Export& one, const BlockClient& client) {
  return one.state == Export::State::idle ? "idle" : rnbd::to_string(client.state(one.handle));
}

// Checks whether this host could connect the path. Returns 0, EHOSTUNREACH if the destination is not an
// address, or EADDRNOTAVAIL if the source is not an address of this host. GIDs and host names are not
// checked: only the fabric knows GIDs, and the name service may hang.
int check_addresses(const PathAddress& path) {
  if (path.destination.rfind("gid:", 0) == 0) return 0;
  if (!net::host_name_in(path.destination).empty() || !net::host_name_in(path.source).empty()) return 0;
  const Result<net::SocketAddress> to = net::parse_address(path.destination, path.port);
  if (!to) return EHOSTUNREACH;
  if (path.source.empty()) return 0;
  const Result<net::SocketAddress> from = net::parse_address(path.source, 0);
  if (!from || from->family() != to->family()) return EADDRNOTAVAIL;
  const net::UniqueFd socket(::socket(from->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno;
  return ::bind(socket.get(), from->get(), from->length) == 0 ? 0 : EADDRNOTAVAIL;
}

}  // namespace

// Opens the control socket. Fails only if control= names a socket explicitly, because the session also works
// without one.
std::string Remote::open_control() {
  if (settings_.control.empty()) return {};
  auto control = control::ClientControl::open(loop_.context(), settings_.control, settings_.control_group,
                                              *this, [this](const std::string& line) { lines_(true, line); });
  if (!control && settings_.control != "auto") return control.error();
  const Lock lock = session_->lock();
  if (control)
    control_ = std::move(*control);
  else
    lines_(false, control.error() + "; continuing without one; control=FILE chooses another");
  return {};
}

// Called in any thread, under the lock.
void Remote::note_news(const BlockEvent& event) {
  if (!control_) return;
  if (news_.size() == kMaxNews) {
    ++missed_news_;
    return;
  }
  News& news = news_.emplace_back();
  news.event = event;
  if (const auto* path = std::get_if<PathEvent>(&event)) {
    if (path->kind == PathEvent::Kind::path && path->path.path < settings_.paths.size()) {
      const Client& session = session_->session();
      const unsigned index = path->path.path;
      news.about = control::pathname_of(
          {index, {}, session.address(index), session.peer(index), session.device(index)});
    }
  } else if (const auto* change = std::get_if<rnbd::DeviceChanged>(&event)) {
    const Export* const one = exports_.find(change->device);
    if (one != nullptr) {
      news.about = one->name;
      news.size_before = bytes_of(one->geometry);
    }
  }
  if (std::exchange(report_scheduled_, true)) return;
  boost::asio::post(loop_.context(), [this] {
    tell_news();
    continue_mapping();
  });
}

void Remote::tell_news() {
  if (!control_) return;
  std::vector<News> news;
  std::uint64_t missed = 0;
  {
    const Lock lock = session_->lock();
    report_scheduled_ = false;
    news.swap(news_);
    missed = std::exchange(missed_news_, 0);
  }
  for (const News& one : news) {
    if (const auto* path = std::get_if<PathEvent>(&one.event)) control_->tell(*path, one.about);
    if (const auto* change = std::get_if<rnbd::DeviceChanged>(&one.event))
      control_->tell(one.about, *change, one.size_before);
  }
  control_->missed(missed);
  control_->go_on();
}

control::ClientModel Remote::model() const {
  const Lock lock = session_->lock();
  const Client& session = session_->session();
  control::ClientModel model;
  model.session = settings_.session;
  model.fabric = fabric_name_;
  model.link_up = session.link_up();
  model.policy = session.policy();
  model.max_reconnect_attempts = session.max_reconnect_attempts();
  model.heartbeat = settings_.protocol.heartbeat;
  model.reconnect_min = settings_.protocol.reconnect_min;
  model.reconnect_max = settings_.protocol.reconnect_max;
  model.timers = plugin::timers_of(settings_);
  model.depth = session.depth();
  model.max_io_size = session.max_io_size();
  model.queued = session.queued();
  model.under_way = session_->under_way();
  model.stats = session.stats();
  const auto paths = session.paths();
  for (unsigned index = 0; index < paths.size(); ++index)
    model.paths.push_back({index, paths[index], session.address(index), session.peer(index),
                           session.device(index), session.answer_times(index, Direction::read),
                           session.answer_times(index, Direction::write)});
  // If device= lists exactly one device, the plugin itself counts as a user of it. The reply must not count
  // that user.
  const bool own = settings_.one_device();
  for (const Export& one : exports_.all())
    model.devices.push_back(
        {one.name, one.mode, state_of(one, session_->client()), bytes_of(one.geometry),
         one.state == Export::State::idle ? 0U : one.handle,
         one.users - (one.users != 0 && own && one.name == settings_.devices.front() ? 1U : 0U), one.kept,
         one.refusal != 0 ? one.refusal : one.error, one.number});
  OldestRequest oldest;
  if (session.oldest_in_flight(oldest)) model.oldest = oldest;
  return model;
}

int Remote::add_path(const PathAddress& address, const std::string& text, unsigned& index) {
  // Called without the lock, because the check may take time.
  if (const int error = check_addresses(address); error != 0) return error;
  const Lock lock = session_->lock();
  // Client::add_path() will use the first free index, so this is the index of the new path.
  const auto paths = session_->session().paths();
  index = 0;
  while (index < paths.size() && paths[index].state != PathState::absent) ++index;
  if (index >= kMaxPaths) return ENOSPC;
  settings_.paths.resize(std::max<std::size_t>(settings_.paths.size(), index + 1U));
  std::string before = std::exchange(settings_.paths[index], text);
  status_->on_path_added(index);
  const Errc added = session_->add_path(address);
  if (added != Errc::ok) settings_.paths[index] = std::move(before);
  return to_linux_errno(added);
}

int Remote::remove_path(unsigned path) {
  const Lock lock = session_->lock();
  return to_linux_errno(session_->remove_path(path));
}
int Remote::disconnect_path(unsigned path) {
  const Lock lock = session_->lock();
  return to_linux_errno(session_->disconnect_path(path));
}
int Remote::reconnect_path(unsigned path) {
  const Lock lock = session_->lock();
  return to_linux_errno(session_->reconnect_path(path));
}
unsigned Remote::recover() {
  const Lock lock = session_->lock();
  return session_->recover();
}
int Remote::set_policy(MultipathPolicy policy) {
  const Lock lock = session_->lock();
  session_->set_policy(policy);
  return 0;
}
int Remote::set_max_reconnect_attempts(std::int32_t most) {
  const Lock lock = session_->lock();
  session_->set_max_reconnect_attempts(most);
  return 0;
}
int Remote::reset_statistics(unsigned path, PathStatistics what) {
  const Lock lock = session_->lock();
  return to_linux_errno(session_->reset_statistics(path, what));
}

std::vector<std::string> Remote::names() {
  const Lock lock = session_->lock();
  std::vector<std::string> names;
  for (const Export& one : exports_.all())
    if (one.kept) names.push_back(one.name);
  return names;
}

// Returns the device for a connection that requests the export `name`; nullptr if there is none. Requires the
// lock.
const std::string* Remote::chosen_device(const std::string& name) const {
  for (const Export& one : exports_.all())
    if (one.kept && one.name == name) return &one.name;
  if (settings_.one_device()) return &settings_.devices.front();
  return name.empty() || settings_.only_mapped || !settings_.devices.empty() ? nullptr : &name;
}

void Remote::map_device(const std::string& name, wire::rnbd::AccessMode mode,
                        std::function<void(int, const std::string&)> tell) {
  if (mappings_.size() == kMaxMappings)
    return tell(EBUSY, "mapping \"" + name + "\": " + std::to_string(kMaxMappings) +
                           " devices are being mapped; try again later");
  {
    const Lock lock = session_->lock();
    if (close_begun_) return tell(ESHUTDOWN, "mapping \"" + name + "\": " + errno_words(ESHUTDOWN));
    Mapping& one = mappings_.emplace_back();
    one.device = &exports_.join(name);
    one.was_kept = std::exchange(one.device->kept, true);
    one.was_mapped_as = std::exchange(one.device->mapped_as, mode);
    one.wish.mode = mode;
    one.until = asio::steady_now() + settings_.connect_timeout;
    one.tell = std::move(tell);
  }
  continue_mapping();
}

// Continues a mapping. Returns true if the mapping has finished; its result is then in `error`. Requires the
// lock.
bool Remote::is_mapped(Lock&, Mapping& one, int& error) {
  for (;;) {
    switch (exports_.next(*one.device, one.wish)) {
      case Exports::Step::serve:
        if (one.device->mode == one.wish.mode) return true;
        // The mode cannot change, because other connections use the device in the current mode.
        if (one.device->users > 1) {
          error = one.device->reads_only ? EROFS : EBUSY;
          return true;
        }
        if (one.was_kept) one.restore = one.device->mode;
        exports_.ends(*one.device);
        session_->unmap(one.device->handle);
        break;
      case Exports::Step::fail:
        error = one.device->error;
        return true;
      case Exports::Step::unmap:
        if (one.was_kept) one.restore = one.device->mode;
        exports_.ends(*one.device);
        session_->unmap(one.device->handle);
        break;
      case Exports::Step::map:
        if (const boost::system::error_code failed =
                map(*one.device, Exports::mode_for(*one.device, one.wish))) {
          error = failed.value();
          return true;
        }
        one.wish.opening = one.device->openings;
        break;
      case Exports::Step::wait:
        error = session_->hopeless() ? ENOTCONN : asio::steady_now() >= one.until ? ETIMEDOUT : 0;
        return error != 0;
    }
  }
}

// Requires the lock.
std::string Remote::map_error_text(const Mapping& one, int error) const {
  const auto paths = session_->session().paths();
  if (error == ETIMEDOUT)
    return explain_timeout(settings_, one.device->name, settings_.connect_timeout, paths);
  // A failed start has closed all paths, so their state no longer shows the reason.
  if (error == ENOTCONN && !not_started_.empty()) return not_started_;
  if (error == ENOTCONN)
    return explain_map_failure(settings_, one.device->name, one.wish.mode, asio::to_error_code(Errc::no_path),
                               paths);
  return explain_map_failure(settings_, one.device->name, one.wish.mode, asio::of_errno(error), paths,
                             "the mode ro");
}

void Remote::continue_mapping() {
  if (mappings_.empty() || !session_) return;
  struct Over {
    Mapping mapping;
    int error;
    std::string why;
  };
  std::vector<Over> over;
  {
    Lock lock = session_->lock();
    if (!opened_) return;
    for (auto one = mappings_.begin(); one != mappings_.end();) {
      int error = 0;
      if (!is_mapped(lock, *one, error)) {
        ++one;
        continue;
      }
      std::string why = error == 0 ? "" : map_error_text(*one, error);
      end_mapping(*one, error);
      over.push_back({std::move(*one), error, std::move(why)});
      one = mappings_.erase(one);
    }
  }
  for (const Over& one : over) one.mapping.tell(one.error, one.why);
}

// Ends a mapping. If it has succeeded, the device stays open even without users. Requires the lock.
void Remote::end_mapping(Mapping& one, int error) {
  if (error != 0) {
    one.device->kept = one.was_kept;
    one.device->mapped_as = one.was_mapped_as;
  }
  // If the mode could not be changed, reopens the device in the previous mode. If that fails too, the state
  // of the device shows it.
  const bool lost = error != 0 && one.restore && one.device->state == Export::State::idle;
  if (lost && !close_begun_) map(*one.device, *one.restore);
  leave(*one.device);
}

bool Remote::cancel_mappings(const std::string& name) {
  std::vector<Mapping> over;
  {
    const Lock lock = session_->lock();
    for (auto one = mappings_.begin(); one != mappings_.end();) {
      if (one->device->name != name) {
        ++one;
        continue;
      }
      end_mapping(*one, ECANCELED);
      over.push_back(std::move(*one));
      one = mappings_.erase(one);
    }
  }
  for (const Mapping& one : over) one.tell(ECANCELED, "mapping \"" + name + "\": it was unmapped meanwhile");
  return !over.empty();
}

int Remote::unmap_device(const std::string& name, bool force) {
  const bool cancelled = cancel_mappings(name);
  const int error = close_device(name, force);
  return cancelled && error == ENOENT ? 0 : error;
}

int Remote::close_device(const std::string& name, bool force) {
  const Lock lock = session_->lock();
  const auto& all = exports_.all();
  const auto found = std::ranges::find(all, name, &Export::name);
  if (found == all.end() || found->state == Export::State::idle) return ENOENT;
  Export& one = exports_.keep(name);
  const unsigned own = settings_.one_device() && name == settings_.devices.front() ? 1 : 0;
  if (one.users > own && !force) return EBUSY;
  // A device that device= lists stays in the list, and the next connection opens it again.
  one.kept = std::ranges::find(settings_.devices, name) != settings_.devices.end();
  one.mapped_as.reset();
  if (one.state == Export::State::closing) return EALREADY;
  exports_.ends(one);
  session_->unmap(one.handle);
  return 0;
}

int Remote::remap_device(const std::string& name) {
  const Lock lock = session_->lock();
  const auto& all = exports_.all();
  const auto found = std::ranges::find(all, name, &Export::name);
  if (found == all.end() || found->state == Export::State::idle) return ENOENT;
  if (found->state == Export::State::open &&
      session_->client().state(found->handle) == rnbd::DeviceState::open)
    return EALREADY;
  session_->remap(found->handle);
  return 0;
}

int Remote::resize_device(const std::string& name, std::uint64_t sectors) {
  const Lock lock = session_->lock();
  const auto& all = exports_.all();
  const auto found = std::ranges::find(all, name, &Export::name);
  if (found == all.end() || found->state == Export::State::idle || found->state == Export::State::closing)
    return ENOENT;
  return session_->resize(found->handle, sectors) ? 0 : EINVAL;
}

nlohmann::json Remote::credentials() const {
  const Lock lock = session_->lock();
  return tools::credentials_json(*fabric_);
}

}  // namespace rtrs::nbdkit
