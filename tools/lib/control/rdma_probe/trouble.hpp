// Why a test of a device has no good end. Thrown inside of this library, and caught in judged().
#pragma once
#include <infiniband/verbs.h>

#include <functional>
#include <string>

#include "tools/lib/control/rdma_probe/line.hpp"
#include "tools/lib/control/rdma_probe/loop.hpp"

namespace rtrs::probe {

constexpr std::size_t kTestBytes = 4096;
constexpr std::byte kBefore{0x11}, kData{0xa5};
constexpr int kRemote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
// What the buffers of one session of urtrsd take: 512 requests of 128 KiB.
constexpr std::size_t kSessionBytes = std::size_t{64} << 20U;

struct Trouble {
  std::string what;
  std::string remedy{};  // empty: what a driver that does not keep its promises calls for
  Line::Grade grade = Line::Grade::failed;
};

// The line of a test: its answer is what is good, its Trouble what is not.
Line judged(Line::Part part, const std::string& device, const std::string& check,
            const std::function<std::string()>& test);

// Each throws Trouble.
void succeed(int error, const char* what);  // an error number
void demand(bool holds, const std::string& otherwise);
// A completion that is good.
ibv_wc good(const Waited& completion, const char* of);
Loop make_loop(const Device&, const Pace&, const Shape& = {});
Buffer make_buffer(const Device&, std::size_t bytes, int access);

}  // namespace rtrs::probe
