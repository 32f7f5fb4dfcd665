#include "tools/urtrsd/storage/open_error.hpp"

#include <cerrno>
#include <string>
#include <system_error>

#include "tools/lib/text/printable.hpp"

namespace rtrs::daemon {

std::string in_quotes(std::string_view text) {
  std::string quoted;
  for (const char c : tools::shortened(std::string(text))) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return '"' + tools::printable(quoted) + '"';
}

std::string errno_text(int error) {
  return std::generic_category().message(error) + " (" + std::to_string(error) + ")";
}

int peer_errno(int error) noexcept {
  switch (error) {
    case EPERM:
    case EOPNOTSUPP:
    case ETIMEDOUT:
    case ENOSPC:
    case ENOLINK:
    case EREMOTEIO:
    case EBADE:
    case ENODATA:
    case EILSEQ:
    case ENOMEM:
    case EBUSY:
    case EAGAIN:
    case ENODEV:
    case ETIME:
    case EINVAL:
    case EREMCHG:
    case ETOOMANYREFS:
    case EOVERFLOW:
      return error;
    case EDQUOT:
      return ENOSPC;
    default:
      return EIO;
  }
}

}  // namespace rtrs::daemon
