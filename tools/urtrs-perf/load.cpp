#include "tools/urtrs-perf/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/bindings/asio/fabric_pump.hpp"

namespace rtrs::perf {
namespace {

std::string describe(const IoCompletion& done) {
  if (done.result != Errc::peer_error) return to_string(done.result);
  return fmt::format("the server answered \"{}\" (errno {})", std::strerror(done.peer_errno),
                     done.peer_errno);
}

}  // namespace

Load::Load(const Options& options, Client& client, Fabric& fabric, const Region& data, std::uint32_t bytes,
           Meter::Progress progress)
    : options_(options),
      client_(client),
      fabric_(fabric),
      data_(data),
      bytes_(bytes),
      meter_(options, bytes, std::move(progress)),
      slots_(options.iodepth),
      blocks_(std::max<std::uint64_t>(options.span / std::max(bytes, 1u), 1)),
      patience_(
          later(options.protocol.queue_timeout, 10 * options.protocol.heartbeat.interval + seconds(1))) {}

void Load::start(Nanos now) {
  last_completion_ = now;
  meter_.start(now);
  for (std::uint32_t slot = 0; slot < slots_.size() && !failed(); ++slot) {
    if (submitted_ < meter_.to_submit()) submit(now, slot);
  }
}

std::uint64_t Load::draw() noexcept {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_;
}

Direction Load::next_direction() noexcept {
  switch (options_.rw) {
    case Workload::read:
    case Workload::randread:
      return Direction::read;
    case Workload::write:
    case Workload::randwrite:
      return Direction::write;
    case Workload::rw:
      break;
  }
  return draw() % 100 < options_.read_percent ? Direction::read : Direction::write;
}

std::uint64_t Load::next_offset() noexcept {
  const bool random = options_.rw == Workload::randread || options_.rw == Workload::randwrite;
  return (random ? draw() : next_block_++) % blocks_ * bytes_;
}

void Load::submit(Nanos now, std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.submitted = now;
  slot.direction = next_direction();
  slot.header = PerfHeader{options_.verify, next_offset(), submitted_};
  std::array<std::byte, PerfHeader::kBytes> header;
  encode(slot.header, header);
  IoRequest request;
  request.direction = slot.direction;
  request.affinity = static_cast<std::uint16_t>(index);
  request.user_header = header;
  request.data = data_of(index);
  request.region = data_.id;
  request.region_offset = index * bytes_;
  request.user_data = index;
  if (options_.verify && slot.direction == Direction::write)
    fill_pattern(request.data, slot.header.offset, slot.header.seed);
  const Errc result = client_.submit(fabric_, now, request);
  if (result != Errc::ok) return stop(now, kFailed, fmt::format("cannot submit: {}", to_string(result)));
  ++submitted_;
  ++inflight_;
}

void Load::finish(Nanos now, const IoCompletion& done) {
  const auto index = static_cast<std::uint32_t>(done.user_data);
  const Slot& slot = slots_[index];
  --inflight_;
  if (done.result != Errc::ok) {
    if (failed()) return;
    const bool late = done.result == Errc::no_path || done.result == Errc::no_permit;
    const double waited = static_cast<double>(now - slot.submitted) / 1e9;
    return stop(now, late ? kTimedOut : kFailed,
                fmt::format("a {} at offset {} failed after {:.3f} s: {}",
                            slot.direction == Direction::read ? "read" : "write", slot.header.offset, waited,
                            describe(done)));
  }
  meter_.completed(now, now - slot.submitted);
  if (options_.verify && slot.direction == Direction::read) {
    const auto wrong = first_difference(data_of(index), slot.header.offset, slot.header.seed);
    if (wrong) {
      return stop(now, kFailed,
                  fmt::format("wrong data: a read of {} bytes at offset {} differs from byte {} on", bytes_,
                              slot.header.offset, *wrong));
    }
  }
  if (!meter_.over() && !failed() && submitted_ < meter_.to_submit()) submit(now, index);
}

bool Load::step(Nanos now) {
  const std::size_t count = client_.poll(fabric_, now, finished_);
  if (count != 0) {
    now = last_completion_ = asio::steady_now();
    for (const IoCompletion& done : std::span(finished_).first(count)) finish(now, done);
  }
  meter_.tick(now);
  if (now - last_completion_ > patience_ && !done()) {
    stop(now, kTimedOut,
         fmt::format("no answer for {:.1f} s", static_cast<double>(now - last_completion_) / 1e9));
  }
  return count != 0;
}

Nanos Load::next_deadline() const noexcept {
  return std::min(client_.next_deadline(), meter_.next_tick());
}

void Load::stop(Nanos now, int exit_code, std::string why) {
  if (failed()) return;
  meter_.finish(now);
  exit_code_ = exit_code;
  failure_ = std::move(why);
}

}  // namespace rtrs::perf
