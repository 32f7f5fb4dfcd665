#include "sim/oracles/exactly_once.hpp"

#include <algorithm>
#include <string>

namespace rtrs::sim {

namespace {
constexpr std::uint16_t kEio = 5;
constexpr std::uint16_t kMaxErrnoOnWire = 511;
std::uint16_t on_wire(std::uint16_t error) {
  return error > kMaxErrnoOnWire ? kEio : error;
}
}  // namespace

void ExactlyOnce::accepted(std::uint32_t io, Nanos now) {
  if (ios_.size() <= io) ios_.resize(io + 1);
  if (ios_[io].state != State::unknown)
    return judge_.fail(Oracle::exactly_once, now, "request " + std::to_string(io) + " accepted twice");
  ios_[io].state = State::open;
  ++open_;
}

void ExactlyOnce::served(std::uint32_t io, std::uint16_t error) {
  if (io >= ios_.size()) return;
  Io& request = ios_[io];
  if (error == 0) {
    request.served_successfully = true;
  } else if (request.error_count < request.errors.size()) {
    request.errors[request.error_count++] = on_wire(error);
  }
}

void ExactlyOnce::completed(std::uint64_t io, Errc result, std::uint16_t peer_errno, Nanos now,
                            bool believed) {
  const std::string name = "request " + std::to_string(io);
  if (io >= ios_.size() || ios_[io].state == State::unknown)
    return judge_.fail(Oracle::exactly_once, now, name + " completed but was never accepted");
  Io& request = ios_[io];
  if (request.state == State::over)
    return judge_.fail(Oracle::exactly_once, now, name + " completed twice, or after its client had ended");
  request.state = State::over;
  --open_;
  if (!believed) return;
  if (result == Errc::ok && !request.served_successfully)
    return judge_.fail(Oracle::exactly_once, now, name + " reported as success, which the server never sent");
  if (result != Errc::peer_error) return;
  const auto end = request.errors.begin() + request.error_count;
  if (peer_errno == 0 || std::find(request.errors.begin(), end, peer_errno) == end)
    judge_.fail(Oracle::exactly_once, now,
                name + " reported errno " + std::to_string(peer_errno) + ", which the server never sent");
}

void ExactlyOnce::abandoned(std::uint32_t io) {
  if (io >= ios_.size() || ios_[io].state != State::open) return;
  ios_[io].state = State::over;
  --open_;
}

}  // namespace rtrs::sim
