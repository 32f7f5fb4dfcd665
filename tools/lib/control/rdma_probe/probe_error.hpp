// Error of a device test. Thrown only in this library, and caught in judged().
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
// Size of the buffers of one session of urtrsd in bytes: 512 requests of 128 KiB.
constexpr std::size_t kSessionBytes = std::size_t{64} << 20U;

struct Trouble {
  std::string what;
  std::string remedy{};  // advice to the user; if empty, the line advises to report a driver bug
  Line::Grade grade = Line::Grade::failed;
};

// Runs a test and returns its line. The line contains the text that the test returns, or the Trouble that it
// throws.
Line judged(Line::Part part, const std::string& device, const std::string& check,
            const std::function<std::string()>& test);

// All functions below throw Trouble on failure.
void succeed(int error, const char* what);  // `error`: an errno; 0: success
void demand(bool holds, const std::string& otherwise);
// Returns the completion if it reports success.
ibv_wc good(const Waited& completion, const char* of);
Loop make_loop(const Device&, const Pace&, const Shape& = {});
Buffer make_buffer(const Device&, std::size_t bytes, int access);

}  // namespace rtrs::probe
