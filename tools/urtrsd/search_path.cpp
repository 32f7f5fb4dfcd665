#include "tools/urtrsd/search_path.hpp"

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
constexpr int kRaceRetries = 8;         // openat2 answers EAGAIN when a rename races with the lookup

constexpr int kPathOnly = O_PATH | O_CLOEXEC;

int openat2_path(int directory, const char* name, std::uint64_t resolve, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = resolve;
  return static_cast<int>(::syscall(SYS_openat2, directory, name, &how, sizeof how));
}

// Below "/" nothing can be outside, and absolute links are usual there: they are resolved from "/" itself.
std::uint64_t resolve_flags(bool below_slash) {
  return RESOLVE_NO_MAGICLINKS | (below_slash ? RESOLVE_IN_ROOT : RESOLVE_BENEATH);
}

// Follows no symbolic link at all: stricter than openat2, but safe on a kernel without it.
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

tl::expected<SearchPath, OpenError> SearchPath::create(std::string path, Confinement how) {
  SearchPath result;
  result.path_ = std::move(path);
  if (result.path_.empty() || result.path_.size() >= kPathMax || result.path_.find('\0') != std::string::npos)
    return refuse(EINVAL, "dev_search_path must have 1 to 4095 bytes");
  const std::size_t token = result.path_.find(kSessionToken);
  result.per_session_ = token != std::string::npos;
  result.prefix_ = result.path_.substr(0, token);
  if (result.prefix_.empty()) result.prefix_ = ".";
  result.root_.reset(::open(result.prefix_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!result.root_) {
    const int error = errno;
    return refuse(error,
                  "dev_search_path " + in_quotes(result.prefix_) + " cannot be used: " + errno_text(error));
  }
  if (how == Confinement::automatic) {
    // Old kernels answer ENOSYS, some container filters EPERM.
    const UniqueFd probe(openat2_path(result.root_.get(), ".", RESOLVE_BENEATH, kPathOnly));
    result.kernel_confines_ = static_cast<bool>(probe);
    if (!probe)
      result.warnings_.push_back("openat2(2) is not available (" + errno_text(errno) +
                                 "): no symbolic link under " + in_quotes(result.prefix_) + " is followed");
  }
  return result;
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
  if (!per_session_) return open_beneath(root_.get(), relative, flags, described);

  if (session.empty() || session == "." || session == ".." || session.find('/') != std::string_view::npos ||
      session.find('\0') != std::string_view::npos)
    return refuse(EINVAL, described + " is refused: this session name cannot be used as a directory name");
  auto directory =
      open_beneath(root_.get(), std::string(session), kPathOnly, "directory " + in_quotes(session));
  if (!directory) return directory;
  return open_beneath(directory->get(), relative, flags, described);
}

}  // namespace rtrs::daemon
