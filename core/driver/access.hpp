// Access rules by address, identity and session name. A value type that uses no clock and no sockets.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs {

// "10.0.0.0/8", "fd00::/8", or one address. IPv4 addresses are stored as ::ffff:a.b.c.d, so that both
// notations match the same address.
struct AddressRange {
  std::array<std::uint8_t, 16> bytes{};
  unsigned bits = 128;  // prefix length in bits
  bool operator==(const AddressRange&) const = default;
};

// An empty list allows every client; a non-empty list allows only its entries.
struct AccessRules {
  std::vector<AddressRange> addresses;
  std::vector<std::string> identities;
  std::vector<std::string> sessions;
  std::string text[3];  // original text, for messages
  bool operator==(const AccessRules&) const = default;
  [[nodiscard]] bool any() const noexcept {
    return !addresses.empty() || !identities.empty() || !sessions.empty();
  }
};

// Parses comma-separated lists; blanks around a word are ignored. The error is a message that quotes the
// invalid word.
tl::expected<AccessRules, std::string> parse_access(std::string_view addresses, std::string_view identities,
                                                    std::string_view sessions);

// `peer` has the format of Fabric::describe_request(): "10.0.0.7:40112 > 10.0.0.2:1234". A peer that cannot
// be parsed matches no range. An empty `identity` (no identity) matches no list entry.
[[nodiscard]] bool allows_client(const AccessRules&, std::string_view peer, std::string_view identity);
// An entry may begin with %IDENTITY%, which stands for the client's identity with '_' for each '.', and may
// end with *, which matches any rest.
[[nodiscard]] bool allows_session(const AccessRules&, std::string_view name, std::string_view identity);

}  // namespace rtrs
