// All that this daemon exports: configured devices by name, then whatever lies under dev_search_path.
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
#include "tools/urtrsd/access_table.hpp"
#include "tools/urtrsd/cache_identity.hpp"
#include "tools/urtrsd/export.hpp"
#include "tools/urtrsd/image_locks.hpp"
#include "tools/urtrsd/search_path.hpp"

namespace rtrs::daemon {

// A configured device. Exactly one of `path` and `memory_bytes` is set.
struct ExportSpec {
  std::string name;  // what peers ask for; leading slashes do not count
  std::string path;  // not confined: the administrator wrote it; a file, or the URI of an NBD server
  std::uint64_t memory_bytes = 0;  // > 0: a memory device of this size
  bool read_only = false;
  std::uint32_t delay_ms = 0;
  AccessRules allow{};  // who may open it under this name
  bool force = false;   // may be opened for writing although this host uses it
  bool is_memory() const noexcept { return memory_bytes != 0; }
  bool is_nbd() const noexcept { return !is_memory() && NbdDisk::is_uri(path); }
  bool is_file() const noexcept { return !is_memory() && !is_nbd(); }
  bool operator==(const ExportSpec&) const = default;
};

std::string describe(const ExportSpec& spec);  // for sentences

// Peers mean the same export by both names: leading slashes do not count.
bool same_export(std::string_view a, std::string_view b);

// An open of one session. Lock and lease are given back when this is destroyed, after the device is closed;
// that may block, but for the lease, which can be released before.
struct OpenedDevice {
  Lease lease;
  ImageLocks::Hold lock;
  std::unique_ptr<Export> device;
  std::uint64_t instance = 0;                  // of its cache; 0: not known
  std::string name = {};                       // as it was asked for
  std::optional<std::size_t> configured = {};  // number of its export; nothing: it is below dev_search_path
};

// Must outlive every OpenedDevice it returned. One thread only, but for find(). Memory devices keep their
// content from the first open until the catalog is destroyed.
class Catalog {
 public:
  // Ends the connections to NBD servers that no open device uses. Waits up to kEndPatience for their threads;
  // none calls Tell afterwards.
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Whatever is looked at before anybody asks for it has so long to answer.
  static constexpr std::chrono::seconds kPatience{3};
  static constexpr std::chrono::seconds kEndPatience{1};

  // nullopt as search_path: only configured devices can be opened. EEXIST: a name is configured twice.
  static tl::expected<std::unique_ptr<Catalog>, OpenError> create(
      std::vector<ExportSpec> specs, const std::optional<std::string>& search_path,
      Confinement how = Confinement::automatic);

  // find() and admit(). Errors: ENOENT, ENOTBLK (not a file or block device), EACCES (read-only, outside, not
  // permitted), EBUSY (another process has it locked), EPERM (too many writers), EINVAL (bad name, empty
  // device), else as open(2).
  tl::expected<OpenedDevice, OpenError> open(std::string_view session, std::string_view name,
                                             AccessMode mode);

  // Opens and locks the device. Blocks for as long as the device does; may run in several threads at a time.
  tl::expected<OpenedDevice, OpenError> find(std::string_view session, std::string_view name,
                                             AccessMode mode);
  // Takes the lease for what find() returned for the same arguments. Never blocks. EPERM.
  tl::expected<void, OpenError> admit(OpenedDevice& opened, std::string_view session, std::string_view name,
                                      AccessMode mode);

  // An export that peers could not open now, for writing too unless it is exported read-only.
  struct Problem {
    std::string name;  // of the export; empty: dev_search_path
    OpenError why;
    bool late = false;  // no answer within kPatience; it may be in order
  };
  // Tries dev_search_path and every configured device as peers would open it, without a lease, side by side.
  // A device that another process has locked is a problem; with `ask`, no lock is taken and it has a warning.
  enum class CheckLocks : std::uint8_t { ask, take };
  std::vector<Problem> check(CheckLocks locks);
  // Checks one name again (empty: dev_search_path). Blocks for kPatience at most. A thread that still waits
  // for the answer to an earlier call is not joined by a second one: that is a late problem. Any thread.
  struct Checked {
    std::optional<Problem> problem;
    std::vector<std::string> warnings;  // about its size
  };
  Checked check_again(const std::string& name);
  // What add() needs to know of an export's file; asks the file, so it blocks for as long as the disk does:
  // in any thread. The error is why peers could not open it.
  struct Prepared {
    std::string path;  // without symbolic links; empty for memory
    DeviceId id;
    std::vector<std::string> warnings;  // of its size
  };
  tl::expected<Prepared, OpenError> prepare(const ExportSpec& spec) const;
  // One more export, from now on. EEXIST. Without `prepared`, its file is not known yet: check_again() has to
  // follow.
  tl::expected<void, OpenError> add(const ExportSpec& spec, const Prepared* prepared);
  // Nobody can open it any more; what is open stays open. The content of memory goes with the last of these.
  // False: there is none of this name.
  bool remove(std::string_view name);

