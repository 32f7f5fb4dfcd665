#include "tools/urtrsd/storage/search_path.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <utility>

namespace rtrs::daemon {
namespace {

constexpr std::string_view kSessionToken = "%SESSNAME%";
constexpr std::size_t kPathMax = 4096;  // protocol section 8.6
constexpr int kRaceRetries = 8;         // openat2 fails with EAGAIN if a rename races with the lookup

constexpr int kPathOnly = O_PATH | O_CLOEXEC;

int openat2_path(int directory, const char* name, std::uint64_t resolve, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = resolve;
  return static_cast<int>(::syscall(SYS_openat2, directory, name, &how, sizeof how));
}

// Flags that keep the lookup below the directory. If the directory is "/", no link can leave it, and absolute
// links, which are common there, are resolved from "/".
std::uint64_t resolve_flags(bool below_slash) {
  return RESOLVE_NO_MAGICLINKS | (below_slash ? RESOLVE_IN_ROOT : RESOLVE_BENEATH);
}

// For kernels without openat2: opens `name` component by component and rejects every symbolic link.
UniqueFd walk(int directory, std::string_view name, int flags) {
  UniqueFd current;
  while (true) {
    const std::size_t end = name.find('/');
    const std::string component(name.substr(0, end));
    const bool last = end == std::string_view::npos;
    if (!component.empty()) {
      const int from = current ? current.get() : directory;
      UniqueFd next(::openat(from, component.c_str(), (last ? flags : kPathOnly) | O_NOFOLLOW));
      if (!next) return next;
      struct stat status {};
      if (::fstat(next.get(), &status) != 0) return UniqueFd();
      if (S_ISLNK(status.st_mode)) {
        errno = EXDEV;
        return UniqueFd();
      }
      current = std::move(next);
    }
    if (last) return current;
    name.remove_prefix(end + 1);
  }
}

std::string_view without_leading_slashes(std::string_view name) {
  const std::size_t start = name.find_first_not_of('/');
  return start == std::string_view::npos ? std::string_view() : name.substr(start);
}

}  // namespace

SearchPath::SearchPath(std::string path, Confinement how) : path_(std::move(path)) {
  const std::size_t token = path_.find(kSessionToken);
  per_session_ = token != std::string::npos;
  prefix_ = path_.substr(0, token);
  if (prefix_.empty()) prefix_ = ".";
  if (how != Confinement::automatic) return;
  // If openat2 is not available, old kernels return ENOSYS, and some container filters return EPERM.
  const UniqueFd probe(openat2_path(AT_FDCWD, "/", RESOLVE_NO_MAGICLINKS, kPathOnly));
  kernel_confines_ = static_cast<bool>(probe);
  if (!probe)
    warnings_.push_back("openat2(2) is not available: " + errno_text(errno) + "; no symbolic link under " +
                        in_quotes(prefix_) + " is followed");
}

tl::expected<UniqueFd, OpenError> SearchPath::open() const {
  if (path_.empty() || path_.size() >= kPathMax || path_.find('\0') != std::string::npos)
    return refuse(EINVAL, "dev_search_path must have 1 to 4095 bytes");
  UniqueFd root(::open(prefix_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root) return root;
  const int error = errno;
  return refuse(error, "dev_search_path " + in_quotes(prefix_) + " cannot be used: " + errno_text(error));
}

tl::expected<UniqueFd, OpenError> SearchPath::open_beneath(int directory, const std::string& name, int flags,
                                                           const std::string& described) const {
  UniqueFd found;
  for (int attempt = 0; attempt < kRaceRetries; ++attempt) {
    errno = 0;
    if (kernel_confines_)
      found.reset(
          openat2_path(directory, name.c_str(), resolve_flags(prefix_ == "/" && !per_session_), flags));
    else
      found = walk(directory, name, flags);
    if (found || (errno != EAGAIN && errno != EINTR)) break;
  }
  if (found) return found;
  const int error = errno;
  if (error == EXDEV || error == ELOOP) {
    const std::string why = kernel_confines_ ? "a symbolic link leads out of dev_search_path "
                                             : "symbolic links are not followed under dev_search_path ";
    return refuse(EACCES, described + " is refused: " + why + in_quotes(path_));
  }
  return refuse(error == EAGAIN ? EBUSY : error,
                described + " cannot be opened under " + in_quotes(path_) + ": " + errno_text(error));
}

std::string SearchPath::path_of(std::string_view session, std::string_view name) const {
  return prefix_ + "/" + (per_session_ ? std::string(session) + "/" : "") +
         std::string(without_leading_slashes(name));
}

tl::expected<UniqueFd, OpenError> SearchPath::locate(std::string_view session, std::string_view name,
                                                     int flags) const {
  const std::string described = "device " + in_quotes(name) + " of session " + in_quotes(session);
  const std::string relative(without_leading_slashes(name));
  if (relative.empty()) return refuse(EINVAL, described + " is refused: the name is empty");
  if (name.find("..") != std::string_view::npos)
    return refuse(EINVAL, described + " is refused: the name contains \"..\"");
  if (name.find('\0') != std::string_view::npos)
    return refuse(EINVAL, described + " is refused: the name contains a zero byte");
  const std::size_t session_size = per_session_ ? session.size() + 1 : 0;
  if (prefix_.size() + session_size + 1 + name.size() >= kPathMax)
    return refuse(EINVAL, described + " is refused: the path is longer than 4095 bytes");
  const auto root = open();
  if (!root) return tl::unexpected(root.error());
  if (!per_session_) return open_beneath(root->get(), relative, flags, described);

  if (session.empty() || session == "." || session == ".." || session.find('/') != std::string_view::npos ||
      session.find('\0') != std::string_view::npos)
    return refuse(EINVAL, described + " is refused: this session name cannot be used as a directory name");
  auto directory =
      open_beneath(root->get(), std::string(session), kPathOnly, "directory " + in_quotes(session));
  if (!directory) return directory;
  return open_beneath(directory->get(), relative, flags, described);
}

}  // namespace rtrs::daemon
