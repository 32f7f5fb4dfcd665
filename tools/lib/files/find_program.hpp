// Finds another program of this project, so that it can be started.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace rtrs::tools {

// Looks in the folder of the running program, then in PATH. Returns an empty string if `name` is in neither.
inline std::string find_program(const std::string& name) {
  std::array<char, 4096> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  const char* path = std::getenv("PATH");
  std::string places = path == nullptr ? "" : path;
  if (length > 0) {
    const std::string program(self.data(), static_cast<std::size_t>(length));
    places = program.substr(0, program.rfind('/')) + ":" + places;
  }
  for (std::size_t begin = 0; begin <= places.size();) {
    const std::size_t end = std::min(places.find(':', begin), places.size());
    const std::string candidate = places.substr(begin, end - begin) + "/" + name;
    if (end != begin && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return "";
}

}  // namespace rtrs::tools
