// Checks whether exports can be opened before clients request them, and finds the files of exports.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/in_parallel.hpp"

namespace rtrs::daemon {
namespace {

// Makes a path absolute without disk access.
std::string plain_path(const std::string& path) {
  std::error_code error;
  const auto whole = std::filesystem::absolute(path, error);
  return error ? path : whole.lexically_normal().string();
}

// Returns advice for the administrator about an export that cannot be opened.
std::string remedy(const ExportSpec& spec, int error) {
  if (spec.read_only || (error != EACCES && error != EROFS && error != EPERM)) return {};
  // Do not suggest a read-only export if the file cannot even be read.
  if (spec.is_file() && ::faccessat(AT_FDCWD, spec.path.c_str(), R_OK, AT_EACCESS) != 0)
    return "; give the user of urtrsd read permission, and write permission unless it is exported read-only";
  return "; to export it read-only, write --export NAME=FILE,ro, or read_only = true in the file";
}

}  // namespace

// --- read-only files ---

// Examines the files of all read-only exports; waits at most kPatience.
void Catalog::look_at_read_only_files() {
  std::vector<std::function<void()>> tasks;
  for (const auto& [index, one] : shared_->read_only)
    tasks.push_back(
        [shared = shared_, index = index, spec = specs_.at(index)] { look_at(*shared, index, spec); });
  in_parallel(std::move(tasks), kPatience);
}

void Catalog::look_at(Shared& shared, std::size_t index, const ExportSpec& spec) {
  const std::string path = real_path(spec.path);
  const auto located = locate_file(spec.path, describe(spec));
  remember_read_only(shared, index, located ? &located->id : nullptr);
  const std::lock_guard guard(shared.mutex);
  const auto found = shared.read_only.find(index);
  if (found == shared.read_only.end()) return;
  found->second.path = path;
  found->second.looked = true;
}

void Catalog::remember_read_only(Shared& shared, std::size_t index, const DeviceId* id) {
  const std::lock_guard guard(shared.mutex);
  const auto found = shared.read_only.find(index);
  if (found == shared.read_only.end()) return;  // the export was removed
  found->second.known = id != nullptr;
  if (id != nullptr) found->second.id = *id;
}

// Examines the missing files of read-only exports again: a file can appear when a file system is mounted or a
// symbolic link on its path changes.
void Catalog::check_missing_read_only() {
  std::vector<std::size_t> missing;
  {
    const std::lock_guard guard(shared_->mutex);
    for (const auto& [index, one] : shared_->read_only)
      if (one.looked && !one.known) missing.push_back(index);
  }
  for (const Numbered& one : numbered())
    if (std::find(missing.begin(), missing.end(), one.index) != missing.end())
      look_at(*shared_, one.index, one.spec);
}

// Rejects opening for writing a file that is exported read-only. Compares identities (device and inode), and
// also paths, because the exported file may have been replaced. Does not call stat(2) for exported files,
// because their disk may hang. Until a read-only file has been examined, every file is rejected, because it
// could be that file.
tl::expected<void, OpenError> Catalog::may_write(const Located& located, const std::string& described,
                                                 std::string_view session, AccessMode mode) {
  if (mode == AccessMode::read_only) return {};
  check_missing_read_only();
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

// --- checks ---

Catalog::Problem Catalog::late(const ExportSpec& spec) {
  if (spec.name.empty())
    return {"",
            {EAGAIN, "dev_search_path " + in_quotes(spec.path) +
                         ": it does not answer yet; what is below it is served when it does"},
            true};
  return {spec.name,
          {EAGAIN, describe(spec) + ": its " + (spec.is_nbd() ? "server" : "file") +
                       " does not answer yet; it is served when it does"},
          true};
}

std::function<void()> Catalog::check_task(std::shared_ptr<Shared> shared, const Numbered& one,
                                          CheckLocks locks, std::shared_ptr<Checked> answer) {
  return [shared = std::move(shared), one, locks, answer = std::move(answer)] {
    {
      const std::lock_guard guard(shared->mutex);
      if (!shared->asking.insert(one.index).second) {
        answer->problem = late(one.spec);
        return;
      }
    }
    *answer = check_one(*shared, one, locks);
    const std::lock_guard guard(shared->mutex);
    shared->asking.erase(one.index);
  };
}

std::vector<Catalog::Problem> Catalog::check(CheckLocks locks) {
  std::vector<Numbered> asked = numbered();
  if (shared_->search_path) asked.push_back({kSearchPath, {"", shared_->search_path->path()}});
  std::vector<std::shared_ptr<Checked>> answers;
  std::vector<std::function<void()>> tasks;
  for (const Numbered& one : asked) {
    answers.push_back(std::make_shared<Checked>());
    tasks.push_back(check_task(shared_, one, locks, answers.back()));
  }
  const std::vector<bool> answered = in_parallel(std::move(tasks), kPatience);
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!answered[i]) {
      problems.push_back(late(asked[i].spec));
      continue;
    }
    if (answers[i]->problem) problems.push_back(*answers[i]->problem);
    odd_.insert(odd_.end(), answers[i]->warnings.begin(), answers[i]->warnings.end());
  }
  return problems;
}

