#include "tools/urtrsd/catalog.hpp"

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace rtrs::daemon {
namespace {

std::string_view canonical(std::string_view name) {
  const std::size_t start = name.find_first_not_of('/');
  return start == std::string_view::npos ? std::string_view() : name.substr(start);
}

std::string describe(const ExportSpec& spec) {
  return "export " + in_quotes(spec.name) + (spec.path.empty() ? "" : " (" + in_quotes(spec.path) + ")");
}

tl::expected<Located, OpenError> locate_configured(const ExportSpec& spec) {
  UniqueFd fd(::open(spec.path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    return refuse(error, describe(spec) + " cannot be opened: " + errno_text(error));
  }
  return identify(std::move(fd), describe(spec));
}

}  // namespace

tl::expected<std::unique_ptr<Catalog>, OpenError> Catalog::create(
    std::vector<ExportSpec> specs, const std::optional<std::string>& search_path, Confinement how) {
  std::unique_ptr<Catalog> result(new Catalog);
  result->specs_ = std::move(specs);
  for (std::size_t i = 0; i < result->specs_.size(); ++i) {
    const ExportSpec& spec = result->specs_[i];
    if (!result->by_name_.emplace(canonical(spec.name), i).second)
      return refuse(EEXIST, "export " + in_quotes(spec.name) + " is configured twice");
  }
  if (search_path) {
    auto confined = SearchPath::create(*search_path, how);
    if (!confined) return tl::unexpected(confined.error());
    result->search_path_ = std::move(*confined);
  }
  return result;
}

tl::expected<OpenedDevice, OpenError> Catalog::open(std::string_view session, std::string_view name,
                                                    AccessMode mode) {
  if (const auto found = by_name_.find(canonical(name)); found != by_name_.end())
    return open_spec(found->second, session, mode);
  if (!search_path_)
    return refuse(ENOENT, "session " + in_quotes(session) + " asked for device " + in_quotes(name) +
                              ", but no export has that name and dev_search_path is not set");
  auto path_fd = search_path_->locate(session, name);
  if (!path_fd) return tl::unexpected(path_fd.error());
  return open_located(std::move(*path_fd), {mode == AccessMode::ro, 0}, session, name, mode);
}

tl::expected<OpenedDevice, OpenError> Catalog::open_spec(std::size_t index, std::string_view session,
                                                         AccessMode mode) {
  const ExportSpec& spec = specs_[index];
  if (spec.read_only && mode != AccessMode::ro)
    return refuse(EACCES, describe(spec) + " is read-only; session " + in_quotes(session) + " asked for " +
                              to_string(mode));
  const Export::Options options{mode == AccessMode::ro, spec.delay_ms};
  if (spec.memory_bytes == 0) {
    auto located = locate_configured(spec);
    if (!located) return tl::unexpected(located.error());
    return open_located(std::move(located->path_fd), options, session, spec.name, mode);
  }
  auto& region = memory_[index];
  if (!region) {
    auto created = MemoryRegion::create(spec.memory_bytes);
    if (!created) return tl::unexpected(created.error());
    region = std::move(*created);
  }
  const DeviceId id{ExportKind::memory, 0, index};
  auto lease = access_.acquire(id, mode, std::string(session), spec.name);
  if (!lease) return tl::unexpected(lease.error());
  auto device = Export::open_memory(region, id, options, describe(spec));
  if (!device) return tl::unexpected(device.error());
  return OpenedDevice{std::move(*lease), std::move(*device), cache_.instance(id, 0), spec.name};
}

tl::expected<OpenedDevice, OpenError> Catalog::open_located(UniqueFd path_fd, const Export::Options& options,
                                                            std::string_view session, std::string_view name,
                                                            AccessMode mode) {
  const std::string described = "device " + in_quotes(name);
  auto located = identify(std::move(path_fd), described);
  if (!located) return tl::unexpected(located.error());
  auto lease = access_.acquire(located->id, mode, std::string(session), std::string(name));
  if (!lease) return tl::unexpected(lease.error());
  auto device = Export::open(*located, options, described);
  if (!device) return tl::unexpected(device.error());
  const std::uint64_t instance = cache_.instance((*device)->id(), (*device)->sequence());
  return OpenedDevice{std::move(*lease), std::move(*device), instance, std::string(name)};
}

std::vector<OpenError> Catalog::check() const {
  std::vector<OpenError> problems;
  for (const ExportSpec& spec : specs_) {
    if (spec.memory_bytes != 0) continue;
    auto located = locate_configured(spec);
    if (!located) {
      problems.push_back(located.error());
      continue;
    }
    auto device = Export::open(*located, {true, 0}, describe(spec));
    if (!device) problems.push_back(device.error());
  }
  return problems;
}

std::vector<std::string> Catalog::warnings() const {
  std::vector<std::string> all = search_path_ ? search_path_->warnings() : std::vector<std::string>();
  if (!cache_.knows_host())
    all.push_back(
        "/proc/sys/kernel/random/boot_id cannot be read: clients cannot learn that this host was restarted "
        "over "
        "writes that they had not flushed");
  return all;
}

}  // namespace rtrs::daemon
