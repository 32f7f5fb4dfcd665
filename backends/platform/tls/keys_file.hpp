// Credential files: checks who can read them, and parses pre-shared keys.
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
using Keys = std::map<std::string, Key, std::less<>>;  // keyed by identity

// Errors of the functions below are messages for the user that name the file.
//
// Reads a regular file of at most `most` bytes. Never blocks: pipes and devices are rejected.
tl::expected<std::string, std::string> read_file(const std::string& path, std::size_t most);
// Reads a file that no other user can read or change. The owner must be the user of this process, root, or
// the user `checked_for`. The group may read the file if this process, or that user, is in the group.
using OtherOwner = std::optional<std::uint32_t>;
tl::expected<std::string, std::string> read_secret_file(const std::string& path, std::size_t most,
                                                        OtherOwner checked_for = {});

// Returns whether the user database lists the user as a member of the group. Takes numeric ids.
bool is_in_group(std::uint32_t user, std::uint32_t group);

// Parses one key per line, `identity:hex`, with 64 hex digits per key. Ignores blank lines and lines that
// start with #. The error names the line and never contains a key.
tl::expected<Keys, std::string> parse_keys(std::string_view text);
// Combines read_secret_file() and parse_keys(). A file without keys is an error.
tl::expected<Keys, std::string> read_keys(const std::string& path, OtherOwner checked_for = {});

// Like read_keys(), for managing the file: root may also read the file of another user, for example of a
// service.
tl::expected<Keys, std::string> list_keys(const std::string& path);

// Returns the line of a keys file for one key, including the newline.
std::string key_line(std::string_view identity, const Key&);
// Appends a key to the file and creates the file if needed. Locks the file, so concurrent calls wait. Rejects
// everything that read_secret_file() or parse_keys() rejects, and an identity that already has a key. Root
// may append to the file of any user; the owner does not change.
tl::expected<void, std::string> add_key(const std::string& path, std::string_view identity, const Key&);
// Fills the key with random bytes of the kernel; returns false on failure.
bool make_key(Key&) noexcept;

}  // namespace rtrs::tls
