// Memory disks behind a server driver, on any fabric: what urtrsd is for tests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/driver/server.hpp"
#include "core/rnbd/server_devices.hpp"

namespace rtrs::conformance {

// Content that outlives a server, as a disk does.
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
  unsigned writers = 0;  // now; at most one
  int next_error = 0;    // errno for the next request on its data, then 0 again
};
using MemoryDisks = std::map<std::string, MemoryDisk>;

class MemoryService {
 public:
  // `disks` must outlive the service. `first_generation`: of the device ids.
  explicit MemoryService(MemoryDisks& disks, std::uint32_t first_generation = 0)
      : disks_(disks), first_generation_(first_generation) {}
  MemoryService(const MemoryService&) = delete;
  MemoryService& operator=(const MemoryService&) = delete;

  // Deals with one event of the server, completely.
  void handle(Server&, Fabric&, Nanos now, const ServerEvent&);

 private:
  struct Open {
    MemoryDisk* disk = nullptr;
    bool writes = false;
  };
  struct Session {
    explicit Session(const rnbd::ServerOptions& options) : machine(options) {}
    rnbd::ServerDevices machine;
    std::map<std::uint64_t, ServerEvent> requests;  // unanswered, by their name in the machine
    std::map<std::uint64_t, Open> open;             // by handle
    std::uint64_t last_request = 0;
    // Answers of the storage, fed when the list that asked for them is performed to its end.
    std::deque<std::variant<rnbd::ExportOpened, rnbd::StorageDone, rnbd::ExportMeasured>> answers;
  };
  struct Answering {  // to whom the machine's answers go
    Server& server;
    Fabric& fabric;
    Nanos now;
  };

  template <class Input>
  void feed(const Answering&, Session&, const Input&);
  template <class Input>
  void step(const Answering&, Session&, const Input&);
  void perform(const Answering&, Session&, const rnbd::Storage&);
  void perform(const Answering&, Session&, const rnbd::Respond&);
  void perform(const Answering&, Session&, const rnbd::WriteBack&);
  void perform(const Answering&, Session&, const rnbd::OpenExport&);
  void perform(const Answering&, Session&, const rnbd::CloseExport&);
  void perform(const Answering&, Session&, const rnbd::CacheDamaged&) {}
  void perform(const Answering&, Session&, const rnbd::MeasureExport&);
  void perform(const Answering&, Session&, const rnbd::SessionDrained&) {}
  static int carry_out(Session&, const rnbd::Storage&);

  MemoryDisks& disks_;
  std::uint32_t first_generation_;
  std::map<std::uint16_t, std::unique_ptr<Session>> sessions_;
  std::uint64_t last_handle_ = 0;
};

}  // namespace rtrs::conformance
