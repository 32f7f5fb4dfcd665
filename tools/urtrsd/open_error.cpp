#include "tools/urtrsd/open_error.hpp"

#include <cerrno>
#include <system_error>

namespace rtrs::daemon {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMaxShown = 200;
  constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      result += "\\x";
      result += kHex[byte >> 4];
      result += kHex[byte & 0xf];
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  if (text.size() > kMaxShown) result += "...";
  return result + '"';
}

std::string errno_text(int error) {
  return std::generic_category().message(error);
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
