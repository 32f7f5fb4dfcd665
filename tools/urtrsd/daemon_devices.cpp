// Opens and closes devices for sessions. The calls run in separate threads, because they block as long as the
// disk does and must not block the network thread.
#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include "core/proto/errc.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {
namespace {

// Refuses to open a device because an access rule excludes the client.
tl::unexpected<OpenError> excluded(std::string sentence) {
  return tl::unexpected(OpenError{EACCES, std::move(sentence), true});
}

}  // namespace

// The session cannot end before the response is sent, because the request is in flight.
void Daemon::perform(const block::OpenExport& action) {
  const AccessMode mode = action.mode;
  const std::string name(action.name);
  if (action.session >= sessions_.size() || sessions_[action.session] == nullptr) {
    block::ExportOpened refused;
    refused.error = ENOMEM;
    server_.export_opened(*fabric_, asio::steady_now(), action.id, refused);
    return;
  }
  if (const auto allowed = may_open(action.session, name); !allowed)
    return opened(action, name, mode, tl::unexpected(allowed.error()));
  const Session& asker = *sessions_[action.session];
  const bool counted = catalog_->takes_descriptors(name);
  if (counted && !descriptors_.take(asker.host))
    return opened(
        action, name, mode,
        refuse(
            EMFILE,
            fmt::format(
                "{} files are open, {} of them by clients of this host; the other descriptors are reserved "
                "for connections and other hosts; raise the limit with ulimit -n or LimitNOFILE= of systemd",
                descriptors_.files(), descriptors_.files_of(asker.host))));
  jobs_.run(asker.serial, [this, action, mode, asker = asker.name, host = asker.host, name, counted] {
    auto found = std::make_shared<tl::expected<OpenedDevice, OpenError>>(catalog_->find(asker, name, mode));
    return [this, action, mode, name, host, found, counted] {
      // Uses the value that `counted` had when the open started, because the export may since have been
      // replaced by a different one with the same name.
      const bool takes = *found && (*found)->device->kind() != ExportKind::memory;
      if (counted && !takes) descriptors_.give_back(host);
      opened(action, name, mode, std::move(*found));
      pump_.step_soon();
    };
  });
}

// Applies the access rules of the export. A name that is no export is a file under dev_search_path; if that
// path contains %SESSNAME% and clients authenticate, the session name must be the identity of the client.
tl::expected<void, OpenError> Daemon::may_open(std::uint16_t session, const std::string& name) const {
  const std::string& asker = sessions_[session]->name;
  const std::string identity = server_.transport().identity(session);
  const std::vector<ExportSpec> specs = catalog_->specs();
  const auto spec = std::find_if(specs.begin(), specs.end(),
                                 [&](const ExportSpec& one) { return same_export(one.name, name); });
  if (spec != specs.end()) {
    if (allows_client(spec->allow, server_.transport().peer(session), identity) &&
        allows_session(spec->allow, asker, identity))
      return {};
    return excluded("the allow lists of export " + in_quotes(spec->name) + " exclude session " +
                    in_quotes(asker) + (identity.empty() ? " without an identity" : " of " + identity));
  }
  if (!authenticates_clients(config_) || config_.dev_search_path.find("%SESSNAME%") == std::string::npos ||
      asker == identity)
    return {};
  return excluded("session " + in_quotes(asker) + " does not have the name of its identity" +
                  (identity.empty() ? "" : " " + identity) +
                  ", but dev_search_path gives each session the folder of its name");
}

void Daemon::opened(const block::OpenExport& asked, const std::string& name, AccessMode mode,
                    tl::expected<OpenedDevice, OpenError> found) {
  const Session& asker = *sessions_[asked.session];
  note_open(name, mode, found);
  block::ExportOpened answer;
  tl::expected<void, OpenError> admitted;
  if (found)
    admitted = catalog_->admit(*found, asker.name, name, mode);
  else
    admitted = tl::unexpected(found.error());
  if (!admitted) {
    log_refused_open(asked.session, name, admitted.error());
    answer.error =
        admitted.error().error;  // not mapped with peer_errno(), because clients interpret ENOENT and EPERM
    if (found) close(asker, std::move(*found));
  } else {
    answer = keep(asked, mode, std::move(*found));
  }
  const bool kept = server_.export_opened(*fabric_, asio::steady_now(), asked.id, answer);
  if (kept || answer.error != 0) return;
  // The server had no memory for the device, so the device is closed again.
  const auto lost = devices_.find(answer.handle);
  close(asker, std::move(lost->second.opened));
  devices_.erase(lost);
}

