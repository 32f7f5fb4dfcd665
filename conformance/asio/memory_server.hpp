// A server of memory disks for tests: the real server driver and RNBD machine over libfabric, in the same
// event loop as the test. Destroying it is what a killed server looks like: nobody is told goodbye.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "backends/asio/fabric_pump.hpp"
#include "backends/libfabric/ofi.hpp"
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
  int next_error = 0;  // errno for the next request on its data, then 0 again
};
using MemoryDisks = std::map<std::string, MemoryDisk>;

class MemoryServer {
 public:
  struct Options {
    std::vector<std::string> listen{"127.0.0.1"};
    std::uint16_t port = 0;  // 0: any
    std::uint32_t first_generation = 0;
    HeartbeatConfig heartbeat{};
  };

  // `disks` must outlive the server. Throws std::runtime_error when it cannot listen.
  MemoryServer(boost::asio::io_context&, MemoryDisks& disks, const Options&);
  ~MemoryServer();
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  unsigned session_count() const noexcept { return server_->session_count(); }

 private:
  struct Session {
    explicit Session(const rnbd::ServerOptions& options) : machine(options) {}
    rnbd::ServerDevices machine;
    std::map<std::uint64_t, ServerEvent> requests;  // unanswered, by their name in the machine
    std::map<std::uint64_t, MemoryDisk*> open;      // by handle
    std::uint64_t last_request = 0;
    // Answers of the storage, fed when the list that asked for them is performed to its end.
    std::deque<std::variant<rnbd::ExportOpened, rnbd::StorageDone>> answers;
  };

  bool step(Nanos now);
  void handle(const ServerEvent&);
  template <class Input>
  void feed(Session&, const Input&);
  template <class Input>
  void step_machine(Session&, const Input&);
  void perform(Session&, const rnbd::Storage&);
  void perform(Session&, const rnbd::Respond&);
  void perform(Session&, const rnbd::WriteBack&);
  void perform(Session&, const rnbd::OpenExport&);
  void perform(Session&, const rnbd::CloseExport&);
  void perform(Session&, const rnbd::SessionDrained&) {}
  int carry_out(Session&, const rnbd::Storage&);

  MemoryDisks& disks_;
  Options options_;
  std::unique_ptr<ofi::OfiFabric> fabric_;
  std::unique_ptr<Server> server_;
  std::map<std::uint16_t, std::unique_ptr<Session>> sessions_;
  std::uint64_t last_handle_ = 0;
  std::uint16_t port_ = 0;
  std::unique_ptr<asio::FabricPump> pump_;
};

}  // namespace rtrs::conformance
