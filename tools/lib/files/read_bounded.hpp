// Reads a file that the user named into memory. The size limit protects against endless files such as
// devices.
#pragma once
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::tools {

// Returns the contents of a file of at most `most` MiB. The error text, such as "it is larger than 1 MiB",
// does not contain the name of the file.
inline tl::expected<std::string, std::string> read_bounded(const std::string& path, std::size_t most) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::vector<char> part(std::size_t{1} << 16);
  while (file) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > most << 20)
      return tl::make_unexpected("it is larger than " + std::to_string(most) + " MiB");
  }
  if (file.is_open() && !file.bad()) return text;
  const int error = errno != 0 ? errno : EIO;
  return tl::make_unexpected(std::strerror(error) + (" (errno " + std::to_string(error) + ")"));
}

}  // namespace rtrs::tools
