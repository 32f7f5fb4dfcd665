#include "tools/urtrsd/storage/export.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cassert>
#include <cerrno>
#include <limits>
#include <utility>

#include "tools/urtrsd/storage/block_limits.hpp"

namespace rtrs::daemon {
namespace {

// Opens block devices with O_DIRECT, like the kernel server. The client has a page cache, so the server needs
// none, and buffered writes to a block device would each need a thread, because they cannot be started
// asynchronously.
int flags_for_io(const Located& located, bool read_only) {
  return (read_only ? O_RDONLY : O_RDWR) | (located.id.kind == ExportKind::block_device ? O_DIRECT : 0);
}

}  // namespace

tl::expected<std::shared_ptr<MemoryRegion>, OpenError> MemoryRegion::create(std::uint64_t size) {
  if (size == 0 || size > std::numeric_limits<std::size_t>::max())
    return refuse(EINVAL, "a memory device cannot have " + std::to_string(size) + " bytes");
  void* data =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return refuse(ENOMEM, "no address space for a memory device of " + std::to_string(size) +
                              " bytes; use a smaller size");
  return std::shared_ptr<MemoryRegion>(new MemoryRegion(static_cast<std::byte*>(data), size));
}

MemoryRegion::~MemoryRegion() {
  ::munmap(data_, size_);
}

tl::expected<std::unique_ptr<Export>, OpenError> Export::open(const Located& located, const Options& options,
                                                              const std::string& described) {
  std::unique_ptr<Export> result(new Export);
  result->id_ = located.id;
  result->options_ = options;
  result->fd_ = reopen(located, flags_for_io(located, options.read_only));
  if (!result->fd_) {
    const int error = errno;
    return refuse(error, described + " cannot be opened for " + (options.read_only ? "reading" : "writing") +
                             ": " + errno_text(error));
  }
  const bool is_file = located.id.kind == ExportKind::file;
  const dev_t device =
      makedev(static_cast<unsigned int>(located.id.major), static_cast<unsigned int>(located.id.minor));
  auto facts = is_file ? file_facts(result->fd_.get(), !options.read_only, !options.only_checked)
                       : block_device_facts(result->fd_.get(), device);
  if (!facts) return refuse(facts.error(), described + " cannot be inspected: " + errno_text(facts.error()));
  if (facts->read_only && !options.read_only)
    return refuse(EACCES, described + " is a read-only block device and cannot be opened for writing");
  result->sequence_ = facts->sequence;
  result->geometry_ = facts->geometry;
  if (options.read_only)
    result->geometry_.max_discard_sectors = result->geometry_.max_write_zeroes_sectors = 0;
  if (auto rounded = result->set_size(facts->size, described); !rounded)
    return tl::unexpected(rounded.error());
  return result;
}

tl::expected<std::unique_ptr<Export>, OpenError> Export::open_memory(std::shared_ptr<MemoryRegion> region,
                                                                     const DeviceId& id,
                                                                     const Options& options,
                                                                     const std::string& described) {
  std::unique_ptr<Export> result(new Export);
  result->id_ = id;
  result->options_ = options;
  const std::uint64_t size = region->bytes().size();
  result->region_ = std::move(region);
  result->page_size_ = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));
  result->geometry_ = memory_geometry();
  if (options.read_only)
    result->geometry_.max_discard_sectors = result->geometry_.max_write_zeroes_sectors = 0;
  if (auto rounded = result->set_size(size, described); !rounded) return tl::unexpected(rounded.error());
  return result;
}

tl::expected<std::unique_ptr<Export>, OpenError> Export::open_nbd(std::shared_ptr<NbdDisk> disk,
                                                                  const DeviceId& id, const Options& options,
                                                                  const std::string& described) {
  if (disk->read_only() && !options.read_only)
    return refuse(EACCES, described + ": its NBD server serves it read-only");
  std::unique_ptr<Export> result(new Export);
  result->id_ = id;
  result->options_ = options;
  result->geometry_ = disk->geometry();
  if (options.read_only)
    result->geometry_.max_discard_sectors = result->geometry_.max_write_zeroes_sectors = 0;
  const NbdLink::Losses losses = disk->losses();
  result->nbd_seen_ = losses.seen_at_open();
  result->sequence_ = losses.count;
  const std::uint64_t size = disk->size_bytes();
  result->nbd_ = std::move(disk);
  if (auto rounded = result->set_size(size, described); !rounded) return tl::unexpected(rounded.error());
  return result;
}

tl::expected<void, OpenError> Export::set_size(std::uint64_t bytes, const std::string& described) {
  const std::uint64_t excess = bytes % geometry_.logical_block_size;
  geometry_.nsectors = (bytes - excess) / kSectorBytes;
  geometry_.features = wire::rnbd::kFeaturePreflush | wire::rnbd::kFeatureNounmap;
  if (geometry_.nsectors == 0)
    return refuse(EINVAL, described + (bytes == 0 ? " is empty" : " is smaller than one block of 512 bytes") +
                              "; a device needs at least one block");
  if (excess != 0)
    warnings_.push_back(described + " has " + std::to_string(bytes) + " bytes, not a multiple of " +
                        std::to_string(geometry_.logical_block_size) + ": the last " +
                        std::to_string(excess) + " bytes are not exported");
  return {};
}

std::uint64_t Export::measure() const noexcept {
  std::uint64_t size = 0;
  struct stat status {};
  if (nbd_ != nullptr) return nbd_->size_bytes();
  if (id_.kind == ExportKind::block_device && ::ioctl(fd_.get(), BLKGETSIZE64, &size) == 0) return size;
  if (id_.kind == ExportKind::file && ::fstat(fd_.get(), &status) == 0)
    return static_cast<std::uint64_t>(status.st_size);
  return 0;
}

void Export::resize(std::uint64_t bytes) noexcept {
  if (bytes != 0) geometry_.nsectors = (bytes - bytes % geometry_.logical_block_size) / kSectorBytes;
}

Export::~Export() {
  assert(in_flight_ == 0);
}

}  // namespace rtrs::daemon