void Daemon::log_refused_open(std::uint16_t session, const std::string& name, const OpenError& error) {
  LogFields fields = fields_of(session, error.error);
  std::string rule;
  if (error.by_rule) {
    fields.reason = to_string(Reason::not_allowed);
    rule = fmt::format("{} reason={} errno={}", identity_field(server_.transport().identity(session)),
                       fields.reason, error.error);
  }
  log_.write(LogKind::refused_open, spdlog::level::warn, fields, "{} open {} refused{}: {}", who(session),
             in_quotes(name), rule, error.sentence);
  if (control_ != nullptr) control_->tell("open_refused", to_json(error, sessions_[session]->name, name));
}

block::ExportOpened Daemon::keep(const block::OpenExport& asked, AccessMode mode, OpenedDevice opened) {
  const Export& device = *opened.device;
  block::ExportOpened answer;
  answer.handle = next_handle_++;
  answer.geometry = device.geometry();
  answer.instance = opened.instance;
  const auto same = std::find_if(devices_.begin(), devices_.end(), [&device](const auto& one) {
    return one.second.opened.device->id() == device.id();
  });
  answer.export_id = same == devices_.end() ? next_export_++ : same->second.export_id;
  std::vector<std::string> warnings = device.warnings();
  if (!opened.lock.warning().empty()) warnings.push_back(opened.lock.warning());
  for (const std::string& warning : warnings)
    log_.write(LogKind::device, spdlog::level::warn, fields_of(asked.session), "{} {}", who(asked.session),
               warning);
  log_.write(LogKind::device, spdlog::level::info, fields_of(asked.session), "{} opened {} {} ({} bytes)",
             who(asked.session), in_quotes(opened.name), to_string(mode), device.size_bytes());
  devices_.emplace(answer.handle, Device{std::move(opened), answer.export_id});
  return answer;
}

void Daemon::perform(const block::CloseExport& action) {
  const auto found = devices_.find(action.handle);
  OpenedDevice& opened = found->second.opened;
  log_.write(LogKind::device, spdlog::level::info, fields_of(action.session), "{} closed {}",
             who(action.session), in_quotes(opened.name));
  engine_->leave(*opened.device);
  close(*sessions_[action.session], std::move(opened));
  devices_.erase(found);
}

void Daemon::perform(const block::CacheDamaged& action) {
  const OpenedDevice& damaged = devices_.at(action.handle).opened;
  const std::string text = fmt::format(
      "{} making {} durable failed: {}; what was written to it since the last flush may be lost, and its "
      "flushes "
      "fail in every session until it is closed and opened again",
      who(action.session), in_quotes(damaged.name), errno_text(action.error));
  spdlog::error("{}", with_fields(text, fields_of(action.session, action.error)));
  catalog_->on_failed_sync(damaged.device->id());
}

// Logs a failed operation. A discard that the device does not support is not logged.
void Daemon::log_failure(const StorageResult& done) {
  if (done.error == EOPNOTSUPP) return;
  const auto of = std::find_if(devices_.begin(), devices_.end(), [&done](const auto& one) {
    return one.second.opened.device.get() == done.target;
  });
  const std::string device = of == devices_.end() ? "?" : in_quotes(of->second.opened.name);
  const std::uint16_t session = block::session_of(done.id);
  const int error = done.cause != 0 ? done.cause : done.error;
  log_.write(LogKind::failed_io, spdlog::level::err, fields_of(session, error),
             "{} {} {} offset={} length={} {}: {}", who(session), to_string(done.opcode), device,
             done.sector * kSectorBytes, done.bytes, done.cause != 0 ? "failed" : "refused",
             errno_text(error));
}

// The device stays open until the result arrives, because the request is in flight.
void Daemon::perform(const block::MeasureExport& action) {
  const OpenedDevice& opened = devices_.at(action.handle).opened;
  Export* const device = opened.device.get();
  jobs_.run(sessions_[action.session]->serial, [this, action, device, name = opened.name] {
    const std::uint64_t size = device->measure();
    return [this, action, device, name, size] {
      const std::uint64_t before = device->size_bytes();
      device->resize(size);
      if (device->size_bytes() != before)
        log_.write(LogKind::device, spdlog::level::info, fields_of(action.session),
                   "{} the size of {} changed from {} to {} bytes", who(action.session), in_quotes(name),
                   before, device->size_bytes());
      server_.export_measured(*fabric_, asio::steady_now(), action.id, device->sectors());
      pump_.step_soon();
    };
  });
}

// Releases the lease immediately, so that another session can open the device before the close has finished.
void Daemon::close(const Session& of, OpenedDevice device) {
  device.lease.release();
  device.device->leave_share();
  const bool file = device.device->kind() != ExportKind::memory;
  auto closing = std::make_shared<OpenedDevice>(std::move(device));
  jobs_.run(of.serial, [this, closing, file, host = of.host] {
    *closing = OpenedDevice{};
    return [this, file, host] {
      if (file) descriptors_.give_back(host);
      pump_.step_soon();
    };
  });
}

}  // namespace rtrs::daemon
