#include "backends/platform/tls/keys_file.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "backends/platform/address/unique_fd.hpp"
#include "backends/platform/tls/identity.hpp"
#include "backends/platform/tls/own_identity.hpp"

namespace rtrs::tls {
namespace {

constexpr const char* kIdentityRule = "an identity is 1 to 128 of A-Z a-z 0-9 . _ : @ -";

using Text = tl::expected<std::string, std::string>;

// Checks of owner and mode that a file must pass.
struct Secret {
  bool is = true;  // false: the file is not secret
  bool any_owner_for_root = false;
  OtherOwner other_owner{};
};

tl::unexpected<std::string> refused(const std::string& path, const std::string& why) {
  return tl::unexpected(path + ": " + why);
}

tl::unexpected<std::string> failed(const std::string& path, const char* what) {
  const int error = errno;
  return refused(path, std::string(what) + ": " + std::generic_category().message(error) + " (" +
                           std::to_string(error) + ")");
}

std::string user(std::uint32_t number) {
  return "user " + std::to_string(number);
}

std::vector<gid_t> own_groups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  groups.push_back(::getegid());
  return groups;
}

bool contains(const std::vector<gid_t>& groups, gid_t group) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

// Returns a command that lets this process read a file of another owner, without taking access from the
// owner.
std::string share_with_group(const std::string& path, gid_t group) {
  return "chgrp " + std::to_string(group) + " " + path + " && chmod 640 " + path;
}

std::string chmod_advice(const std::string& path, const struct stat& about, bool in_group) {
  if (about.st_uid != ::geteuid())
    return in_group ? "chmod 640 " + path : share_with_group(path, ::getegid());
  return "chmod 600 " + path;
}

std::string secrecy_problem(const std::string& path, const struct stat& about, const Secret& secret) {
  const bool may_be_of_others = secret.any_owner_for_root && ::geteuid() == 0;
  if (about.st_uid != ::geteuid() && about.st_uid != 0 && about.st_uid != secret.other_owner &&
      !may_be_of_others) {
    const std::string whose = "it belongs to " + user(about.st_uid) + ", who could change it; chown it to ";
    return secret.other_owner ? whose + "the " + user(*secret.other_owner) + " of the service, or to root"
                              : whose + "the " + user(::geteuid()) + " of this process, or to root";
  }
  const bool in_group = may_be_of_others || contains(own_groups(), about.st_gid) ||
                        (secret.other_owner && is_in_group(*secret.other_owner, about.st_gid));
  const bool shared = (about.st_mode & 040U) != 0;
  if ((about.st_mode & 037U) == 0 && (!shared || in_group)) return {};
  std::string why = "its mode is 0";
  for (const unsigned shift : {6U, 3U, 0U}) why += static_cast<char>('0' + (about.st_mode >> shift & 7U));
  if ((about.st_mode & 037U) != 0)
    return why + ", so that other users may read or change it; " + chmod_advice(path, about, in_group);
  const std::string group = std::to_string(about.st_gid);
  return why + ", and this process is not in the group " + group +
         " that may read it; start the process with " +
         "this group too, or, if no other member of the group needs the file, chmod 600 " + path;
}

// Returns advice for a file that this process has no permission to open. The suggested command keeps access
// for other readers, because the file may have its group on purpose.
std::string open_failure_advice(const std::string& path) {
  struct stat about {};
  const std::string who = user(::geteuid());
  std::string what = "cannot be opened: Permission denied (13); ";
  if (::stat(path.c_str(), &about) != 0) return what + "let " + who + " of this process through its folders";
  if ((about.st_mode & 040U) != 0 && !contains(own_groups(), about.st_gid))
    return what + "start this process with the group " + std::to_string(about.st_gid) +
           " of the file too, or " + share_with_group(path, ::getegid());
  return what + "let " + who + " of this process read it: " + share_with_group(path, ::getegid());
}

Text read(const net::UniqueFd& file, const std::string& path, std::size_t most, const Secret& secret) {
  if (!file && errno == EACCES && secret.is) return refused(path, open_failure_advice(path));
  if (!file) return failed(path, "cannot be opened");
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return failed(path, "cannot be examined");
  if (!S_ISREG(about.st_mode)) return refused(path, "not a regular file");
  if (secret.is) {
    std::string why = secrecy_problem(path, about, secret);
    if (!why.empty()) return refused(path, why);
  }
  std::string text;
  for (;;) {
    std::array<char, 4096> piece;
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path, "cannot be read");
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > most) return refused(path, "longer than " + std::to_string(most) + " bytes");
  }
}

