#include "tools/urtrsd/catalog.hpp"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
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

std::string real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

std::string path_of(const UniqueFd& fd) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd.get()), error).string();
}

// What an administrator does about an export that cannot be opened.
std::string remedy(const ExportSpec& spec, int error) {
  if (spec.read_only || (error != EACCES && error != EROFS && error != EPERM)) return {};
  return "; to export it read-only, write --export NAME=FILE,ro, or read_only = true in the file";
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
    if (spec.read_only && !spec.path.empty()) {
      result->read_only_[i].path = real_path(spec.path);
      const auto located = locate_configured(spec);
      result->remember_read_only(i, located ? &located->id : nullptr);
    }
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
  auto opened = find(session, name, mode);
  if (!opened) return opened;
  if (auto admitted = admit(*opened, session, name, mode); !admitted) return tl::unexpected(admitted.error());
  return opened;
}

tl::expected<OpenedDevice, OpenError> Catalog::find(std::string_view session, std::string_view name,
                                                    AccessMode mode) {
  if (const auto found = by_name_.find(canonical(name)); found != by_name_.end())
    return find_spec(found->second, session, mode);
  if (!search_path_)
    return refuse(ENOENT, "session " + in_quotes(session) + " asked for device " + in_quotes(name) +
                              ", but no export has that name and dev_search_path is not set");
  auto path_fd = search_path_->locate(session, name);
  if (!path_fd) return tl::unexpected(path_fd.error());
  const std::string described = "device " + in_quotes(name);
  auto located = identify(std::move(*path_fd), described);
  if (!located) return tl::unexpected(located.error());
  if (mode != AccessMode::ro) {
    if (const ExportSpec* spec = exported_read_only(*located))
      return refuse(EACCES, described + " is read-only, because it is exported read-only as " +
                                in_quotes(spec->name) + "; session " + in_quotes(session) + " asked for " +
                                to_string(mode));
  }
  return open_located(std::move(*located), {mode == AccessMode::ro, 0}, described);
}

tl::expected<OpenedDevice, OpenError> Catalog::find_spec(std::size_t index, std::string_view session,
                                                         AccessMode mode) {
  const ExportSpec& spec = specs_[index];
  if (spec.read_only && mode != AccessMode::ro)
    return refuse(EACCES, describe(spec) + " is read-only; session " + in_quotes(session) + " asked for " +
                              to_string(mode));
  const Export::Options options{mode == AccessMode::ro, spec.delay_ms};
  if (spec.memory_bytes == 0) {
    auto located = locate_configured(spec);
    if (!located) return tl::unexpected(located.error());
    if (spec.read_only) remember_read_only(index, &located->id);
    return open_located(std::move(*located), options, "device " + in_quotes(spec.name));
  }
  const std::lock_guard guard(mutex_);
  auto& region = memory_[index];
  if (!region) {
    auto created = MemoryRegion::create(spec.memory_bytes);
    if (!created) return tl::unexpected(created.error());
    region = std::move(*created);
  }
  auto device = Export::open_memory(region, {ExportKind::memory, 0, index}, options, describe(spec));
  if (!device) return tl::unexpected(device.error());
  return OpenedDevice{{}, {}, std::move(*device)};
}

tl::expected<OpenedDevice, OpenError> Catalog::open_located(Located located, const Export::Options& options,
                                                            const std::string& described) {
  auto lock = locks_.acquire(located, !options.read_only, described);
  if (!lock) return tl::unexpected(lock.error());
  auto device = Export::open(located, options, described);
  if (!device) return tl::unexpected(device.error());
  return OpenedDevice{{}, std::move(*lock), std::move(*device)};
}

tl::expected<void, OpenError> Catalog::admit(OpenedDevice& opened, std::string_view session,
                                             std::string_view name, AccessMode mode) {
  const DeviceId& id = opened.device->id();
  auto lease = access_.acquire(id, mode, std::string(session), std::string(name));
  if (!lease) return tl::unexpected(lease.error());
  opened.lease = std::move(*lease);
  opened.instance = cache_.instance(id, opened.device->sequence());
  opened.name = name;
  std::erase_if(shares_, [](const auto& one) { return one.second.expired(); });
  if (auto share = shares_[id].lock())
    opened.device->use_share(std::move(share));
  else
    shares_[id] = opened.device->common_share();
  return {};
}

void Catalog::remember_read_only(std::size_t index, const DeviceId* id) {
  const std::lock_guard guard(mutex_);
  ReadOnly& one = read_only_[index];
  one.known = id != nullptr;
  if (id != nullptr) one.id = *id;
}

// By identity, and by path for a file that was replaced since. Looks at no configured file, because that may
// lie on a disk that hangs.
const ExportSpec* Catalog::exported_read_only(const Located& located) {
  const std::string path = path_of(located.path_fd);
  const std::lock_guard guard(mutex_);
  for (const auto& [index, one] : read_only_)
    if ((one.known && one.id == located.id) || one.path == path) return &specs_[index];
  return nullptr;
}

std::vector<OpenError> Catalog::check(CheckLocks locks) {
  std::vector<OpenError> problems;
  for (const ExportSpec& spec : specs_) {
    if (spec.memory_bytes != 0) continue;
    auto located = locate_configured(spec);
    if (!located) {
      problems.push_back(located.error());
      continue;
    }
    ImageLocks::Hold hold;
    if (locks == CheckLocks::yes) {
      auto lock = locks_.acquire(*located, !spec.read_only, describe(spec));
      if (lock) hold = std::move(*lock);
      if (!lock && lock.error().error == EBUSY) {
        problems.push_back(lock.error());
        continue;
      }
    }
    auto device = Export::open(*located, {spec.read_only, 0}, describe(spec));
    if (device) continue;
    problems.push_back(device.error());
    problems.back().sentence += remedy(spec, device.error().error);
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
