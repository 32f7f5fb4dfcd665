// Files of credentials: who may read them is checked, and pre-shared keys are read from text.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rtrs::tls {

inline constexpr std::size_t kKeyBytes = 32;
inline constexpr std::size_t kMaxKeys = 10'000;
inline constexpr std::size_t kMaxKeysFileBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMaxPemBytes = std::size_t{1} << 20;

using Key = std::array<unsigned char, kKeyBytes>;
using Keys = std::map<std::string, Key, std::less<>>;  // by identity

// The error is a sentence for the user, which names the file.
//
// A regular file of at most `most` bytes. Never waits: a pipe or a device is refused.
tl::expected<std::string, std::string> read_file(const std::string& path, std::size_t most);
// Reads a file that no other user can read or change. The owner must be the user of this process, root, or
// the user `checked_for`. The group may read the file if this process, or that user, is in the group.
using OtherOwner = std::optional<std::uint32_t>;
tl::expected<std::string, std::string> read_secret_file(const std::string& path, std::size_t most,
                                                        OtherOwner checked_for = {});

// Whether the user database puts the user into the group. Takes numbers of both.
bool is_in_group(std::uint32_t user, std::uint32_t group);

// One key a line, `identity:hex`, the key 64 digits; blank lines and those that begin with # are left out.
// The error names the line and never shows a key.
tl::expected<Keys, std::string> parse_keys(std::string_view text);
// read_secret_file() and parse_keys(). A file without a key is an error.
tl::expected<Keys, std::string> read_keys(const std::string& path, OtherOwner checked_for = {});

// The same for who manages the file: root may look into that of any user, as that of a service.
tl::expected<Keys, std::string> list_keys(const std::string& path);

// A line of such a file, with its end.
std::string key_line(std::string_view identity, const Key&);
// Puts a key behind those in the file, which is made if it is not there. Of two at once one waits. Refused is
// what read_secret_file() or parse_keys() refuses, and an identity that has a key. Root may add to the file
// of any user, who stays its owner.
tl::expected<void, std::string> add_key(const std::string& path, std::string_view identity, const Key&);
// From the kernel's random numbers; false when it gives none.
bool make_key(Key&) noexcept;

}  // namespace rtrs::tls