Text read(const std::string& path, std::size_t most, const Secret& secret) {
  return read(net::UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), path, most,
              secret);
}

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::optional<Key> key_of(std::string_view hex) noexcept {
  if (hex.size() != 2 * kKeyBytes) return std::nullopt;
  Key key{};
  for (std::size_t i = 0; i < key.size(); ++i) {
    const int high = digit_of(hex[2 * i]);
    const int low = digit_of(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return key;
}

std::string_view trimmed(std::string_view line) noexcept {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = line.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlank) - first + 1);
}

// Adds the key of a line to `keys`. Returns the reason if the line is invalid, else an empty string.
std::string take_line(std::string_view line, Keys& keys) {
  // Split at the last colon: an identity may contain colons, a key may not.
  const std::size_t colon = line.rfind(':');
  if (colon == std::string_view::npos) return "not IDENTITY:KEY";
  const std::string_view identity = line.substr(0, colon);
  if (!is_identity(identity)) return kIdentityRule;
  const std::optional<Key> key = key_of(line.substr(colon + 1));
  if (!key) return "a key is 64 hexadecimal digits (32 bytes); `urtrs key new` creates one";
  if (keys.size() == kMaxKeys) return "more than " + std::to_string(kMaxKeys) + " keys";
  if (!keys.emplace(std::string(identity), *key).second) return "duplicate key of " + std::string(identity);
  return {};
}

}  // namespace

bool is_in_group(std::uint32_t user, std::uint32_t group) {
  const passwd* const found = ::getpwuid(user);
  if (found == nullptr) return false;
  std::vector<gid_t> groups(NGROUPS_MAX + 1);
  int count = NGROUPS_MAX + 1;
  if (::getgrouplist(found->pw_name, found->pw_gid, groups.data(), &count) < 0) return false;
  groups.resize(static_cast<std::size_t>(count));
  return contains(groups, group);
}

Text read_file(const std::string& path, std::size_t most) {
  return read(path, most, {.is = false});
}

Text read_secret_file(const std::string& path, std::size_t most, OtherOwner checked_for) {
  return read(path, most, {.other_owner = checked_for});
}

tl::expected<Keys, std::string> parse_keys(std::string_view text) {
  Keys keys;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::string why = take_line(line, keys);
    if (!why.empty()) return tl::unexpected("line " + std::to_string(number) + ": " + why);
  }
  return keys;
}

namespace {

tl::expected<Keys, std::string> keys_of(const std::string& path, const Text& text) {
  if (!text) return tl::unexpected(text.error());
  tl::expected<Keys, std::string> keys = parse_keys(*text);
  if (!keys) return refused(path, keys.error());
  if (keys->empty()) return refused(path, "no key in it; `urtrs key new` creates one");
  return keys;
}

}  // namespace

tl::expected<Keys, std::string> read_keys(const std::string& path, OtherOwner checked_for) {
  return keys_of(path, read_secret_file(path, kMaxKeysFileBytes, checked_for));
}

tl::expected<Keys, std::string> list_keys(const std::string& path) {
  return keys_of(path, read(path, kMaxKeysFileBytes, {.any_owner_for_root = true}));
}

std::string key_line(std::string_view identity, const Key& key) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string line(identity);
  line += ':';
  for (const unsigned char octet : key) {
    line += kDigits[octet >> 4U];
    line += kDigits[octet & 15U];
  }
  return line + '\n';
}

tl::expected<void, std::string> add_key(const std::string& path, std::string_view identity, const Key& key) {
  if (!is_identity(identity)) return tl::unexpected<std::string>(kIdentityRule);
  const net::UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
  if (file) ::flock(file.get(), LOCK_EX);
  // The file may belong to the user of urtrsd; root may read and write it.
  const Text text = read(file, path, kMaxKeysFileBytes, {.any_owner_for_root = true});
  if (!text) return tl::unexpected(text.error());
  const auto keys = parse_keys(*text);
  if (!keys) return refused(path, keys.error());
  if (keys->find(identity) != keys->end())
    return refused(path, "a key of " + std::string(identity) + " already exists; remove its line first");
  const std::string line = (text->empty() || text->back() == '\n' ? "" : "\n") + key_line(identity, key);
  const ssize_t written = ::write(file.get(), line.data(), line.size());
  if (written < 0 || ::fsync(file.get()) != 0) return failed(path, "cannot be written");
  if (static_cast<std::size_t>(written) != line.size()) return refused(path, "was not written whole");
  return {};
}

std::string identity_of_keys(const std::string& file, const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  const auto keys = read_keys(file);
  return keys && keys->size() == 1 ? keys->begin()->first : std::string();
}

bool make_key(Key& key) noexcept {
  return ::getrandom(key.data(), key.size(), 0) == static_cast<ssize_t>(key.size());
}

}  // namespace rtrs::tls
