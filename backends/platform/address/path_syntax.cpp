#include "backends/platform/address/path_syntax.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace rtrs::net {
namespace {

tl::unexpected<std::string> refuse(std::string_view text, std::string_view why) {
  return tl::unexpected("path '" + std::string(text) + "': " + std::string(why));
}

bool is_plain(std::string_view address) {
  for (const char c : address) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && std::string_view("-._:[]%").find(c) == std::string_view::npos) return false;
  }
  return true;
}

bool is_ipv6(std::string_view address) {
  const std::string text(address.substr(0, address.find('%')));  // the address without its scope
  in6_addr six{};
  return ::inet_pton(AF_INET6, text.c_str(), &six) == 1;
}

// True for text of digits and dots that is not an IPv4 address; host names do not have this form.
bool is_broken_ipv4(std::string_view host) {
  in_addr four{};
  return host.find_first_not_of("0123456789.") == std::string_view::npos &&
         ::inet_aton(std::string(host).c_str(), &four) == 0;
}

bool read_port(std::string_view text, std::uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size();
}

// Returns the error in an address with an optional port; empty if there is none.
std::string address_error(std::string_view text, bool takes_port) {
  const bool brackets = text.front() == '[';
  const std::size_t end = brackets ? text.find(']') : text.find(':');
  if (!brackets && end != std::string_view::npos && text.find(':', end + 1) != std::string_view::npos)
    return is_ipv6(text) ? "" : "is not an IPv6 address; with a port it is written [ADDRESS]:PORT";
  if (brackets && (end == std::string_view::npos || !is_ipv6(text.substr(1, end - 1))))
    return "has no IPv6 address in brackets";
  const std::size_t colon = brackets ? end + 1 : end;
  if (!brackets && end != 0 && is_broken_ipv4(text.substr(0, end))) return "is not an IPv4 address";
  if (colon == std::string_view::npos || colon == text.size()) return "";
  if (!takes_port) return "has a port; only the destination takes one";
  if (colon == 0) return "is empty before its port";
  std::uint16_t port = 0;
  if (text[colon] != ':' || !read_port(text.substr(colon + 1), port) || port == 0)
    return "has an invalid port (1 to 65535)";
  return "";
}

std::string_view without_ip(std::string_view text) {
  return text.substr(0, 3) == "ip:" ? text.substr(3) : text;
}

// Returns the address without its prefix, or the error.
tl::expected<std::string, std::string> checked_address(std::string_view text, std::string_view which) {
  const bool gid = text.substr(0, 4) == "gid:";
  text = without_ip(text);
  if (text.empty() || (gid && text.size() == 4))
    return tl::unexpected("the " + std::string(which) + " address is empty");
  if (!is_plain(text))
    return tl::unexpected("the " + std::string(which) + " address has an invalid character");
  if (const std::string trouble = gid ? "" : address_error(text, which == "destination"); !trouble.empty())
    return tl::unexpected("the " + std::string(which) + " address " + trouble);
  return std::string(text);
}

struct Endpoint {
  std::string host;  // host, without brackets
  std::uint16_t port = 0;
};

// Splits host and port in the same way as the fabrics: "[::1]:7", "[::1]", "1.2.3.4:7", "name:7"; text with
// several colons and no brackets is an IPv6 address. A malformed text becomes the host unchanged.
Endpoint endpoint_of(const PathAddress& path) {
  const std::string_view text = without_ip(path.destination);
  Endpoint endpoint{std::string(text), path.port};
  if (text.substr(0, 4) == "gid:") return endpoint;
  const bool brackets = !text.empty() && text.front() == '[';
  const std::size_t end = brackets ? text.find(']') : text.find(':');
  if (end == std::string_view::npos) return endpoint;
  const std::size_t colon = brackets ? end + 1 : end;
  if (!brackets && text.find(':', colon + 1) != std::string_view::npos) return endpoint;
  const bool has_port = colon < text.size();
  std::uint16_t port = path.port;
  if (has_port && (text[colon] != ':' || !read_port(text.substr(colon + 1), port))) return endpoint;
  return {std::string(brackets ? text.substr(1, end - 1) : text.substr(0, end)), port};
}

// Returns one spelling for all equal addresses: IP addresses in binary, other texts in lower case.
std::string canonical(std::string_view text) {
  std::string kind;
  if (text.substr(0, 4) == "gid:") {
    kind = "gid:";
    text.remove_prefix(4);
  }
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  std::string address(text);
  in_addr four{};
  if (::inet_aton(address.c_str(), &four) != 0)
    return kind + "4" + std::string(reinterpret_cast<const char*>(&four), sizeof four);
  in6_addr six{};
  // The scope is not converted to lower case: names of interfaces are case-sensitive.
  const std::size_t scope = std::min(address.find('%'), address.size());
  if (::inet_pton(AF_INET6, address.substr(0, scope).c_str(), &six) == 1)
    return kind + "6" + std::string(reinterpret_cast<const char*>(&six), sizeof six) + address.substr(scope);
  for (char& c : address) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return kind + "n" + address;
}

}  // namespace

bool lacks_interface(const std::string& host) {
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LINKLOCAL(&six);
}

bool same_path(const PathAddress& a, const PathAddress& b) {
  const Endpoint one = endpoint_of(a), other = endpoint_of(b);
  return one.port == other.port && canonical(one.host) == canonical(other.host) &&
         a.source.empty() == b.source.empty() &&
         canonical(without_ip(a.source)) == canonical(without_ip(b.source));
}

tl::expected<PathAddress, std::string> parse_path(std::string_view text, std::uint16_t port) {
  if (text.empty()) return refuse(text, "expected [source@]destination, for example 10.0.0.1@10.0.0.2");
  PathAddress path;
  path.port = port;
  const std::size_t separator = text.find_first_of("@,");
  if (separator != std::string_view::npos) {
    if (text.find_first_of("@,", separator + 1) != std::string_view::npos)
      return refuse(text, "more than one '@' or ','; give each path separately");
    auto source = checked_address(text.substr(0, separator), "source");
    if (!source) return refuse(text, source.error());
    path.source = std::move(*source);
  }
  const std::size_t begin = separator == std::string_view::npos ? 0 : separator + 1;
  auto destination = checked_address(text.substr(begin), "destination");
  if (!destination) return refuse(text, destination.error());
  path.destination = std::move(*destination);
  // The interface of the source address also determines the interface of the destination.
  const bool has_scope = path.source.find('%') != std::string::npos;
  if (lacks_interface(path.source) || (!has_scope && lacks_interface(endpoint_of(path).host)))
    return refuse(text, "a link-local address needs its interface, as in fe80::1%eth0");
  return path;
}

std::string endpoint_text(const PathAddress& path) {
  const Endpoint endpoint = endpoint_of(path);
  const bool brackets = endpoint.host.find(':') != std::string::npos;
  return (brackets ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

std::uint16_t port_of(const PathAddress& path) {
  return endpoint_of(path).port;
}

std::string to_text(const PathAddress& path) {
  return path.source.empty() ? path.destination : path.source + "@" + path.destination;
}

}  // namespace rtrs::net
