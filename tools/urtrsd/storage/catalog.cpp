#include "tools/urtrsd/storage/catalog.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rtrs::daemon {

std::string describe(const ExportSpec& spec) {
  return "export " + in_quotes(spec.name) + (spec.path.empty() ? "" : " (" + in_quotes(spec.path) + ")");
}

namespace {

std::string_view canonical(std::string_view name) {
  const std::size_t start = name.find_first_not_of('/');
  return start == std::string_view::npos ? std::string_view() : name.substr(start);
}

}  // namespace

bool same_export(std::string_view a, std::string_view b) {
  return canonical(a) == canonical(b);
}

tl::expected<std::unique_ptr<Catalog>, OpenError> Catalog::create(
    std::vector<ExportSpec> specs, const std::optional<std::string>& search_path, Confinement how) {
  std::unique_ptr<Catalog> result(new Catalog);
  for (ExportSpec& spec : specs) {
    const std::size_t index = result->next_++;
    if (!result->by_name_.emplace(canonical(spec.name), index).second)
      return refuse(EEXIST, "export " + in_quotes(spec.name) + " is configured twice");
    if (spec.read_only && spec.is_file()) result->shared_->read_only[index];
    result->specs_.emplace(index, std::move(spec));
  }
  if (search_path) result->shared_->search_path.emplace(*search_path, how);
  result->look_at_read_only_files();
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
  if (const auto asked = named(name)) {
    auto found = find_spec(*asked, session, mode);
    if (found) found->configured = asked->index;
    return found;
  }
  const std::string described = "device " + in_quotes(name);
  auto located = locate(session, name, described);
  if (!located) return tl::unexpected(located.error());
  if (auto may = may_write(*located, described, session, mode); !may) return tl::unexpected(may.error());
  return open_located(std::move(*located), {mode == AccessMode::read_only, 0}, false, described);
}

tl::expected<Located, OpenError> Catalog::locate(std::string_view session, std::string_view name,
                                                 const std::string& described) {
  const auto asked = [&] { return "session " + in_quotes(session) + " requested device " + in_quotes(name); };
  if (!shared_->search_path)
    return refuse(ENOENT, asked() + ", but no export has that name and dev_search_path is not set");
  const SearchPath* const confined = &*shared_->search_path;  // constant after create()
  auto path_fd = confined->locate(session, name);
  if (!path_fd) return tl::unexpected(path_fd.error());
  auto located = identify(std::move(*path_fd), described);
  if (located) {
    located->path = confined->path_of(session, name);
    located->again = [confined, session, name](int flags) {
      auto fd = confined->locate(session, name, flags);
      if (!fd) errno = fd.error().error;
      return fd ? std::move(*fd) : UniqueFd();
    };
  }
  return located;
}

tl::expected<OpenedDevice, OpenError> Catalog::find_spec(const Numbered& asked, std::string_view session,
                                                         AccessMode mode) {
  const auto& [index, spec] = asked;
  if (spec.read_only && mode != AccessMode::read_only)
    return refuse(EACCES, describe(spec) + " is read-only; session " + in_quotes(session) + " asked for " +
                              to_string(mode));
  const Export::Options options{mode == AccessMode::read_only, spec.delay_ms};
  if (spec.is_nbd()) return find_nbd(asked, options);
  if (spec.is_file()) {
    auto located = locate_file(spec.path, describe(spec));
    if (!located) return tl::unexpected(located.error());
    if (spec.read_only) remember_read_only(*shared_, index, &located->id);
    return open_located(std::move(*located), options, spec.force, "device " + in_quotes(spec.name));
  }
  const std::lock_guard guard(shared_->mutex);
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
                                                            bool force, const std::string& described) {
  auto lock = shared_->locks.acquire(located, {!options.read_only, force}, described);
  if (!lock) return tl::unexpected(lock.error());
  auto device = Export::open(located, options, described);
  if (!device) return tl::unexpected(device.error());
  return OpenedDevice{{}, std::move(*lock), std::move(*device)};
}

tl::expected<void, OpenError> Catalog::admit(OpenedDevice& opened, std::string_view session,
                                             std::string_view name, AccessMode mode) {
  if (opened.configured && name_of(*opened.configured).empty())
    return refuse(ENOENT, "export " + in_quotes(name) + " was removed before its " +
                              (opened.device->kind() == ExportKind::nbd ? "server" : "file") + " answered");
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

bool Catalog::takes_descriptors(std::string_view name) const {
  const auto asked = named(name);
  return !asked || !asked->spec.is_memory();
}

std::optional<Catalog::Numbered> Catalog::named(std::string_view name) const {
  const std::lock_guard guard(names_mutex_);
  const auto found = by_name_.find(canonical(name));
  if (found == by_name_.end()) return std::nullopt;
  return Numbered{found->second, specs_.at(found->second)};
}

std::string Catalog::name_of(std::size_t index) const {
  const std::lock_guard guard(names_mutex_);
  const auto found = specs_.find(index);
  return found == specs_.end() ? std::string() : found->second.name;
}

std::vector<Catalog::Numbered> Catalog::numbered() const {
  const std::lock_guard guard(names_mutex_);
  std::vector<Numbered> all;
  for (const auto& [index, spec] : specs_) all.push_back({index, spec});
  return all;
}

std::vector<ExportSpec> Catalog::specs() const {
  std::vector<ExportSpec> all;
  for (Numbered& one : numbered()) all.push_back(std::move(one.spec));
  return all;
}

void Catalog::allow(const std::string& name, const AccessRules& rules) {
  const std::lock_guard guard(names_mutex_);
  for (auto& [index, spec] : specs_)
    if (same_export(spec.name, name)) spec.allow = rules;
}

tl::expected<void, OpenError> Catalog::add(const ExportSpec& spec, const Prepared* prepared) {
  const std::size_t index = next_;
  if (named(spec.name)) return refuse(EEXIST, "export " + in_quotes(spec.name) + " already exists");
  if (spec.is_file()) {
    const std::lock_guard guard(shared_->mutex);
    if (prepared != nullptr) shared_->checked.emplace(prepared->id, index);
    if (spec.read_only)
      shared_->read_only[index] =
          prepared != nullptr ? ReadOnly{prepared->path, prepared->id, true, true} : ReadOnly{};
  }
  const std::lock_guard guard(names_mutex_);
  ++next_;
  by_name_.emplace(canonical(spec.name), index);
  specs_.emplace(index, spec);
  return {};
}

bool Catalog::remove(std::string_view name) {
  std::size_t index = 0;
  {
    const std::lock_guard guard(names_mutex_);
    const auto found = by_name_.find(canonical(name));
    if (found == by_name_.end()) return false;
    index = found->second;
    by_name_.erase(found);
    specs_.erase(index);
  }
  decltype(shared_->nbd)::node_type
      // The node is destroyed after the lock is released, because its destructor waits for a thread.
      nbd;
  const std::lock_guard guard(shared_->mutex);
  shared_->read_only.erase(index);
  memory_.erase(index);
  nbd = shared_->nbd.extract(index);
  std::erase_if(shared_->checked, [index](const auto& one) { return one.second == index; });
  return true;
}

std::vector<std::string> Catalog::warnings() const {
  std::vector<std::string> all;
  if (shared_->search_path) all = shared_->search_path->warnings();
  all.insert(all.end(), odd_.begin(), odd_.end());
  if (!cache_.knows_host())
    all.push_back(
        "/proc/sys/kernel/random/boot_id cannot be read: clients cannot learn that this host was restarted "
        "over "
        "writes that they had not flushed");
  return all;
}

}  // namespace rtrs::daemon
