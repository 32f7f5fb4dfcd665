// Exports that an NBD server holds. All opens of one share a connection: a flush then covers them all,
// whatever the server promises for several connections.
#include <cerrno>
#include <utility>

#include "tools/urtrsd/catalog.hpp"

namespace rtrs::daemon {

void Catalog::tell_with(NbdDisk::Tell tell) {
  const std::lock_guard guard(shared_->mutex);
  shared_->tell = std::move(tell);
}

struct Catalog::NbdLease {
  explicit NbdLease(std::shared_ptr<NbdPlace> of) : place(std::move(of)) {}
  NbdLease(const NbdLease&) = delete;
  NbdLease& operator=(const NbdLease&) = delete;
  ~NbdLease() {
    std::shared_ptr<NbdDisk> over;  // ends without the lock, for it waits for its thread
    const std::lock_guard guard(place->mutex);
    if (place->lent.expired() && place->disk != nullptr && !place->disk->owes_flush())
      over = std::move(place->disk);
  }
  std::shared_ptr<NbdPlace> place;
};

tl::expected<std::shared_ptr<NbdDisk>, OpenError> Catalog::nbd_disk(const std::shared_ptr<Shared>& shared,
                                                                    std::size_t index,
                                                                    const ExportSpec& spec) {
  std::shared_ptr<NbdPlace> place;
  {
    const std::lock_guard guard(shared->mutex);
    auto& one = shared->nbd[index];
    if (one == nullptr) one = std::make_shared<NbdPlace>();
    place = one;
  }
  std::shared_ptr<NbdDisk> former;  // as above
  const std::lock_guard guard(place->mutex);
  if (auto disk = place->lent.lock()) return disk;
  const bool owes_flush = place->disk != nullptr && place->disk->owes_flush();
  if (place->disk == nullptr || !place->disk->is_up()) {
    auto made = NbdDisk::connect(
        spec.path, describe(spec),
        [shared](const std::string& line) {
          NbdDisk::Tell tell;
          {
            const std::lock_guard lock(shared->mutex);
            tell = shared->tell;
          }
          if (tell) tell(line);
        },
        owes_flush);
    if (!made) return made;
    former = std::exchange(place->disk, std::move(*made));
  }
  std::shared_ptr<NbdDisk> lent(std::make_shared<NbdLease>(place), place->disk.get());
  place->lent = lent;
  return lent;
}

tl::expected<OpenedDevice, OpenError> Catalog::find_nbd(const Numbered& asked,
                                                        const Export::Options& options) {
  auto disk = nbd_disk(shared_, asked.index, asked.spec);
  if (!disk) return tl::unexpected(disk.error());
  auto device =
      Export::open_nbd(std::move(*disk), {ExportKind::nbd, 0, asked.index}, options, describe(asked.spec));
  if (!device) return tl::unexpected(device.error());
  return OpenedDevice{{}, {}, std::move(*device)};
}

std::optional<OpenError> Catalog::check_nbd(const ExportSpec& spec) {
  auto disk = NbdDisk::connect(spec.path, describe(spec), [](const std::string&) {});
  if (!disk) return disk.error();
  const auto device = Export::open_nbd(std::move(*disk), {}, {spec.read_only, 0}, describe(spec));
  if (device) return std::nullopt;
  return device.error();
}

}  // namespace rtrs::daemon
