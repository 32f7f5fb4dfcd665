// Retries missing parts of the configuration, such as exports and listen addresses, until they appear.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>

#include "core/base/counted.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {
namespace {

double seconds_of(Nanos time) {
  return static_cast<double>(time) / 1e9;
}

// True if the error means that the device is not available. False if the error only concerns the client that
// opened the device.
bool is_missing_error(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
    case ENXIO:
    case ENOTBLK:
    case EBUSY:
    case EIO:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Daemon::expect(const std::vector<Catalog::Problem>& missing) {
  for (const Catalog::Problem& one : missing)
    miss({one.name.empty() ? MissingKind::search_path : MissingKind::exported, one.name}, one.why);
}

void Daemon::miss(const MissingList::Key& key, OpenError why) {
  const Nanos now = asio::steady_now();
  const bool line = missing_.failed(now, key, std::move(why));
  const MissingList::Item& item = missing_.items().at(key);
  if (line)
    spdlog::warn("{}", with_fields(fmt::format("{}; retrying in {:.0f} s", item.why.sentence,
                                               seconds_of(item.next - now)),
                                   LogFields{{}, {}, {}, item.why.error}));
  set_retry_timer();
}

std::string Daemon::service_status() const {
  const std::size_t missing = missing_.items().size();
  return fmt::format("{}, {}{}", counted(catalog_->specs().size(), "export"),
                     counted(open_sessions_, "session"),
                     missing == 0 ? "" : fmt::format(", {} missing", missing));
}

bool Daemon::open_or_miss_metrics() {
  OpenError why = open_metrics();
  if (why.error == 0) return true;
  if (!config_.strict && (why.error == EADDRNOTAVAIL || why.error == ENOENT)) {
    miss({MissingKind::metrics, ""}, std::move(why));
    return true;
  }
  spdlog::error("{}", why.sentence);
  return false;
}

bool Daemon::appeared(const MissingList::Key& key) {
  const Nanos since = missing_.remove(key);
  if (since == kNever) return false;
  spdlog::info("{}{} is available after {:.0f} s", to_string(key.first),
               key.second.empty() ? "" : " " + in_quotes(key.second), seconds_of(asio::steady_now() - since));
  service_.status(service_status());
  return true;
}

bool Daemon::is_missing(const std::string& export_name) const {
  return missing_.items().count({MissingKind::exported, export_name}) != 0;
}

void Daemon::forget_export(const std::string& name) {
  std::vector<MissingList::Key> gone;
  for (const auto& [key, item] : missing_.items())
    if (key.first == MissingKind::exported && same_export(key.second, name)) gone.push_back(key);
  for (const MissingList::Key& key : gone) missing_.remove(key);
}

// Updates the list of missing exports when a client opens an export, without waiting for the next retry.
void Daemon::note_open(const std::string& name, AccessMode mode,
                       const tl::expected<OpenedDevice, OpenError>& found) {
  const std::vector<ExportSpec> specs = catalog_->specs();
  const auto spec = std::find_if(specs.begin(), specs.end(),
                                 [&name](const ExportSpec& one) { return same_export(one.name, name); });
  if (spec == specs.end()) return;
  const MissingList::Key key{MissingKind::exported, spec->name};
  const bool was_missing = is_missing(spec->name);
  const bool as_exported = spec->read_only || mode != AccessMode::read_only;
  if (found && was_missing)
    missing_.hurry(asio::steady_now(), key);
  else if (!found && !was_missing && as_exported && is_missing_error(found.error().error))
    missing_.failed(asio::steady_now(), key,
                    // Ignores the return value, which says whether to log the failure, because the open by
                    // the client is logged.
                    found.error());
  else
    return;
  set_retry_timer();
}

void Daemon::try_again(const MissingList::Key& key, const std::shared_ptr<void>& until_done) {
  switch (key.first) {
    case MissingKind::exported:
    case MissingKind::search_path:
      return ask_catalog(key, until_done);
    case MissingKind::address:
      return listen_again(key, until_done);
    case MissingKind::metrics:
      if (OpenError why = open_metrics(); why.error != 0)
        miss(key, std::move(why));
      else
        appeared(key);
      return;
    case MissingKind::control:
      return open_control();
  }
}

void Daemon::ask_catalog(const MissingList::Key& key, const std::shared_ptr<void>& until_done) {
  jobs_.run(kRetries, [this, key, until_done]() mutable {
    auto checked = std::make_shared<Catalog::Checked>(catalog_->check_again(key.second));
    return [this, key, until_done = std::move(until_done), checked] {
      if (stopping_) return pump_.step_soon();
      const std::vector<ExportSpec> specs = catalog_->specs();
      const auto spec = std::find_if(specs.begin(), specs.end(),
                                     [&key](const ExportSpec& one) { return one.name == key.second; });
      const bool wanted = key.first == MissingKind::search_path || spec != specs.end();
      for (const std::string& warning : checked->warnings) spdlog::warn("{}", warning);
      if (!wanted) {
        missing_.remove(key);
      } else if (checked->problem) {
        miss(key, checked->problem->why);
      } else {
        appeared(key);
        if (spec != specs.end()) log_export(*spec);
      }
      pump_.step_soon();
    };
  });
}

void Daemon::set_retry_timer() {
  const Nanos due = missing_.next_due();
  if (due == kNever || stopping_) return;
  const Nanos now = asio::steady_now();
  retry_timer_.expires_after(std::chrono::nanoseconds(due <= now ? 0 : due - now));
  retry_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || stopping_) return;
    for (const MissingList::Key& key : missing_.take_due(asio::steady_now())) try_again(key, nullptr);
    set_retry_timer();
    pump_.step_soon();
  });
}

}  // namespace rtrs::daemon
