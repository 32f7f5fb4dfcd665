// Exports whose disk is at an NBD server. All opens of an export share one connection, so that a flush covers
// all their writes, even if the server does not support multi-conn.
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "tools/urtrsd/storage/catalog.hpp"
#include "tools/urtrsd/storage/in_parallel.hpp"

namespace rtrs::daemon {

// `shared_` keeps a disk that has unflushed changes or a recorded loss, even after the last device on it was
// closed. The log callback of the disk refers back to `shared_`, so the destructor must break this cycle.
Catalog::~Catalog() {
  set_log({});
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard guard(shared_->mutex);
    for (auto& [index, place] : shared_->nbd)
      tasks.emplace_back([place = std::move(place)]() mutable { place.reset(); });
    shared_->nbd.clear();
  }
  if (!tasks.empty()) in_parallel(std::move(tasks), kEndPatience);
}

void Catalog::set_log(NbdDisk::Tell tell) {
  const std::lock_guard guard(shared_->log_mutex);
  shared_->tell = std::move(tell);
}

void Catalog::wait_for_nbd(Nanos time) {
  const std::lock_guard guard(shared_->mutex);
  shared_->nbd_wait = time;
}

void Catalog::stop_waiting_for_nbd() {
  std::vector<std::shared_ptr<NbdPlace>> places;
  {
    const std::lock_guard guard(shared_->mutex);
    shared_->nbd_wait = 0;
    for (const auto& [index, place] : shared_->nbd) places.push_back(place);
  }
  for (const auto& place : places) {
    const std::unique_lock guard(place->mutex, std::try_to_lock);  // locked while another thread connects
    if (guard && place->disk != nullptr) place->disk->stop_waiting();
  }
}

std::vector<std::string> Catalog::lost_nbd() const {
  std::vector<std::string> names;
  std::map<std::size_t, std::shared_ptr<NbdPlace>> places;
  {
    const std::lock_guard guard(shared_->mutex);
    places = shared_->nbd;
  }
  for (const auto& [index, place] : places) {
    const std::unique_lock guard(place->mutex, std::try_to_lock);
    if (!guard || place->disk == nullptr || place->lent.expired() || place->disk->is_up()) continue;
    names.push_back(name_of(index));
  }
  return names;
}

struct Catalog::NbdLease {
  explicit NbdLease(std::shared_ptr<NbdPlace> of) : place(std::move(of)) {}
  NbdLease(const NbdLease&) = delete;
  NbdLease& operator=(const NbdLease&) = delete;
  ~NbdLease() {
    std::shared_ptr<NbdDisk> over;  // destroyed after the lock is released: the destructor waits for a thread
    const std::lock_guard guard(place->mutex);
    if (!place->lent.expired() || place->disk == nullptr) return;
    // Keeps a disk that has recorded losses: by their number, an open later notices that the cache has
    // changed.
    if (!place->disk->owes_flush() && place->disk->losses().count == 0) over = std::move(place->disk);
  }
  std::shared_ptr<NbdPlace> place;
};

tl::expected<std::shared_ptr<NbdDisk>, OpenError> Catalog::nbd_disk(const std::shared_ptr<Shared>& shared,
                                                                    std::size_t index,
                                                                    const ExportSpec& spec) {
  std::shared_ptr<NbdPlace> place;
  NbdDisk::Options options;
  {
    const std::lock_guard guard(shared->mutex);
    options.wait = shared->nbd_wait;
    auto& one = shared->nbd[index];
    if (one == nullptr) one = std::make_shared<NbdPlace>();
    place = one;
  }
  std::shared_ptr<NbdDisk> former;  // destroyed after the lock is released, like `over`
  const std::lock_guard guard(place->mutex);
  if (auto disk = place->lent.lock()) return disk;
  if (place->disk != nullptr) options.losses = place->disk->losses();
  if (place->disk == nullptr || !place->disk->is_up()) {
    auto made = NbdDisk::connect(
        spec.path, describe(spec),
        [shared](const std::string& line) {
          const std::lock_guard lock(shared->log_mutex);
          if (shared->tell) shared->tell(line);
        },
        options);
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
  auto disk = NbdDisk::connect(spec.path, describe(spec), [](const std::string&) {}, {});
  if (!disk) return disk.error();
  const auto device = Export::open_nbd(std::move(*disk), {}, {spec.read_only, 0}, describe(spec));
  if (device) return std::nullopt;
  return device.error();
}

}  // namespace rtrs::daemon
