#include "tools/urtrsd/storage/host_holders.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

namespace rtrs::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 4;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

// Decodes the escapes of proc(5): a backslash and three octal digits stand for space, tab, line feed or
// backslash.
std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3 && code < 256) {
      result += static_cast<char>(code);
      i += 3;
    } else {
      result += text[i];
    }
  }
  return result;
}

// A device whose use counts as use of the examined device: that device (`itself`), its partitions, or the
// disk that contains it.
struct Member {
  std::string number;  // device number, for example "8:1"
  std::string name;    // device name, for example "sda1"
  fs::path folder;     // directory in sysfs
  bool itself = false;
};

// Returns the device, its partitions and, if it is a partition, its disk.
std::vector<Member> members_of(const std::string& root, const std::string& number) {
  std::error_code error;
  const fs::path folder = fs::canonical(root + "/sys/dev/block/" + number, error);
  if (error) return {{number, {}, {}, true}};
  std::vector<Member> all{{number, folder.filename(), folder, true}};
  const auto add = [&all](const fs::path& other) {
    const std::string its = first_line(other / "dev");
    if (!its.empty()) all.push_back({its, other.filename(), other, false});
  };
  if (fs::exists(folder / "partition", error)) add(folder.parent_path());
  for (const fs::path& entry : entries_of(folder))
    if (fs::exists(entry / "partition", error)) add(entry);
  return all;
}

// Returns "MAJOR:MINOR" for the path of a block device; empty for other paths.
std::string number_of(const std::string& root, const std::string& path) {
  if (path.rfind("/dev/", 0) != 0) return {};
  struct stat status {};
  if (::stat((root + path).c_str(), &status) == 0 && S_ISBLK(status.st_mode))
    return std::to_string(major(status.st_rdev)) + ":" + std::to_string(minor(status.st_rdev));
  return first_line(root + "/sys/class/block/" + fs::path(path).filename().string() + "/dev");
}

// Returns the mount point in a line of proc_pid_mountinfo(5), or an empty string if the line is not about
// device `number`. Format of a line: "36 35 98:0 /root /mount/point options [tags] - type source options".
std::string mount_point(const std::string& root, const std::string& line, const std::string& number) {
  std::istringstream words(line);
  std::string word;
  std::vector<std::string> front;
  while (words >> word && word != "-") front.push_back(word);
  std::string type;
  std::string source;
  words >> type >> source;
  if (front.size() < 5) return {};
  const bool here = front[2] == number || number_of(root, unescaped(source)) == number;
  return here ? unescaped(front[4]) : std::string();
}

void add_mounts(const std::string& root, const std::string& number, std::vector<std::string>& uses) {
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; uses.size() <= kMaxNamed && std::getline(mounts, line);)
    if (const std::string point = mount_point(root, line, number); !point.empty())
      uses.push_back("mounted at " + in_quotes(point));
}

void add_swap(const std::string& root, const std::string& number, std::vector<std::string>& uses) {
  std::ifstream swaps(root + "/proc/swaps");
  for (std::string line; std::getline(swaps, line);)
    if (number_of(root, unescaped(line.substr(0, line.find_first_of(" \t")))) == number)
      uses.emplace_back("used as swap");
}

// Adds devices that are built on top of this device, such as "part of dm-0 (vg-data)" or "part of md0".
void add_stacked(const fs::path& folder, std::vector<std::string>& uses) {
  if (folder.empty()) return;
  for (const fs::path& holder : entries_of(folder / "holders")) {
    const std::string label = first_line(holder / "dm/name");
    uses.push_back("part of " + holder.filename().string() + (label.empty() ? "" : " (" + label + ")"));
  }
}

std::string joined(const std::vector<std::string>& uses) {
  std::string text;
  for (std::size_t i = 0; i < std::min(uses.size(), kMaxNamed); ++i) text += (i == 0 ? "" : ", ") + uses[i];
  return text + (uses.size() > kMaxNamed ? ", ..." : "");
}

}  // namespace

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string HostHolders::of_device(unsigned major, unsigned minor) const {
  std::vector<std::string> uses;
  for (const Member& member : members_of(root_, std::to_string(major) + ":" + std::to_string(minor))) {
    std::vector<std::string> its;
    add_mounts(root_, member.number, its);
    add_swap(root_, member.number, its);
    add_stacked(member.folder, its);
    for (const std::string& use : its) uses.push_back(member.itself ? use : member.name + " " + use);
  }
  return joined(uses);
}

std::string HostHolders::of_file(const std::string& path) const {
  std::vector<std::string> uses;
  for (const fs::path& device : entries_of(root_ + "/sys/block")) {
    const std::string name = device.filename();
    if (name.rfind("loop", 0) != 0 || first_line(device / "loop/backing_file") != path ||
        first_line(device / "ro") == "1")
      continue;
    unsigned major = 0;
    unsigned minor = 0;
    const std::string number = first_line(device / "dev");
    const std::size_t colon = number.find(':');
    if (colon == std::string::npos) continue;
    std::from_chars(number.data(), number.data() + colon, major);
    std::from_chars(number.data() + colon + 1, number.data() + number.size(), minor);
    const std::string its = of_device(major, minor);
    uses.push_back("/dev/" + name + " is a loop device on it" + (its.empty() ? "" : ", " + its));
  }
  return joined(uses);
}

std::string host_holders(const Located& located) {
  const HostHolders host;
  if (located.id.kind == ExportKind::block_device)
    return host.of_device(static_cast<unsigned>(located.id.major), static_cast<unsigned>(located.id.minor));
  return host.of_file(path_of(located));
}

std::string in_use_by_host(const std::string& described, const std::string& holders) {
  return described + " is in use by this host: " +
         (holders.empty() ? "a mount of another container, or a process that claimed it (O_EXCL)" : holders) +
         ": " + errno_text(EBUSY) +
         "; a client that writes to it would destroy what this host keeps on it: stop that use, export it "
         "with ,ro, or with ,force if you know that the host does not write";
}

}  // namespace rtrs::daemon
