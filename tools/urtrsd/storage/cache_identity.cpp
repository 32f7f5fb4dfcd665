#include "tools/urtrsd/storage/cache_identity.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {
namespace {

// FNV-1a hash over the eight bytes of each value.
class Hash {
 public:
  void add(std::uint64_t value) noexcept {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      value_ ^= (value >> shift) & 0xff;
      value_ *= 0x100000001b3;
    }
  }
  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

std::string boot_id() {
  const UniqueFd fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::array<char, 64> text{};
  const ssize_t size = ::read(fd.get(), text.data(), text.size());
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace

CacheIdentity CacheIdentity::of_system() {
  std::random_device source;
  return {boot_id(), std::uint64_t{source()} << 32 | source()};
}

std::uint64_t CacheIdentity::instance(const DeviceId& id, std::uint64_t sequence) const {
  const bool memory = id.kind == ExportKind::memory;
  if (!memory && !knows_host()) return 0;
  // For an NBD server without recorded losses the identity is unknown, because the server may have lost
  // writes since an earlier urtrsd process used it.
  const bool nbd = id.kind == ExportKind::nbd;
  if (nbd && sequence == 0 && failed_syncs_.find(id) == failed_syncs_.end()) return 0;
  Hash hash;
  hash.add(static_cast<std::uint64_t>(id.kind));
  if (memory || nbd) hash.add(process_);
  for (const char c : memory ? std::string() : boot_) hash.add(static_cast<unsigned char>(c));
  hash.add(id.major);
  hash.add(id.minor);
  hash.add(sequence);
  const auto failed = failed_syncs_.find(id);
  // The failure count alone would not be unique, because each process counts from 0. Therefore the number of
  // the process is added to the hash.
  if (failed != failed_syncs_.end()) {
    hash.add(process_);
    hash.add(failed->second);
  }
  return std::max<std::uint64_t>(hash.value(), 1);
}

}  // namespace rtrs::daemon
