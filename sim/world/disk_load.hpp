// An application on block devices, which draws its operations or follows a script: maps and unmaps devices,
// reads, writes, discards and flushes. Also performs the server operator's operations on the disks.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/driver/block_client.hpp"
#include "sim/choices/choice.hpp"
#include "sim/disks/disk_book.hpp"
#include "sim/disks/disks.hpp"
#include "sim/world/script.hpp"

namespace rtrs::sim {

inline constexpr std::uint32_t kSectorsOfADisk = 64;

// Names of the disks that only this client uses.
std::vector<std::string> disk_names(std::uint32_t client, std::uint32_t disks);

class DiskLoad {
 public:
  // `client`, `book` and `disks` must outlive the load. Each process of a client has its own load.
  DiskLoad(BlockClient&, DiskBook&, Disks&, ChoiceSource&, std::vector<std::string> names);

  // Context of a call: the fabric, the true time `now`, and the time on the node's clock.
  struct Call {
    Fabric& fabric;
    Nanos now = 0;
    Nanos clock = 0;
  };
  // Performs one random operation of the application; with `may_disturb`, possibly also an operation of the
  // server operator. Returns false if it did nothing because it would have had to wait.
  bool act(const Call&, bool may_disturb);
  // Performs a script step; skips a step that is no longer possible. Returns false if the step must wait
  // for another IO.
  bool carry_out(const Call&, const Step&);
  // Called after the faults have ended: maps all unmapped devices and sends a request to each device.
  void probe(const Call&);
  // True if every mapped device is open.
  bool all_open() const;
  BlockClient& client() noexcept { return client_; }
  std::string describe() const;

 private:
  std::uint32_t draw(std::uint32_t n) { return choice_.draw(n, Label::disk); }
  bool io(const Call&);
  bool operate(const Call&, bool may_disturb);
  void disturb(const std::string& name, std::uint32_t how);
  bool map(const Call&, const std::string& name);
  bool map(const Call&, const std::string& name, AccessMode);
  void unmap(const Call&, const std::string& name, DeviceHandle);
  bool submit(const Call&, DeviceHandle, Opcode, std::uint64_t sector, std::uint32_t sectors, bool fua,
              bool nounmap);
  void forget_unmapped();

  BlockClient& client_;
  DiskBook& book_;
  Disks& disks_;
  ChoiceSource& choice_;
  std::vector<std::string> names_;
  std::map<std::string, DeviceHandle> devices_;
};

}  // namespace rtrs::sim
