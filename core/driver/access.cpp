#include "core/driver/access.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

namespace rtrs {
namespace {

constexpr unsigned kAddressBits = 128;
constexpr unsigned kMappedBits = 96;  // prefix of an IPv4-mapped IPv6 address

std::optional<AddressRange> parse_address(std::string_view text) {
  std::array<char, INET6_ADDRSTRLEN> word{};
  if (text.size() >= word.size()) return std::nullopt;
  std::memcpy(word.data(), text.data(), text.size());
  AddressRange range;
  if (::inet_pton(AF_INET6, word.data(), range.bytes.data()) == 1) return range;
  if (::inet_pton(AF_INET, word.data(), range.bytes.data() + 12) != 1) return std::nullopt;
  range.bytes[10] = range.bytes[11] = 0xff;
  return range;
}

std::optional<AddressRange> parse_range(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string_view address = text.substr(0, slash);
  std::optional<AddressRange> range = parse_address(address);
  if (!range || slash == std::string_view::npos) return range;
  const std::string_view number = text.substr(slash + 1);
  const unsigned front = address.find(':') == std::string_view::npos ? kMappedBits : 0;
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), bits);
  if (error != std::errc{} || end != number.data() + number.size() || bits > kAddressBits - front)
    return std::nullopt;
  range->bits = front + bits;
  return range;
}

bool is_in(const AddressRange& range, const AddressRange& address) noexcept {
  const unsigned whole = range.bits / 8;
  if (!std::equal(range.bytes.begin(), range.bytes.begin() + whole, address.bytes.begin())) return false;
  const unsigned rest = range.bits % 8;
  return rest == 0 || ((range.bytes[whole] ^ address.bytes[whole]) >> (8 - rest)) == 0;
}

std::optional<AddressRange> address_of(std::string_view peer) {
  std::string_view client = peer.substr(0, peer.find(" > "));
  const std::size_t colon = client.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  client = client.substr(0, colon);
  if (client.size() >= 2 && client.front() == '[' && client.back() == ']')
    client = client.substr(1, client.size() - 2);
  // Ranges have no scope: "fe80::1%eth0" is in fe80::/10.
  return parse_address(client.substr(0, client.find('%')));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return words;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Session names contain no '.', so a '.' of the identity matches '_' in the name.
bool begins_with(std::string_view name, std::string_view identity) {
  const auto is_letter = [](char of_name, char of_identity) {
    return of_name == (of_identity == '.' ? '_' : of_identity);
  };
  return name.size() >= identity.size() &&
         std::equal(identity.begin(), identity.end(), name.begin(),
                    [&](char of_identity, char of_name) { return is_letter(of_name, of_identity); });
}

bool is_named(std::string_view word, std::string_view name, std::string_view identity) {
  constexpr std::string_view kIdentity = "%IDENTITY%";
  if (word.substr(0, kIdentity.size()) == kIdentity) {
    if (identity.empty() || !begins_with(name, identity)) return false;
    word.remove_prefix(kIdentity.size());
    name.remove_prefix(identity.size());
  }
  if (word.empty() || word.back() != '*') return word == name;
  word.remove_suffix(1);
  return name.substr(0, word.size()) == word;
}

}  // namespace

tl::expected<AccessRules, std::string> parse_access(std::string_view addresses, std::string_view identities,
                                                    std::string_view sessions) {
  AccessRules rules;
  for (const std::string& word : words_of(addresses)) {
    const std::optional<AddressRange> range = parse_range(word);
    if (!range) return tl::unexpected("\"" + word + "\" is neither an address nor a range like 10.0.0.0/8");
    rules.addresses.push_back(*range);
  }
  rules.identities = words_of(identities);
  rules.sessions = words_of(sessions);
  const std::string_view given[] = {addresses, identities, sessions};
  const bool empty[] = {rules.addresses.empty(), rules.identities.empty(), rules.sessions.empty()};
  for (unsigned i = 0; i < 3; ++i) {
    // An empty list would allow every client, although a restriction was intended.
    if (!given[i].empty() && empty[i]) return tl::unexpected<std::string>("the list is empty");
    rules.text[i] = given[i];
  }
  return rules;
}

bool allows_client(const AccessRules& rules, std::string_view peer, std::string_view identity) {
  if (!rules.identities.empty() && (identity.empty() || !has(rules.identities, identity))) return false;
  if (rules.addresses.empty()) return true;
  const std::optional<AddressRange> address = address_of(peer);
  return address && std::any_of(rules.addresses.begin(), rules.addresses.end(),
                                [&](const AddressRange& range) { return is_in(range, *address); });
}

bool allows_session(const AccessRules& rules, std::string_view name, std::string_view identity) {
  const auto names = [&](std::string_view word) { return is_named(word, name, identity); };
  return rules.sessions.empty() || std::any_of(rules.sessions.begin(), rules.sessions.end(), names);
}

}  // namespace rtrs
