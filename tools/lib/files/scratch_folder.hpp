// A new folder for temporary traces. The destructor deletes the folder and everything in it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace rtrs::tools {

class ScratchFolder {
 public:
  // Creates the folder in `base`. If that fails, path() is empty and errno has the cause.
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

}  // namespace rtrs::tools
