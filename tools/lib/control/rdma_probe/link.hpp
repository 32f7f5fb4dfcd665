// Connection between two probes, made by the RDMA connection manager. Both ends use this class.
#pragma once
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/lib/control/rdma_probe/hello.hpp"
#include "tools/lib/control/rdma_probe/loop.hpp"

namespace rtrs::probe {

struct ManagerEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  std::vector<std::byte> data{};  // private data, including padding
};

class Manager {
 public:
  // Opens an event channel. Throws Trouble.
  Manager();
  verbs::IdHandle make_id(rdma_port_space space);
  // Returns the next event, which is already acknowledged; nullopt if none arrives within `wait`.
  std::optional<ManagerEvent> next(std::chrono::milliseconds wait);
  // Returns the next event; nullopt after `patience`, or when `stop` returns true.
  std::optional<ManagerEvent> next(const Pace&);

 private:
  verbs::EventChannelHandle channel_;
};

// Maximum number of send work requests, and of receives, that are posted on a connection.
constexpr std::uint32_t kLinkDepth = 64;

// One end of a connection. Destroy it before its Manager.
class Link {
 public:
  // `id` must be bound to a device. Throws Trouble.
  explicit Link(verbs::IdHandle id);

  void to_receive();  // throws Trouble
  void to_send();     // throws Trouble
  int post_receive();
  int post_write(std::size_t bytes, const Hello& to, bool signalled);
  int post_immediate(std::uint32_t immediate);
  std::optional<Waited> look() { return probe::look(queue_.get()); }
  Waited wait(const Pace& pace) { return wait_for(queue_.get(), pace); }

  rdma_cm_id* id() const noexcept { return id_.get(); }
  ibv_qp* pair() const noexcept { return pair_.get(); }
  // hello() describes target(), the memory that the peer writes to. source() is the memory from which this
  // end writes to the peer.
  Hello hello() const noexcept;
  std::span<std::byte, kPatternBytes> target() noexcept { return target_.bytes().first<kPatternBytes>(); }
  std::span<std::byte, kPatternBytes> source() noexcept { return source_.bytes().first<kPatternBytes>(); }
  std::string describe() const;  // returns for example "10.0.0.1:4711 > 10.0.0.2:18516"

 private:
  void change(ibv_qp_state);

  verbs::IdHandle id_;
  verbs::DomainHandle domain_;
  Buffer target_, source_;
  verbs::QueueHandle queue_;
  verbs::QpHandle pair_;
};

}  // namespace rtrs::probe
