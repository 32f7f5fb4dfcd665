// Catalog of the exports of this daemon: the configured devices by name, and the files under dev_search_path.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "core/driver/access.hpp"
#include "tools/urtrsd/storage/access_table.hpp"
#include "tools/urtrsd/storage/cache_identity.hpp"
#include "tools/urtrsd/storage/export.hpp"
#include "tools/urtrsd/storage/image_locks.hpp"
#include "tools/urtrsd/storage/search_path.hpp"

namespace rtrs::daemon {

// A configured export. Exactly one of `path` and `memory_bytes` is set.
struct ExportSpec {
  std::string name;  // name that peers request; leading slashes are ignored
  // File, or URI of an NBD server. The administrator chose it, so the file may be anywhere.
  std::string path;
  std::uint64_t memory_bytes = 0;  // > 0: a memory device of this size
  bool read_only = false;
  std::uint32_t delay_ms = 0;
  AccessRules allow{};  // clients that may open the export under this name
  bool force = false;   // allow writers even if this host uses the device
  bool is_memory() const noexcept { return memory_bytes != 0; }
  bool is_nbd() const noexcept { return !is_memory() && NbdDisk::is_uri(path); }
  bool is_file() const noexcept { return !is_memory() && !is_nbd(); }
  bool operator==(const ExportSpec&) const = default;
};

std::string describe(const ExportSpec& spec);  // description for messages

// True if both names select the same export. Leading slashes are ignored.
bool same_export(std::string_view a, std::string_view b);

// A device that a session has opened. The destructor closes the device, then releases its lock and its lease,
// and may block. The lease alone can be released earlier without blocking.
struct OpenedDevice {
  Lease lease;
  ImageLocks::Hold lock;
  std::unique_ptr<Export> device;
  std::uint64_t instance = 0;  // identity of the cache of the device (CacheIdentity); 0: unknown
  std::string name = {};       // name that the peer requested
  // Number of the configured export; nullopt: a file under dev_search_path.
  std::optional<std::size_t> configured = {};
};

// The catalog must outlive every OpenedDevice that it returned. Only functions marked as thread-safe may be
// called from other threads. Memory devices keep their content from the first open until the catalog is
// destroyed.
class Catalog {
 public:
  // Closes the connections to NBD servers that no open device uses, and waits up to kEndPatience for their
  // threads. After that, no thread calls Tell.
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Maximum time that the check of an export may take.
  static constexpr std::chrono::seconds kPatience{3};
  static constexpr std::chrono::seconds kEndPatience{1};

  // If `search_path` is nullopt, only configured devices can be opened. Error EEXIST: a name is configured
  // twice.
  static tl::expected<std::unique_ptr<Catalog>, OpenError> create(
      std::vector<ExportSpec> specs, const std::optional<std::string>& search_path,
      Confinement how = Confinement::automatic);

  // Calls find(), then admit(). Errors: ENOENT, ENOTBLK (not a file or block device), EACCES (read-only,
  // outside the search path, or not permitted), EBUSY (locked by another process), EPERM (too many writers),
  // EINVAL (invalid name, or empty device), and the errors of open(2).
  tl::expected<OpenedDevice, OpenError> open(std::string_view session, std::string_view name,
                                             AccessMode mode);

  // Opens and locks the device. Blocks as long as the device does. Thread-safe.
  tl::expected<OpenedDevice, OpenError> find(std::string_view session, std::string_view name,
                                             AccessMode mode);
  // Acquires the lease for a device that find() returned for the same arguments. Never blocks. Error: EPERM.
  tl::expected<void, OpenError> admit(OpenedDevice& opened, std::string_view session, std::string_view name,
                                      AccessMode mode);

  // An export that peers could not open now. Unless it is exported read-only, opening includes opening for
  // writing.
  struct Problem {
    std::string name;  // name of the export; empty: dev_search_path
    OpenError why;
    // The check got no answer within kPatience, so the export may be in order.
    bool late = false;
  };
  // Opens dev_search_path and every configured device in parallel, as peers would, but without a lease.
  // `take` also locks each device; it reports a device that another process has locked as a problem. `ask`
  // takes no lock; it reports a device that another process has locked as a warning.
  enum class CheckLocks : std::uint8_t { ask, take };
  std::vector<Problem> check(CheckLocks locks);
  // Checks one export again (an empty name stands for dev_search_path). Blocks at most kPatience. If a thread
  // of an earlier call still waits for the same export, no second thread is started and the result is a
  // problem with `late` set. Thread-safe.
  struct Checked {
    std::optional<Problem> problem;
    std::vector<std::string> warnings;  // about the size of the export
  };
  Checked check_again(const std::string& name);
  // Facts that add() needs about the file of an export. prepare() reads the file, so it blocks as long as the
  // disk does; it is thread-safe. The error says why peers could not open the file.
  struct Prepared {
    std::string path;  // path without symbolic links; empty for memory
    DeviceId id;
    std::vector<std::string> warnings;  // about the size of the file
  };
  tl::expected<Prepared, OpenError> prepare(const ExportSpec& spec) const;
  // Adds an export. Error: EEXIST. If `prepared` is null, the file is not yet known, and check_again() must
  // be called next.
  tl::expected<void, OpenError> add(const ExportSpec& spec, const Prepared* prepared);
  // Removes an export, so that it can no longer be opened. Devices that are open stay open, and the content
  // of a memory device is freed when the last open device is closed. Returns false if there is no such
  // export.
  bool remove(std::string_view name);

