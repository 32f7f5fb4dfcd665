// Reads files of /proc and /sys.
#pragma once
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace rtrs::tools {

// Returns the first 4 KiB of the file without trailing newlines; nullopt if it cannot be read.
inline std::optional<std::string> read_kernel_file(const std::string& file) {
  std::ifstream in(file);
  std::array<char, 4096> room{};
  in.read(room.data(), room.size());
  if (in.gcount() == 0 && !in.eof()) return std::nullopt;
  std::string text(room.data(), static_cast<std::size_t>(in.gcount()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Returns the names of the entries of a folder, unsorted; an empty list if the folder does not exist.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error))
    names.push_back(at->path().filename());
  return names;
}

}  // namespace rtrs::tools
