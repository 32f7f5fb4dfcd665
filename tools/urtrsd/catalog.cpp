#include "tools/urtrsd/catalog.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "tools/urtrsd/in_parallel.hpp"

namespace rtrs::daemon {

std::string describe(const ExportSpec& spec) {
  return "export " + in_quotes(spec.name) + (spec.path.empty() ? "" : " (" + in_quotes(spec.path) + ")");
}

namespace {

std::string_view canonical(std::string_view name) {
  const std::size_t start = name.find_first_not_of('/');
  return start == std::string_view::npos ? std::string_view() : name.substr(start);
}

// What an administrator does about an export that cannot be opened.
std::string remedy(const ExportSpec& spec, int error) {
  if (spec.read_only || (error != EACCES && error != EROFS && error != EPERM)) return {};
  // Who may not read it either has nothing of that.
  if (spec.is_file() && ::faccessat(AT_FDCWD, spec.path.c_str(), R_OK, AT_EACCESS) != 0)
    return "; let the user of urtrsd read the file, and write to it unless it is exported read-only";
  return "; to export it read-only, write --export NAME=FILE,ro, or read_only = true in the file";
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
  result->has_search_path_ = search_path.has_value();
  result->wait_for_answers(search_path, how);
  const std::lock_guard guard(result->shared_->mutex);
  const auto& confined = result->shared_->search_path;
  if (confined && !*confined) return tl::unexpected(confined->error());
  return result;
}

// Until the search path is open and the read-only files are known.
void Catalog::wait_for_answers(const std::optional<std::string>& search_path, Confinement how) {
  std::vector<std::function<void()>> tasks;
  for (const auto& [index, one] : shared_->read_only)
    tasks.push_back(
        [shared = shared_, index = index, spec = specs_.at(index)] { look_at(*shared, index, spec); });
  if (search_path) {
    tasks.push_back([shared = shared_, path = *search_path, how] {
      auto confined = SearchPath::create(path, how);
      const std::lock_guard guard(shared->mutex);
      shared->search_path = std::move(confined);
    });
  }
  const std::vector<bool> answered = in_parallel(std::move(tasks), kPatience);
  if (search_path && !answered.back())
    late_.push_back("dev_search_path " + in_quotes(*search_path) +
                    ": it does not answer yet; what is below it is served when it does");
}

void Catalog::look_at(Shared& shared, std::size_t index, const ExportSpec& spec) {
  const std::string path = real_path(spec.path);
  const auto located = locate_file(spec.path, describe(spec));
  remember_read_only(shared, index, located ? &located->id : nullptr);
  const std::lock_guard guard(shared.mutex);
  shared.read_only[index].path = path;
  shared.read_only[index].looked = true;
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
  return open_located(std::move(*located), {mode == AccessMode::read_only, 0}, described);
}

tl::expected<Located, OpenError> Catalog::locate(std::string_view session, std::string_view name,
                                                 const std::string& described) {
  const auto asked = [&] { return "session " + in_quotes(session) + " asked for device " + in_quotes(name); };
  if (!has_search_path_)
    return refuse(ENOENT, asked() + ", but no export has that name and dev_search_path is not set");
  const SearchPath* confined = nullptr;
  {
    const std::lock_guard guard(shared_->mutex);
    if (!shared_->search_path) return refuse(EBUSY, asked() + ", but dev_search_path does not answer yet");
    if (!*shared_->search_path) return tl::unexpected(shared_->search_path->error());
    confined = &**shared_->search_path;  // set once
  }
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
    return open_located(std::move(*located), options, "device " + in_quotes(spec.name));
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
                                                            const std::string& described) {
  auto lock = shared_->locks.acquire(located, !options.read_only, described);
  if (!lock) return tl::unexpected(lock.error());
  auto device = Export::open(located, options, described);
  if (!device) return tl::unexpected(device.error());
  return OpenedDevice{{}, std::move(*lock), std::move(*device)};
}

tl::expected<void, OpenError> Catalog::admit(OpenedDevice& opened, std::string_view session,
                                             std::string_view name, AccessMode mode) {
  if (opened.configured && name_of(*opened.configured).empty())
    return refuse(ENOENT, "export " + in_quotes(name) + " was taken away before its " +
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

void Catalog::remember_read_only(Shared& shared, std::size_t index, const DeviceId* id) {
  const std::lock_guard guard(shared.mutex);
  ReadOnly& one = shared.read_only[index];
  one.known = id != nullptr;
  if (id != nullptr) one.id = *id;
}

// By identity, and by path for a file that was replaced since. Looks at no configured file, because that may
// lie on a disk that hangs; while one is not known for that reason, any file could be it.
tl::expected<void, OpenError> Catalog::may_write(const Located& located, const std::string& described,
                                                 std::string_view session, AccessMode mode) {
  if (mode == AccessMode::read_only) return {};
  const std::string path = path_of(located);
  const std::lock_guard guard(shared_->mutex);
  for (const auto& [index, one] : shared_->read_only) {
    const std::string name = in_quotes(name_of(index));
    if ((one.known && one.id == located.id) || (one.looked && one.path == path))
      return refuse(EACCES, described + " is read-only, because it is exported read-only as " + name +
                                "; session " + in_quotes(session) + " asked for " + to_string(mode));
    if (!one.known && !one.looked)
      return refuse(EBUSY, described + " cannot be opened for writing yet: it could be the file of export " +
                               name + ", which is read-only and does not answer yet");
  }
  return {};
}

std::vector<OpenError> Catalog::check(CheckLocks locks) {
  std::vector<ExportSpec> asked;
  std::vector<std::shared_ptr<std::optional<OpenError>>> answers;
  std::vector<std::function<void()>> tasks;
  for (const Numbered& one : numbered()) {
    asked.push_back(one.spec);
    answers.push_back(std::make_shared<std::optional<OpenError>>());
    tasks.push_back([shared = shared_, one, locks, answer = answers.back()] {
      *answer = check_one(*shared, one.index, one.spec, locks);
    });
  }
  const std::vector<bool> answered = in_parallel(std::move(tasks), kPatience);
  std::vector<OpenError> problems;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answered[i])
      late_.push_back(describe(asked[i]) + ": its " + (asked[i].is_nbd() ? "server" : "file") +
                      " does not answer yet; it is served when it does");
    else if (*answers[i])
      problems.push_back(**answers[i]);
  }
  return problems;
}

// Whether there is address space for it.
std::optional<OpenError> Catalog::check_memory(const ExportSpec& spec) {
  const auto region = MemoryRegion::create(spec.memory_bytes);
  if (region) return std::nullopt;
  return OpenError{region.error().error, "export " + in_quotes(spec.name) + ": " + region.error().sentence};
}

std::optional<OpenError> Catalog::check_one(Shared& shared, std::size_t index, const ExportSpec& spec,
                                            CheckLocks locks) {
  if (spec.is_nbd()) return check_nbd(spec);
  if (spec.is_memory()) return check_memory(spec);
  auto located = locate_file(spec.path, describe(spec));
  if (!located) return located.error();
  {
    const std::lock_guard guard(shared.mutex);
    shared.checked.emplace(located->id, index);
  }
  ImageLocks::Hold hold;
  if (locks == CheckLocks::ask) {
    shared.note(ImageLocks::others(*located, !spec.read_only, describe(spec)));
  } else {
    auto lock = shared.locks.acquire(*located, !spec.read_only, describe(spec));
    if (lock) hold = std::move(*lock);
    if (!lock && lock.error().error == EBUSY) return lock.error();
  }
  auto device = Export::open(*located, {spec.read_only, 0, true}, describe(spec));
  if (device) return shared.note((*device)->warnings());
  return OpenError{device.error().error, device.error().sentence + remedy(spec, device.error().error)};
}

bool Catalog::takes_descriptors(std::string_view name) const {
  const auto asked = named(name);
  return !asked || !asked->spec.is_memory();
}

std::string Catalog::exported_as(const std::string& path) const {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return {};
  const auto located = identify(std::move(fd), path);
  if (!located) return {};
  const std::lock_guard guard(shared_->mutex);
  const auto found = shared_->checked.find(located->id);
  return found == shared_->checked.end() ? std::string() : name_of(found->second);
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

tl::expected<Catalog::Prepared, OpenError> Catalog::prepare(const ExportSpec& spec) const {
  Prepared prepared;
  if (spec.is_memory()) {
    if (auto problem = check_memory(spec)) return tl::unexpected(std::move(*problem));
    return prepared;
  }
  if (spec.is_nbd()) {
    if (auto problem = check_nbd(spec)) return tl::unexpected(std::move(*problem));
    return prepared;
  }
  prepared.path = real_path(spec.path);
  auto located = locate_file(spec.path, describe(spec));
  if (!located) return tl::unexpected(located.error());
  prepared.id = located->id;
  auto lock = shared_->locks.acquire(*located, !spec.read_only, describe(spec));
  if (!lock && lock.error().error == EBUSY) return tl::unexpected(lock.error());
  const auto device = Export::open(*located, {spec.read_only, 0, true}, describe(spec));
  if (device) prepared.warnings = (*device)->warnings();
  if (device) return prepared;
  return tl::unexpected(
      OpenError{device.error().error, device.error().sentence + remedy(spec, device.error().error)});
}

tl::expected<void, OpenError> Catalog::add(const ExportSpec& spec, const Prepared& prepared) {
  const std::size_t index = next_;
  if (named(spec.name)) return refuse(EEXIST, "export " + in_quotes(spec.name) + " is there already");
  if (spec.is_file()) {
    const std::lock_guard guard(shared_->mutex);
    shared_->checked.emplace(prepared.id, index);
    if (spec.read_only) shared_->read_only[index] = {prepared.path, prepared.id, true, true};
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
  decltype(shared_->nbd)::node_type nbd;  // ends without the lock, for it waits for its thread
  const std::lock_guard guard(shared_->mutex);
  shared_->read_only.erase(index);
  memory_.erase(index);
  nbd = shared_->nbd.extract(index);
  std::erase_if(shared_->checked, [index](const auto& one) { return one.second == index; });
  return true;
}

std::vector<std::string> Catalog::warnings() const {
  std::vector<std::string> all;
  {
    const std::lock_guard guard(shared_->mutex);
    if (shared_->search_path && *shared_->search_path) all = (*shared_->search_path)->warnings();
    all.insert(all.end(), shared_->odd.begin(), shared_->odd.end());
  }
  all.insert(all.end(), late_.begin(), late_.end());
  if (!cache_.knows_host())
    all.push_back(
        "/proc/sys/kernel/random/boot_id cannot be read: clients cannot learn that this host was restarted "
        "over "
        "writes that they had not flushed");
  return all;
}

}  // namespace rtrs::daemon
