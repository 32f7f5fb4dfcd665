// Devices of sessions: opened and closed in threads of their own, because either waits for as long as the
// disk likes, and the thread of the network must not.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {
namespace {

rnbd::Geometry geometry_of(const Export& device) {
  const ExportLimits& limits = device.limits();
  rnbd::Geometry geometry;
  geometry.nsectors = device.sectors();
  geometry.logical_block_size = limits.logical_block_size;
  geometry.physical_block_size = limits.physical_block_size;
  geometry.max_hw_sectors = limits.max_hw_sectors;
  geometry.max_segments = limits.max_segments;
  geometry.max_discard_sectors = limits.max_discard_sectors;
  geometry.max_write_zeroes_sectors = limits.max_write_zeroes_sectors;
  geometry.discard_granularity = limits.discard_granularity;
  geometry.discard_alignment = limits.discard_alignment;
  geometry.write_cache = limits.write_cache;
  geometry.fua = limits.fua;
  geometry.features = wire::rnbd::kFeaturePreflush | wire::rnbd::kFeatureNounmap;
  return geometry;
}

}  // namespace

// The session lives until the answer, because its request is not answered before.
void Daemon::perform(std::uint16_t session, const rnbd::OpenExport& action) {
  if (catalog_->takes_descriptors(action.name) && !descriptors_.take())
    return refuse_for_descriptors(session, action);
  const auto mode = access_mode_from_wire(static_cast<std::uint8_t>(action.mode)).value_or(AccessMode::ro);
  jobs_.run(sessions_[session]->serial, [this, session, mode, operation = action.operation,
                                         asker = sessions_[session]->name, name = std::string(action.name)] {
    auto found = std::make_shared<tl::expected<OpenedDevice, OpenError>>(catalog_->find(asker, name, mode));
    return [this, session, mode, operation, name, found] {
      if (!*found && catalog_->takes_descriptors(name)) descriptors_.give_back();
      opened(session, operation, name, mode, std::move(*found));
      pump_.wake();
    };
  });
}

// Answered later like the others, because the devices of the session are at work now.
void Daemon::refuse_for_descriptors(std::uint16_t session, const rnbd::OpenExport& action) {
  const std::string why = fmt::format(
      "{} files are open, and the rest of the descriptors is for connections; ulimit -n, or LimitNOFILE= of "
      "systemd, raises the bound",
      descriptors_.files());
  boost::asio::post(context_,
                    [this, session, why, operation = action.operation, name = std::string(action.name)] {
                      opened(session, operation, name, AccessMode::ro, refuse(EMFILE, why));
                      pump_.wake();
                    });
}

void Daemon::opened(std::uint16_t session, std::uint16_t operation, const std::string& name, AccessMode mode,
                    tl::expected<OpenedDevice, OpenError> found) {
  const Session& asker = *sessions_[session];
  rnbd::ExportOpened answer;
  answer.operation = operation;
  tl::expected<void, OpenError> admitted;
  if (found)
    admitted = catalog_->admit(*found, asker.name, name, mode);
  else
    admitted = tl::unexpected(found.error());
  if (!admitted) {
    log_.write(LogKind::refused_open, spdlog::level::warn, "{} open {} refused: {}", who(session),
               in_quotes(name), admitted.error().sentence);
    answer.error = admitted.error().error;  // ENOENT and EPERM mean something to the client: not translated
    if (found) close(asker.serial, std::move(*found));
  } else {
    const Export& device = *found->device;
    answer.handle = next_handle_++;
    answer.geometry = geometry_of(device);
    answer.instance = found->instance;
    for (const std::string& warning : device.warnings()) spdlog::warn("{}", warning);
    if (!found->lock.warning().empty()) spdlog::warn("{}", found->lock.warning());
    log_.write(LogKind::device, spdlog::level::info, "{} opened {} {} ({} bytes)", who(session),
               in_quotes(name), to_string(mode), device.size_bytes());
    devices_.emplace(answer.handle, std::move(*found));
  }
  feed(session, answer);
}

void Daemon::perform(std::uint16_t session, const rnbd::CloseExport& action) {
  const auto found = devices_.find(action.handle);
  log_.write(LogKind::device, spdlog::level::info, "{} closed {}", who(session),
             in_quotes(found->second.name));
  engine_->leave(*found->second.device);
  close(sessions_[session]->serial, std::move(found->second));
  devices_.erase(found);
}

void Daemon::perform(std::uint16_t session, const rnbd::CacheDamaged& action) {
  const OpenedDevice& damaged = devices_.at(action.handle);
  spdlog::error(
      "{} making {} durable failed: {}; what was written to it since the last flush may be lost, and "
      "its "
      "flushes fail in every session until it is closed and opened again",
      who(session), in_quotes(damaged.name), errno_text(action.error));
  catalog_->on_failed_sync(damaged.device->id());
  damaged_.emplace_back(damaged.device->id(), action.error);
}

// A discard that the device cannot do is no failure.
void Daemon::tell_failure(std::uint16_t session, const StorageDone& done) {
  if (done.error == EOPNOTSUPP) return;
  const auto of = std::find_if(devices_.begin(), devices_.end(),
                               [&done](const auto& one) { return one.second.device.get() == done.target; });
  const std::string device = of == devices_.end() ? "?" : in_quotes(of->second.name);
  const int error = done.cause != 0 ? done.cause : done.error;
  log_.write(LogKind::failed_io, spdlog::level::err, "{} {} {} offset={} length={} {}: {} ({})", who(session),
             to_string(done.opcode), device, done.sector * kSectorBytes, done.bytes,
             done.cause != 0 ? "failed" : "refused", errno_text(error), error);
}

// The device is not closed before the answer, because its operation is under way.
void Daemon::perform(std::uint16_t session, const rnbd::MeasureExport& action) {
  const OpenedDevice& opened = devices_.at(action.handle);
  Export* const device = opened.device.get();
  jobs_.run(
      sessions_[session]->serial, [this, session, device, name = opened.name, operation = action.operation] {
        const std::uint64_t size = device->measure();
        return [this, session, device, name, operation, size] {
          const std::uint64_t before = device->size_bytes();
          device->resize(size);
          if (device->size_bytes() != before)
            log_.write(LogKind::device, spdlog::level::info, "{} the size of {} changed from {} to {} bytes",
                       who(session), in_quotes(name), before, device->size_bytes());
          feed(session, rnbd::ExportMeasured{operation, device->sectors()});
          pump_.wake();
        };
      });
}

// The lease ends now, so that the next to open the device need not wait.
void Daemon::close(BlockingJobs::Lane lane, OpenedDevice device) {
  device.lease.release();
  device.device->leave_share();
  const bool file = device.device->fd() >= 0;
  auto closing = std::make_shared<OpenedDevice>(std::move(device));
  jobs_.run(lane, [this, closing, file] {
    *closing = OpenedDevice{};
    return [this, file] {
      if (file) descriptors_.give_back();
      pump_.wake();
    };
  });
}

}  // namespace rtrs::daemon
