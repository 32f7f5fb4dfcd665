// In-memory disks for a BlockServer on any fabric. Tests use them in place of urtrsd's exports and storage
// engine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/driver/block_server.hpp"

namespace rtrs::sim {

// A disk that outlives the server.
struct MemoryDisk {
  std::vector<std::byte> bytes;
  std::uint32_t logical_block_size = 512;
  std::uint32_t max_discard_sectors = 4096;
  std::uint32_t max_write_zeroes_sectors = 4096;
  bool write_cache = true;
  bool fua = true;
  unsigned flushes = 0;
  unsigned fua_writes = 0;
  unsigned opens = 0;
  unsigned writers = 0;        // current number of writers; at most one
  std::uint64_t instance = 0;  // instance of the disk's cache; 0: not reported
  int next_error = 0;          // errno for the next data request; then reset to 0
};
using MemoryDisks = std::map<std::string, MemoryDisk>;

class MemoryStore {
 public:
  // `disks` must outlive the store.
  explicit MemoryStore(MemoryDisks& disks) : disks_(disks) {}
  // Closes all open exports, so that no disk keeps a writer of an ended server.
  ~MemoryStore();
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // Polls the server once and executes all its actions. Returns false if there were none.
  bool serve(BlockServer&, Fabric&, Nanos now);

 private:
  struct Open {
    MemoryDisk* disk = nullptr;
    bool writes = false;
  };

  block::ExportOpened open(const block::OpenExport&);
  void close(std::uint64_t handle);
  static int carry_out(MemoryDisk&, const block::StartStorage&);

  MemoryDisks& disks_;
  std::map<std::uint64_t, Open> open_;  // keyed by handle
  std::uint64_t last_handle_ = 0;
};

}  // namespace rtrs::sim
