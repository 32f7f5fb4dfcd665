#include "tools/urtrs-sim/failure_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace rtrs::sim_tool {

namespace {

struct Sent {
  std::uint64_t seed;
  char world[16];
  char rule[128];
  char seen[1024];
};
// A write of this size is atomic, so that several workers can use one pipe.
static_assert(sizeof(Sent) <= PIPE_BUF);

template <std::size_t Size>
void copy_text(char (&to)[Size], const std::string& from) {
  const std::size_t size = std::min(from.size(), Size - 1);
  std::memcpy(to, from.data(), size);
}

}  // namespace

FailurePipe::FailurePipe() {
  if (::pipe2(ends_, O_CLOEXEC) != 0) {
    ends_[0] = ends_[1] = -1;
    return;
  }
  // Makes only the end of the parent non-blocking: pipe2() would change both.
  ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
}

FailurePipe::~FailurePipe() {
  for (const int end : ends_)
    if (end >= 0) ::close(end);
}

void FailurePipe::send(const FoundFailure& failure) const {
  Sent sent{};
  sent.seed = failure.seed;
  copy_text(sent.world, failure.world);
  copy_text(sent.rule, failure.rule);
  copy_text(sent.seen, failure.seen);
  while (::write(ends_[1], &sent, sizeof sent) < 0 && errno == EINTR) continue;
}

void FailurePipe::receive(FailureGroups& groups) const {
  Sent sent{};
  while (::read(ends_[0], &sent, sizeof sent) == sizeof sent)
    groups.add({sent.seed, sent.world, sent.rule, sent.seen});
}

}  // namespace rtrs::sim_tool
