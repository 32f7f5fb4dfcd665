#include "tools/lib/control/kernel_nbd/attachment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace rtrs::kernel_nbd {

namespace {

constexpr std::string_view kMark = "urtrs1";

std::string coded(std::string_view text) {
  std::string all;
  for (const char c : text) {
    const auto value = static_cast<unsigned char>(c);
    if (value <= ' ' || value >= 0x7f || c == '%')
      all += fmt::format("%{:02x}", value);
    else
      all += c;
  }
  return all;
}

template <typename Number>
bool read_number(std::string_view text, Number& number, int base) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return !text.empty() && read.ec == std::errc() && read.ptr == text.data() + text.size();
}

std::optional<std::string> decoded(std::string_view text) {
  std::string all;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      all += text[at];
      continue;
    }
    unsigned value = 0;
    if (at + 2 >= text.size() || !read_number(text.substr(at + 1, 2), value, 16)) return std::nullopt;
    all += static_cast<char>(value);
    at += 2;
  }
  return all;
}

std::string line_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

std::string identity_of(const Attachment& what) {
  return fmt::format("{} {:x} {} {} {}", kMark, what.flags, what.wait, coded(what.socket), coded(what.name));
}

std::optional<Attachment> parse_identity(std::string_view text) {
  std::vector<std::string_view> words;
  while (words.size() < 6) {
    const std::size_t blank = text.find(' ');
    words.push_back(text.substr(0, blank));
    if (blank == std::string_view::npos) break;
    text.remove_prefix(blank + 1);
  }
  Attachment what;
  if (words.size() != 5 || words[0] != kMark || !read_number(words[1], what.flags, 16) ||
      !read_number(words[2], what.wait, 10))
    return std::nullopt;
  auto socket = decoded(words[3]);
  auto name = decoded(words[4]);
  if (!socket || !name || socket->empty()) return std::nullopt;
  what.socket = std::move(*socket);
  what.name = std::move(*name);
  return what;
}

std::optional<unsigned> index_of(std::string_view name) {
  unsigned index = 0;
  if (!name.starts_with("nbd") || !read_number(name.substr(3), index, 10)) return std::nullopt;
  return index;
}

std::vector<Attached> attached_devices(const std::string& blocks) {
  constexpr std::uint64_t kSector = 512;  // in bytes; unit of /sys/block/*/size
  std::vector<Attached> all;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(blocks, none)) {
    const auto index = index_of(entry.path().filename().string());
    if (!index) continue;
    auto what = parse_identity(line_in(entry.path() / "backend"));
    std::uint64_t sectors = 0;
    if (!what || !read_number(line_in(entry.path() / "size"), sectors, 10)) continue;
    all.push_back({*index, std::move(*what), sectors * kSector});
  }
  std::sort(all.begin(), all.end(), [](const Attached& a, const Attached& b) { return a.index < b.index; });
  return all;
}

std::string keeper_lock_file() {
  // Does not use the folder of the sockets of urtrs-mapd, because that folder can belong to another user.
  const char* const folder = std::getenv("URTRS_RUNTIME_DIR");
  return fmt::format("{}/kernel-devices.lock",
                     folder != nullptr && *folder != '\0' ? folder : "/run/urtrs-kernel-devices");
}

std::optional<bool> keeper_runs() {
  const int fd = ::open(keeper_lock_file().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? std::optional(false) : std::nullopt;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return held;
}

}  // namespace rtrs::kernel_nbd