  // The name of the export whose file has this path, or will have it; empty: none.
  std::string exported_as(const std::string& path) const;
  // Of this export, under whatever name: later opens get another instance.
  void on_failed_sync(const DeviceId& id) { cache_.on_failed_sync(id); }
  // Opening it takes descriptors: it is no memory device.
  bool takes_descriptors(std::string_view name) const;
  // The exports that peers can name without knowing the file system.
  std::vector<ExportSpec> specs() const;
  // Who may open the export from now on.
  void allow(const std::string& name, const AccessRules&);
  const AccessTable& access() const { return access_; }
  // Called from other threads too, with lines for the log: NBD servers that are lost, or back. The former
  // function is not called any more when this returns. Empty: there is no log.
  void tell_with(NbdDisk::Tell tell);
  // How long IO waits for an NBD server that was lost; for servers that are connected from now on. 0 at
  // first.
  void wait_for_nbd(Nanos time);
  // Names of open exports whose NBD server is lost.
  std::vector<std::string> lost_nbd() const;
  // Lets the IO fail that waits for an NBD server, and all that would.
  void stop_waiting_for_nbd();
  // About the search path, and about facts that cannot be told to peers.
  std::vector<std::string> warnings() const;

 private:
  Catalog() = default;
  // An export by its number, which it keeps for good, because what is open refers to it.
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
  void look_for_missing_read_only();
  tl::expected<void, OpenError> may_write(const Located& located, const std::string& described,
                                          std::string_view session, AccessMode mode);
  // `session` and `name` stay where they are until the result is opened.
  tl::expected<Located, OpenError> locate(std::string_view session, std::string_view name,
                                          const std::string& described);
  void look_at_read_only_files();

  // Changed by the one thread, read by the threads of find(). Taken last of all mutexes.
  mutable std::mutex names_mutex_;
  std::map<std::size_t, ExportSpec> specs_;  // by number
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::size_t next_ = 0;  // number

  // For find(), which may run in several threads, and for threads that wait for an answer even when the
  // catalog is gone.
  struct ReadOnly {
    std::string path;  // without symbolic links
    DeviceId id;
    bool known = false;   // the id is
    bool looked = false;  // the path has been looked at
  };
  // Who opens an NBD export waits for another who is connecting it, and they share the connection. It ends
  // with the last of them, unless changes are not flushed: whoever opens the export then has to be told when
  // the server loses them.
  struct NbdPlace {
    std::mutex mutex;
    std::shared_ptr<NbdDisk> disk;
    std::weak_ptr<NbdDisk> lent;
  };
  struct NbdLease;
  struct Shared {
    ImageLocks locks;
    std::mutex mutex;
    std::map<std::size_t, ReadOnly> read_only;     // the read-only exports
    std::multimap<DeviceId, std::size_t> checked;  // which exports it is
    std::set<std::size_t> asking;                  // numbers of exports that a check still waits for
    std::map<std::size_t, std::shared_ptr<NbdPlace>> nbd;
    std::mutex tell_mutex;  // held while `tell` is called
    NbdDisk::Tell tell;
    Nanos nbd_wait = 0;
    std::optional<SearchPath> search_path;  // never changed
  };
  static constexpr std::size_t kSearchPath = ~std::size_t{0};  // as the number of an export
  static void look_at(Shared& shared, std::size_t index, const ExportSpec& spec);
  // catalog_nbd.cpp
  static tl::expected<std::shared_ptr<NbdDisk>, OpenError> nbd_disk(const std::shared_ptr<Shared>& shared,
                                                                    std::size_t index,
                                                                    const ExportSpec& spec);
  static std::optional<OpenError> check_nbd(const ExportSpec& spec);
  static std::optional<OpenError> check_memory(const ExportSpec& spec);
  tl::expected<OpenedDevice, OpenError> find_nbd(const Numbered& asked, const Export::Options& options);
  static void remember_read_only(Shared& shared, std::size_t index, const DeviceId* id);
  static Checked check_one(Shared& shared, const Numbered& one, CheckLocks locks);
  static Checked check_file(Shared& shared, const Numbered& one, CheckLocks locks);
  // Like check_one(); for a thread that may never end.
  static std::function<void()> check_task(std::shared_ptr<Shared> shared, const Numbered& one,
                                          CheckLocks locks, std::shared_ptr<Checked> answer);
  static Problem late(const ExportSpec& spec);
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::vector<std::string> odd_;  // warnings of check() about sizes
  std::map<std::size_t, std::shared_ptr<MemoryRegion>> memory_;

  // For admit().
  AccessTable access_;
  CacheIdentity cache_ = CacheIdentity::of_system();
  std::map<DeviceId, std::weak_ptr<SlotShare>> shares_;
};

}  // namespace rtrs::daemon
