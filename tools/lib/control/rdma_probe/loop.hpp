// Two connected queue pairs of the same device, and registered memory for tests.
#pragma once
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/rdma_probe/device.hpp"
#include "tools/lib/control/rdma_probe/pace.hpp"

namespace rtrs::probe {

// Registered memory. The object owns the memory and its registration.
class Buffer {
 public:
  static tl::expected<Buffer, std::string> make(ibv_pd*, std::size_t bytes, int access);
  std::byte* data() noexcept { return memory_.get(); }
  std::span<std::byte> bytes() noexcept { return {memory_.get(), size_}; }
  ibv_mr* region() const noexcept { return region_.get(); }
  std::uint64_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(memory_.get()); }
  void fill(std::byte value) noexcept;
  bool holds(std::byte value) const noexcept;  // returns true if every byte is `value`
  void release() noexcept { region_.reset(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
  verbs::MemoryHandle region_;
};

struct End {
  verbs::QueueHandle queue;
  verbs::QpHandle pair;
};

struct Shape {
  std::uint32_t sends = 16;
  std::uint32_t receives = 16;
  std::uint32_t inline_bytes = 0;
};

// A completion, or the reason why there is none.
using Waited = tl::expected<ibv_wc, std::string>;

class Loop {
 public:
  // The error is a human-readable message.
  static tl::expected<Loop, std::string> make(const Device&, const Pace&, const Shape& = {});

  End near, far;

  // The next four functions post at the near end and return 0 or a positive errno.
  int write(const Buffer& from, std::size_t bytes, std::uint64_t address, std::uint32_t key,
            bool signalled = true);
  int write_with_immediate(const Buffer* from, std::size_t bytes, std::uint64_t address, std::uint32_t key,
                           std::uint32_t immediate);
  int send_with_immediate(const Buffer& from, std::size_t bytes, std::uint32_t immediate);
  int send_with_invalidate(std::uint32_t key);
  // Posts a receive at the far end. nullptr: a receive without memory.
  int receive(Buffer* into, std::size_t bytes);
  // Posts a bind of a type 1 or type 2 window at the far end, or an unbind if `open` is false.
  int bind(ibv_mw*, const Buffer&, bool open);

  Waited wait_near() { return wait(near); }
  Waited wait_far() { return wait(far); }

 private:
  Loop(const Device& device, const Pace& pace) : device_(&device), pace_(&pace) {}
  Waited wait(End&);
  std::optional<std::string> connect();
  int post(ibv_send_wr&);

  const Device* device_;
  const Pace* pace_;
};

// Waits for a completion. The error is a human-readable message.
Waited wait_for(ibv_cq*, const Pace&);
// Polls once; nullopt if there is no completion.
std::optional<Waited> look(ibv_cq*);

}  // namespace rtrs::probe
