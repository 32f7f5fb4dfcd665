#include "tools/lib/control/attributes/map_request.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "backends/bindings/asio/path_syntax.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/control/attributes/written_values.hpp"

namespace rtrs::attributes {

namespace {

constexpr std::size_t kLongestName = 255;  // longer names are refused; accepted names are cut to kMaxKeptName
constexpr std::size_t kMaxKeptName = 254;

// Parses a decimal, hexadecimal (0x) or octal number with an optional sign.
std::optional<int> parse_number(std::string_view text) {
  const bool negative = text.substr(0, 1) == "-";
  if (negative || text.substr(0, 1) == "+") text.remove_prefix(1);
  if (text.empty() || text.front() == '+' || text.back() == '\n') return std::nullopt;
  const auto digits = parse_sectors(text);
  if (!digits || *digits > 0x7fffffffU) return std::nullopt;
  return negative ? -static_cast<int>(*digits) : static_cast<int>(*digits);
}

int set_name(std::string& name, std::string_view value) {
  if (value.size() > kLongestName) return EINVAL;
  name = value.substr(0, kMaxKeptName);
  return 0;
}

int add_path(MapRequest& request, std::string_view value) {
  if (request.paths.size() == kMaxMapPaths) return ENOMEM;
  auto path = parse_addresses(value, request.port, EPROTONOSUPPORT);
  if (!path) return path.error();
  request.paths.push_back(std::move(*path));
  return 0;
}

int set_mode(MapRequest& request, std::string_view value) {
  using wire::rnbd::AccessMode;
  for (const AccessMode one : {AccessMode::read_write, AccessMode::read_only, AccessMode::migration}) {
    if (value != wire::rnbd::to_string(one)) continue;
    request.mode = one;
    return 0;
  }
  return EINVAL;
}

int set_port(MapRequest& request, std::string_view value) {
  const auto port = parse_number(value);
  if (!port || *port < 0 || *port > 65535) return EINVAL;
  request.port = static_cast<std::uint16_t>(*port);
  return 0;
}

int set_poll_queues(MapRequest& request, std::string_view value, unsigned processors) {
  const auto queues = parse_number(value);
  if (!queues || *queues < -1 || *queues > static_cast<int>(processors)) return EINVAL;
  request.poll_queues = *queues;
  return 0;
}

int take_option(MapRequest& request, std::string_view option, unsigned processors) {
  const std::size_t equals = option.find('=');
  if (equals == std::string_view::npos || equals + 1 == option.size()) return EINVAL;
  const std::string_view key = option.substr(0, equals), value = option.substr(equals + 1);
  if (key == "sessname") return set_name(request.session, value);
  if (key == "device_path") return set_name(request.device, value);
  if (key == "path") return add_path(request, value);
  if (key == "dest_port") return set_port(request, value);
  if (key == "access_mode") return set_mode(request, value);
  if (key == "nr_poll_queues") return set_poll_queues(request, value, processors);
  return EINVAL;
}

}  // namespace

tl::expected<MapRequest, int> parse_map_request(std::string_view text, unsigned processors) {
  MapRequest request;
  text = stripped(text);
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    const std::string_view option = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (option.empty()) continue;
    if (const int error = take_option(request, option, processors); error != 0) return tl::unexpected(error);
  }
  if (request.session.empty() || request.device.empty()) return tl::unexpected(EINVAL);
  return request;
}

int new_session_problem(const MapRequest& request) {
  if (request.paths.empty()) return ENXIO;
  if (!wire::valid_session_name(request.session)) return EINVAL;
  const auto& paths = request.paths;
  for (auto one = paths.begin(); one != paths.end(); ++one)
    if (std::any_of(paths.begin(), one, [&](const auto& other) { return asio::same_path(*one, other); }))
      return EEXIST;
  return 0;
}

}  // namespace rtrs::attributes