  // Returns the name of the export whose file has this path, even if the file does not exist yet; empty if
  // there is none.
  std::string exported_as(const std::string& path) const;
  // Records a failed sync of a device. Later opens of the device, by any export name, get a new cache
  // instance.
  void on_failed_sync(const DeviceId& id) { cache_.on_failed_sync(id); }
  // True if an open of the export needs file descriptors: all exports except memory devices do.
  bool takes_descriptors(std::string_view name) const;
  // Returns the configured exports.
  std::vector<ExportSpec> specs() const;
  // Sets the access rules for later opens of the export.
  void allow(const std::string& name, const AccessRules&);
  const AccessTable& access() const { return access_; }
  // Sets the function that receives log lines about lost and reconnected NBD servers; other threads may call
  // it too. When set_log() returns, the previous function is no longer called. An empty function disables
  // these lines.
  void set_log(NbdDisk::Tell tell);
  // Sets the time that IO waits for a lost NBD server, initially 0. The time applies to servers that are
  // connected later.
  void wait_for_nbd(Nanos time);
  // Returns the names of the open exports whose NBD server is lost.
  std::vector<std::string> lost_nbd() const;
  // Fails all IO that waits for an NBD server. Later IO fails instead of waiting.
  void stop_waiting_for_nbd();
  // Returns warnings about the search path, and about properties of devices that the protocol cannot tell
  // clients.
  std::vector<std::string> warnings() const;

 private:
  Catalog() = default;
  // An export and its number. The number never changes, because open devices refer to it.
  struct Numbered {
    std::size_t index = 0;
    ExportSpec spec;
  };
  std::optional<Numbered> named(std::string_view name) const;
  std::string name_of(std::size_t index) const;
  std::vector<Numbered> numbered() const;
  tl::expected<OpenedDevice, OpenError> find_spec(const Numbered& asked, std::string_view session,
                                                  AccessMode mode);
  tl::expected<OpenedDevice, OpenError> open_located(Located located, const Export::Options& options,
                                                     bool force, const std::string& described);
  void check_missing_read_only();
  tl::expected<void, OpenError> may_write(const Located& located, const std::string& described,
                                          std::string_view session, AccessMode mode);
  // `session` and `name` must stay valid until the result is opened.
  tl::expected<Located, OpenError> locate(std::string_view session, std::string_view name,
                                          const std::string& described);
  void look_at_read_only_files();

  // Guards data that one thread changes and that threads in find() read. Lock it after all other mutexes.
  mutable std::mutex names_mutex_;
  std::map<std::size_t, ExportSpec> specs_;  // keyed by export number
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::size_t next_ = 0;  // number of the next export

  // State that threads in find() share. Threads that wait for a hanging disk may use it even after the
  // catalog was destroyed.
  struct ReadOnly {
    std::string path;  // path without symbolic links
    DeviceId id;
    bool known = false;   // `id` is known
    bool looked = false;  // `path` was examined
  };
  // The connection to the server of an NBD export, which all sessions with the export open share. While one
  // open connects, other opens wait. The connection is closed with the last open device, unless there are
  // unflushed writes: then it stays, so that a later open can report whether they were lost.
  struct NbdPlace {
    std::mutex mutex;
    std::shared_ptr<NbdDisk> disk;
    std::weak_ptr<NbdDisk> lent;
  };
  struct NbdLease;
  struct Shared {
    ImageLocks locks;
    std::mutex mutex;
    std::map<std::size_t, ReadOnly> read_only;     // read-only exports
    std::multimap<DeviceId, std::size_t> checked;  // numbers of the exports of each device
    std::set<std::size_t> asking;                  // numbers of the exports whose check is still running
    std::map<std::size_t, std::shared_ptr<NbdPlace>> nbd;
    std::mutex log_mutex;  // held while `tell` is called
    NbdDisk::Tell tell;
    Nanos nbd_wait = 0;
    std::optional<SearchPath> search_path;  // never changed
  };
  static constexpr std::size_t kSearchPath =
      ~std::size_t{0};  // stands for dev_search_path where an export number is expected
  static void look_at(Shared& shared, std::size_t index, const ExportSpec& spec);
  // Defined in catalog_nbd.cpp.
  static tl::expected<std::shared_ptr<NbdDisk>, OpenError> nbd_disk(const std::shared_ptr<Shared>& shared,
                                                                    std::size_t index,
                                                                    const ExportSpec& spec);
  static std::optional<OpenError> check_nbd(const ExportSpec& spec);
  static std::optional<OpenError> check_memory(const ExportSpec& spec);
  tl::expected<OpenedDevice, OpenError> find_nbd(const Numbered& asked, const Export::Options& options);
  static void remember_read_only(Shared& shared, std::size_t index, const DeviceId* id);
  static Checked check_one(Shared& shared, const Numbered& one, CheckLocks locks);
  static Checked check_file(Shared& shared, const Numbered& one, CheckLocks locks);
  // Returns a call of check_one() as a task for a thread that may hang forever.
  static std::function<void()> check_task(std::shared_ptr<Shared> shared, const Numbered& one,
                                          CheckLocks locks, std::shared_ptr<Checked> answer);
  static Problem late(const ExportSpec& spec);
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::string> odd_;  // warnings about sizes that check() found
  std::map<std::size_t, std::shared_ptr<MemoryRegion>> memory_;

  // Access rules that admit() applies.
  AccessTable access_;
  CacheIdentity cache_ = CacheIdentity::of_system();
  std::map<DeviceId, std::weak_ptr<SlotShare>> shares_;
};

}  // namespace rtrs::daemon
