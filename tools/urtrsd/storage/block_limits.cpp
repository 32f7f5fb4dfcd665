#include "tools/urtrsd/storage/block_limits.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <limits>

namespace rtrs::daemon {
namespace {

constexpr std::uint32_t kMaxRangeSectors = 0xffffffffU / kSectorBytes;  // bi_size of the kernel has 32 bits
constexpr std::uint32_t kMaxBlockSize = 4096;                           // clients accept at most one page
constexpr std::uint32_t kMaxPhysicalBlockSize = 32768;
constexpr std::uint32_t kHwSectors = 2048;  // clients ignore the value and use max_io_size of the session
constexpr std::uint32_t kSegments = 128;

// Returns the content of /sys/dev/block/MAJ:MIN/queue/NAME. A partition has no queue directory, so the queue
// of its disk, one level up, is used.
std::string queue_attribute(dev_t device, const char* name) {
  const std::string base =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  for (const char* queue : {"/queue/", "/../queue/"}) {
    const UniqueFd fd(::open((base + queue + name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) continue;
    std::array<char, 64> text{};
    const ssize_t size = ::read(fd.get(), text.data(), text.size());
    if (size <= 0) continue;
    std::string value(text.data(), static_cast<std::size_t>(size));
    while (!value.empty() && value.back() == '\n') value.pop_back();
    return value;
  }
  return {};
}

std::uint64_t queue_number(dev_t device, const char* name) {
  const std::string text = queue_attribute(device, name);
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? value : 0;
}

std::uint32_t range_sectors(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / kSectorBytes, kMaxRangeSectors));
}

std::uint32_t power_of_two_within(std::uint64_t value, std::uint32_t low, std::uint32_t high) {
  return std::bit_floor(static_cast<std::uint32_t>(std::clamp<std::uint64_t>(value, low, high)));
}

// True if the file system can punch holes. The test punches a hole far beyond the end of the file, where it
// affects neither data nor preallocated space, even if another process appends to the file at the same time.
bool punches_holes(int fd, off_t size) {
  constexpr off_t kBytes = 4096;
  for (const off_t beyond : {off_t{1} << 40, off_t{1} << 30}) {
    if (size > std::numeric_limits<off_t>::max() - beyond - kBytes) continue;
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, size + beyond, kBytes) == 0) return true;
    if (errno != EFBIG) return false;
  }
  return false;
}

}  // namespace

tl::expected<DeviceFacts, int> block_device_facts(int fd, dev_t device) {
  DeviceFacts facts;
  int logical = 0;
  unsigned int physical = 0;
  int read_only = 0;
  if (::ioctl(fd, BLKGETSIZE64, &facts.size) != 0 || ::ioctl(fd, BLKSSZGET, &logical) != 0 ||
      ::ioctl(fd, BLKPBSZGET, &physical) != 0 || ::ioctl(fd, BLKROGET, &read_only) != 0)
    return tl::unexpected(errno);
  if (logical < 512 || static_cast<std::uint32_t>(logical) > kMaxBlockSize) return tl::unexpected(EINVAL);
  facts.read_only = read_only != 0;
#ifdef BLKGETDISKSEQ
  // The ioctl exists since Linux 5.15.
  if (::ioctl(fd, BLKGETDISKSEQ, &facts.sequence) != 0) facts.sequence = 0;
#endif
  rnbd::Geometry& geometry = facts.geometry;
  geometry.logical_block_size = static_cast<std::uint32_t>(logical);
  geometry.physical_block_size =
      power_of_two_within(physical, geometry.logical_block_size, kMaxPhysicalBlockSize);
  const std::uint64_t hw_kb = queue_number(device, "max_hw_sectors_kb");
  geometry.max_hw_sectors = hw_kb == 0 ? kHwSectors : range_sectors(hw_kb * 1024);
  const std::uint64_t segments = queue_number(device, "max_segments");
  geometry.max_segments =
      segments == 0 ? kSegments : static_cast<std::uint32_t>(std::min<std::uint64_t>(segments, 0xffff));
  // Linux punches a hole in a block device with an offloaded write-zeroes, so discards need a device that
  // supports both operations.
  const std::uint64_t zeroes = queue_number(device, "write_zeroes_max_bytes");
  geometry.max_discard_sectors = range_sectors(std::min(zeroes, queue_number(device, "discard_max_bytes")));
  geometry.max_write_zeroes_sectors = kMaxRangeSectors;
  if (geometry.max_discard_sectors != 0) {
    const std::uint64_t granularity = queue_number(device, "discard_granularity");
    geometry.discard_granularity = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(granularity, geometry.logical_block_size, 1U << 31));
  }
  geometry.write_cache = queue_attribute(device, "write_cache") != "write through";
  geometry.fua = true;
  return facts;
}

tl::expected<DeviceFacts, int> file_facts(int fd, bool writable, bool tries_hole) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return tl::unexpected(errno);
  DeviceFacts facts;
  facts.size = static_cast<std::uint64_t>(status.st_size);
  rnbd::Geometry& geometry = facts.geometry;
  const auto block = static_cast<std::uint64_t>(std::max<blksize_t>(status.st_blksize, 512));
  geometry.physical_block_size = power_of_two_within(block, 512, 4096);
  geometry.max_hw_sectors = kHwSectors;
  geometry.max_segments = kSegments;
  geometry.write_cache = true;
  geometry.fua = true;
  if (!writable) return facts;
  geometry.max_write_zeroes_sectors = kMaxRangeSectors;
  if (tries_hole && punches_holes(fd, status.st_size)) {
    geometry.max_discard_sectors = kMaxRangeSectors;
    geometry.discard_granularity = geometry.physical_block_size;
  }
  return facts;
}

rnbd::Geometry nbd_geometry(const NbdFacts& facts, bool writable) {
  rnbd::Geometry geometry;
  geometry.logical_block_size = power_of_two_within(facts.block, 512, 32768);
  geometry.physical_block_size = power_of_two_within(facts.preferred, geometry.logical_block_size, 32768);
  geometry.max_hw_sectors = kHwSectors;
  geometry.max_segments = kSegments;
  geometry.write_cache = facts.cached;
  geometry.fua = facts.cached;
  if (!writable) return geometry;
  geometry.max_write_zeroes_sectors = kMaxRangeSectors;
  if (facts.discards) {
    geometry.max_discard_sectors = kMaxRangeSectors;
    geometry.discard_granularity = geometry.physical_block_size;
  }
  return geometry;
}

rnbd::Geometry memory_geometry() {
  rnbd::Geometry geometry;
  geometry.physical_block_size = 4096;
  geometry.max_hw_sectors = kHwSectors;
  geometry.max_segments = kSegments;
  geometry.max_discard_sectors = kMaxRangeSectors;
  geometry.max_write_zeroes_sectors = kMaxRangeSectors;
  geometry.discard_granularity = 4096;
  return geometry;
}

}  // namespace rtrs::daemon
