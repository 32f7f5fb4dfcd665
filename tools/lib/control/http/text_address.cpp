#include "tools/lib/control/http/text_address.hpp"

#include <arpa/inet.h>
#include <sys/un.h>

#include <array>
#include <charconv>

namespace rtrs::http {
namespace {

// Accepts an IPv6 address with a zone, such as fe80::1%eth0.
bool is_ip(const std::string& host) {
  std::array<unsigned char, 16> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), address.data()) == 1;
}

}  // namespace

tl::expected<TextAddress, std::string> parse_text_address(const std::string& text) {
  TextAddress result;
  if (!text.empty() && text.front() == '/') {
    if (text.size() >= sizeof(sockaddr_un::sun_path))
      return tl::unexpected("the name of a unix socket has at most " +
                            std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
    result.socket = text;
    return result;
  }
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string::npos && colon + 1 < text.size();
  const char* end = text.data() + text.size();
  const auto parsed =
      has_port ? std::from_chars(text.data() + colon + 1, end, result.port) : std::from_chars_result{};
  if (!has_port || parsed.ptr != end || parsed.ec != std::errc())
    return tl::unexpected(std::string("expected ADDRESS:PORT or the path of a unix socket"));
  result.host = text.substr(0, colon);
  if (result.host.size() >= 2 && result.host.front() == '[' && result.host.back() == ']')
    result.host = result.host.substr(1, result.host.size() - 2);
  if (!is_ip(result.host))
    return tl::unexpected("\"" + result.host + "\" is not an IP address; host names are not resolved");
  return result;
}

}  // namespace rtrs::http