Catalog::Checked Catalog::check_again(const std::string& name) {
  std::optional<Numbered> one;
  if (!name.empty())
    one = named(name);
  else if (shared_->search_path)
    one = Numbered{kSearchPath, {"", shared_->search_path->path()}};
  if (!one) return {};  // the export was removed since
  const auto answer = std::make_shared<Checked>();
  if (in_parallel({check_task(shared_, *one, CheckLocks::take, answer)}, kPatience)[0]) return *answer;
  return {late(one->spec), {}};
}

// Checks that the memory of a memory export could be allocated.
std::optional<OpenError> Catalog::check_memory(const ExportSpec& spec) {
  const auto region = MemoryRegion::create(spec.memory_bytes);
  if (region) return std::nullopt;
  return OpenError{region.error().error, "export " + in_quotes(spec.name) + ": " + region.error().sentence};
}

Catalog::Checked Catalog::check_one(Shared& shared, const Numbered& one, CheckLocks locks) {
  const auto told = [&one](std::optional<OpenError> error) {
    return error ? Checked{Problem{one.spec.name, std::move(*error)}, {}} : Checked{};
  };
  if (one.index == kSearchPath) {
    const auto root = shared.search_path->open();
    return told(root ? std::nullopt : std::optional(root.error()));
  }
  if (one.spec.is_nbd()) return told(check_nbd(one.spec));
  if (one.spec.is_memory()) return told(check_memory(one.spec));
  return check_file(shared, one, locks);
}

Catalog::Checked Catalog::check_file(Shared& shared, const Numbered& one, CheckLocks locks) {
  const ExportSpec& spec = one.spec;
  const auto failed = [&spec](OpenError error) { return Checked{Problem{spec.name, std::move(error)}, {}}; };
  if (spec.read_only) look_at(shared, one.index, spec);
  auto located = locate_file(spec.path, describe(spec));
  if (!located) return failed(located.error());
  {
    const std::lock_guard guard(shared.mutex);
    std::erase_if(shared.checked, [&one](const auto& known) { return known.second == one.index; });
    shared.checked.emplace(located->id, one.index);
  }
  Checked result;
  ImageLocks::Hold hold;
  if (locks == CheckLocks::ask) {
    if (auto used = ImageLocks::host_use(*located, {!spec.read_only, spec.force}, describe(spec)))
      return failed(std::move(*used));
    result.warnings = ImageLocks::others(*located, !spec.read_only, describe(spec));
  } else {
    auto lock = shared.locks.acquire(*located, {!spec.read_only, spec.force}, describe(spec));
    if (lock) hold = std::move(*lock);
    if (!lock && lock.error().error == EBUSY) return failed(lock.error());
  }
  const auto device = Export::open(*located, {spec.read_only, 0, true}, describe(spec));
  if (!device)
    return failed({device.error().error, device.error().sentence + remedy(spec, device.error().error)});
  result.warnings.insert(result.warnings.end(), (*device)->warnings().begin(), (*device)->warnings().end());
  return result;
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
  auto lock = shared_->locks.acquire(*located, {!spec.read_only, spec.force}, describe(spec));
  if (!lock && lock.error().error == EBUSY) return tl::unexpected(lock.error());
  const auto device = Export::open(*located, {spec.read_only, 0, true}, describe(spec));
  if (device) prepared.warnings = (*device)->warnings();
  if (device) return prepared;
  return tl::unexpected(
      OpenError{device.error().error, device.error().sentence + remedy(spec, device.error().error)});
}

std::string Catalog::exported_as(const std::string& path) const {
  // Compares paths too, because the file may be missing. Does not access the disks of exports, because they
  // may hang.
  const std::string real = real_path(path);
  for (const ExportSpec& spec : specs())
    if (spec.is_file() && (plain_path(spec.path) == plain_path(path) || plain_path(spec.path) == real))
      return spec.name;
  UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return {};
  const auto located = identify(std::move(fd), path);
  if (!located) return {};
  const std::lock_guard guard(shared_->mutex);
  const auto found = shared_->checked.find(located->id);
  return found == shared_->checked.end() ? std::string() : name_of(found->second);
}

}  // namespace rtrs::daemon
