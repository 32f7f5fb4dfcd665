// Who may come in, by address, identity and session name. A value; no clock, no sockets.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs {

// "10.0.0.0/8", "fd00::/8", or one address. IPv4 stands in IPv6 as ::ffff:a.b.c.d, so that both name the
// same.
struct AddressRange {
  std::array<std::uint8_t, 16> bytes{};
  unsigned bits = 128;  // of the front that have to be the same
  bool operator==(const AddressRange&) const = default;
};

// An empty list lets everybody in, another one those alone that it names.
struct AccessRules {
  std::vector<AddressRange> addresses;
  std::vector<std::string> identities;
  std::vector<std::string> sessions;
  std::string text[3];  // as they were written, for people
  bool operator==(const AccessRules&) const = default;
  [[nodiscard]] bool any() const noexcept {
    return !addresses.empty() || !identities.empty() || !sessions.empty();
  }
};

// Each a list with commas; blanks around a word do not count. The error is a sentence that names the word.
tl::expected<AccessRules, std::string> parse_access(std::string_view addresses, std::string_view identities,
                                                    std::string_view sessions);

// `peer` as Fabric::describe_request() or describe() gives it: "10.0.0.7:40112 > 10.0.0.2:1234". One that
// cannot be read is in no range. `identity` is empty where there is none, and then on no list.
[[nodiscard]] bool allows_client(const AccessRules&, std::string_view peer, std::string_view identity);
// A word of the list may begin with %IDENTITY%, which stands for the client's own with '_' for each '.', and
// end with *, for any rest.
[[nodiscard]] bool allows_session(const AccessRules&, std::string_view name, std::string_view identity);

}  // namespace rtrs
