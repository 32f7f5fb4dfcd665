// A new folder that goes with this object, for traces that nobody keeps.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace rtrs::trace {

class ScratchFolder {
 public:
  // In `base`, or where temporary files are; path() is empty when it cannot be made (errno tells why).
  explicit ScratchFolder(const std::filesystem::path& base = temporary()) {
    std::string name = (base / "urtrs-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  static std::filesystem::path temporary() {
    std::error_code none;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
    return none ? std::filesystem::path("/tmp") : folder;
  }

  std::filesystem::path path_;
};

}  // namespace rtrs::trace
