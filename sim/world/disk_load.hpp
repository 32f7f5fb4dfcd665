// An application over block devices that draws what it does, or does what a script says: maps and unmaps,
// reads, writes, takes away, flushes. It does to the disks what an operator of the server does to them, too.
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

// The disks that only this client uses.
std::vector<std::string> disk_names(std::uint32_t client, std::uint32_t disks);

class DiskLoad {
 public:
  // `client`, `book` and `disks` have to outlive the load, which is the client's as long as that lives.
  DiskLoad(BlockClient&, DiskBook&, Disks&, ChoiceSource&, std::vector<std::string> names);

  // A caller of the client, with the times of its node.
  struct Call {
    Fabric& fabric;
    Nanos now = 0;
    Nanos clock = 0;
  };
  // One thing, whatever it is; `may_disturb`: also what an operator of the server does. False when it did
  // nothing, because it would have had to wait.
  bool act(const Call&, bool may_disturb);
  // A step of a script; what it cannot do any more is left out. False while it has to wait for another IO.
  bool carry_out(const Call&, const Step&);
  // Once nothing disturbs any more: maps what is not, and asks each device for something.
  void probe(const Call&);
  // Every device that is mapped is open.
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
