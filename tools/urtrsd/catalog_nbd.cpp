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
  const std::lock_guard guard(place->mutex);
  if (auto disk = place->disk.lock()) return disk;
  auto disk = NbdDisk::connect(spec.path, describe(spec), [shared](const std::string& line) {
    NbdDisk::Tell tell;
    {
      const std::lock_guard lock(shared->mutex);
      tell = shared->tell;
    }
    if (tell) tell(line);
  });
  if (disk) place->disk = *disk;
  return disk;
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
