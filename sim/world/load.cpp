#include "sim/world/load.hpp"

#include <algorithm>

#include "core/wire/linux_errno.hpp"
#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

namespace {

constexpr const char* kOnlyDisk = "disk";  // name in a history

// True if the request failed because its device was being unmapped when the server lost the session, so that
// the client did not reopen the device. The request may have taken effect before.
bool is_not_open_error(const IoCompletion& done) {
  return done.result == Errc::peer_error && done.peer_errno == wire::linux_errno::kEnotconn;
}

}  // namespace

void Load::submit_due(std::uint32_t index) {
  ClientNode& client = *clients_[index];
  if (disks_ != nullptr) return act_on_disks(client);
  while (!client.wanted.empty() && client.up && !client.leaving && client.paused_until <= now() &&
         cluster_.takes_requests(client)) {
    AppBuffer* buffer = free_buffer(client);
    if (buffer == nullptr) break;
    const WantedRequest wanted = client.wanted.front();
    client.wanted.pop_front();
    submit(client, index, *buffer, wanted);
  }
  if (client.leaving) return;
  if (!client.up || client.left == 0 || client.next_submit > now() || client.paused_until > now()) return;
  if (!cluster_.takes_requests(client)) return;
  const ScopedGroup group(choice_, Label::workload);
  const bool burst = client.probing || choice_.fires(scenario_.workload.burst_rate, Label::workload_gap);
  do {
    if (!submit_one(client, index)) {
      client.next_submit = kNever;  // finished() sets it again
      return;
    }
  } while (burst && client.left > 0);
  client.next_submit = now() + draw_time(choice_, scenario_.workload.gap, Label::workload_gap);
}

// Returns false if the window is full.
bool Load::submit_one(ClientNode& client, std::uint32_t index) {
  AppBuffer* buffer = free_buffer(client);
  if (buffer == nullptr) return false;
  if (choice_.skips(Label::request)) {
    --client.left;
    return true;
  }
  const ScopedGroup group(choice_, Label::request);
  submit(client, index, *buffer, draw_request());
  --client.left;
  return true;
}

WantedRequest Load::draw_request() {
  const WorkloadOptions& load = scenario_.workload;
  WantedRequest wanted;
  wanted.direction =
      choice_.draw(100, Label::workload_op) < load.write_percent ? Direction::write : Direction::read;
  wanted.units = 1 + choice_.draw(kMaxUnits, Label::workload_length);
  wanted.first =
      choice_.draw(scenario_.storage.sectors / cluster_.unit() - wanted.units + 1, Label::workload_block);
  wanted.service = choice_.fires(load.service_rate, Label::workload_op);
  wanted.affinity = static_cast<std::uint16_t>(choice_.draw(8, Label::workload_op));
  return wanted;
}

void Load::submit(ClientNode& client, std::uint32_t index, AppBuffer& buffer, const WantedRequest& wanted) {
  const auto at = static_cast<std::size_t>(&buffer - client.buffers.data());
  const Direction direction = wanted.direction;
  const std::uint32_t sectors = std::clamp<std::uint32_t>(wanted.units, 1, kMaxUnits) * cluster_.unit();
  const std::uint32_t lba = std::min(wanted.first * cluster_.unit(), scenario_.storage.sectors - sectors);
  const std::uint32_t io = books_.book.open(index, direction, lba, sectors);
  books_.book[io].submitted = now(client);
  if (buffer.io != 0) books_.integrity.private_memory(buffer.left, digest_of(buffer.bytes), buffer.io, now());
  const std::size_t stride = cluster_.max_io_bytes();
  buffer.bytes = std::span(*client.memory.back()).subspan(at * stride, sectors * kSectorBytes);
  for (std::uint32_t sector = 0; sector < sectors; ++sector) {
    const auto bytes = buffer.bytes.subspan(sector * kSectorBytes, kSectorBytes);
    if (direction == Direction::write)
      write_sector(SectorTag{io, index, lba + sector, sector, cluster_.options.seed}, bytes);
    else
      std::fill(bytes.begin(), bytes.end(), std::byte{0x5a});
  }
  SectorRequest request;
  request.direction = direction;
  request.service = wanted.service;
  request.affinity = wanted.affinity;
  request.io = io;
  request.lba = lba;
  request.sectors = sectors;
  request.data = buffer.bytes;
  request.region = client.region;
  request.region_offset = static_cast<std::uint32_t>(at * stride);
  if (cluster_.history)
    cluster_.history->invoked({client.id, kOnlyDisk, io}, direction == Direction::write ? "write" : "read",
                              lba, sectors);
  books_.once.accepted(io, now());
  note(Journal::Kind::submitted, client.id, io, lba,
       std::uint64_t{sectors} | std::uint64_t{direction == Direction::write} << 32);
  const Errc result = client.driver->submit(*client.fabric, now(client), request);
  if (result != Errc::ok)
    judge_.fail(Oracle::exactly_once, now(), std::string("submit refused: ") + to_string(result));
  buffer.io = io;
  buffer.busy = true;
  ++client.under_way;
  if (direction == Direction::read) ++client.reads_in_flight;
  if (client.under_way == client.driver->session().depth()) judge_.mark(Mark::full_depth);
  if (client.under_way > client.driver->session().depth()) judge_.mark(Mark::permit_waiter);
  if (wanted.service) judge_.mark(Mark::service_request);
  if (!client.driver->session().link_up()) judge_.mark(Mark::pathless_submit);
  watch_.load_marks(books_.book[io], io);
  books_.open_ios.push_back(io);
}

AppBuffer* Load::free_buffer(ClientNode& client) {
  for (AppBuffer& buffer : client.buffers)
    if (!buffer.busy) return &buffer;
  return nullptr;
}

void Load::finished(ClientNode& client, std::uint32_t index, const IoCompletion& done) {
  const auto io = static_cast<std::uint32_t>(done.user_data);
  cluster_.hash = fold(
      cluster_.hash, done.user_data << 16 ^ static_cast<std::uint64_t>(done.result) << 10 ^ done.peer_errno);
  note(Journal::Kind::completed, client.id, io, static_cast<std::uint64_t>(done.result), done.peer_errno);
  const bool unmapped = client.closing && is_not_open_error(done);
  books_.once.completed(done.user_data, done.result, done.peer_errno, now(),
                        !cluster_.has_misbehaving_end(index) && !unmapped);
  if (judge_.failed() || !books_.book.knows(done.user_data)) return;
  BookedIo& booked = books_.book[io];
  client.promises->completed(io, done.result, booked.submitted, now(client));
  booked.answered = books_.book.tick();
  booked.good = done.result == Errc::ok;
  // If the server did not respond, the request may be executed until its session ends.
  const bool answered = done.result == Errc::ok || (done.result == Errc::peer_error && !unmapped);
  if (answered) booked.window_end = booked.answered;
  const bool unanswered = done.result == Errc::no_path || done.result == Errc::request_timeout || unmapped;
  if (unanswered && booked.direction == Direction::write) books_.book.failed_unanswered(io, client.starts);
  // Without a fence, the next request reuses the chunk while storage may still read it.
  if (unanswered && !scenario_.fenced) books_.chunks_given_up = true;
  if (done.result == Errc::ok) books_.book.end_failed(index, client.starts, booked.invoked);
  if (done.result == Errc::peer_error && !unmapped) judge_.mark(Mark::storage_error);
  check_failure(client, io, done.result);
  watch_.resent_marks(booked);
  std::erase(books_.open_ios, io);
  --client.under_way;
  if (booked.direction == Direction::read) --client.reads_in_flight;
  ++books_.completions;
  if (done.result != Errc::ok) ++books_.errors;
  for (AppBuffer& buffer : client.buffers) {
    if (!buffer.busy || buffer.io != io) continue;
    // Read data is not checked if a fabric falsifies messages of this session.
    if (booked.direction == Direction::read)
      booked.good = booked.good && !cluster_.has_misbehaving_end(index);
    if (cluster_.history) add_to_history(client, booked, io, done, buffer, unmapped);
    if (booked.direction == Direction::read && booked.good) check_read(buffer, booked, io);
    buffer.busy = false;
    buffer.left = digest_of(buffer.bytes);
  }
  if (client.next_submit == kNever)
    client.next_submit = now() + draw_time(choice_, scenario_.workload.gap, Label::workload_gap);
}

// `unmapped`: the server no longer knew the device, so that its answer does not show whether the request took
// effect.
void Load::add_to_history(const ClientNode& client, const BookedIo& booked, std::uint32_t io,
                          const IoCompletion& done, const AppBuffer& buffer, bool unmapped) {
  const HistoryIo who{client.id, kOnlyDisk, io};
  if (done.result == Errc::peer_error && !unmapped)
    return cluster_.history->failed(who, to_string(done.result));
  if (done.result != Errc::ok) return cluster_.history->unknown(who, to_string(done.result));
  std::vector<std::int64_t> read;
  for (std::uint32_t at = 0; booked.direction == Direction::read && at < booked.sectors; ++at) {
    const auto sector = std::span<const std::byte>(buffer.bytes).subspan(at * kSectorBytes, kSectorBytes);
    const auto writer = writer_of(sector, booked.lba + at, cluster_.options.seed);
    read.push_back(writer ? std::int64_t{*writer} : HistoryLog::kBroken);
  }
  cluster_.history->succeeded(who, read);
}

void Load::check_failure(const ClientNode& client, std::uint32_t io, Errc result) {
  const Nanos submitted = books_.book[io].submitted;
  if (result == Errc::no_path) {
    judge_.mark(Mark::queue_expired);
    if (scenario_.client.queue_timeout == kNever)
      judge_.fail(Oracle::liveness, now(), "request " + std::to_string(io) + " failed without a path");
  }
  if (result == Errc::no_permit) {
    judge_.mark(Mark::no_permit);
    const Nanos limit = scenario_.client.queue_timeout;
    if (limit == kNever || now(client) - submitted < limit)
      judge_.fail(
          Oracle::liveness, now(),
          "request " + std::to_string(io) + " failed without a permit before queue_timeout had passed");
  }
  if (result == Errc::request_timeout) {
    judge_.mark(Mark::request_timed_out);
    // A device without an OPEN response holds a request for queue_timeout.
    const Nanos held = scenario_.workload.block_device ? scenario_.client.queue_timeout : kNever;
    const Nanos limit = std::min(scenario_.client.request_timeout, held);
    if (limit == kNever || now(client) - submitted < limit)
      judge_.fail(
          Oracle::liveness, now(),
          "request " + std::to_string(io) + " failed with request_timeout before the timeout expired");
  }
}

void Load::check_read(AppBuffer& buffer, BookedIo& booked, std::uint32_t io) {
  for (std::uint32_t at = 0; at < booked.sectors; ++at) {
    const auto sector = std::span<const std::byte>(buffer.bytes).subspan(at * kSectorBytes, kSectorBytes);
    const bool judged = !books_.spoiled[booked.lba + at];
    const std::uint32_t value = judged
                                    ? books_.integrity.to_application(sector, booked.lba + at, io, now())
                                    : writer_of(sector, booked.lba + at, cluster_.options.seed).value_or(0);
    books_.book.add_value(booked, at, value);
    cluster_.hash = fold(cluster_.hash, value);
  }
}

void Load::act_on_disks(ClientNode& client) {
  if (!client.up || client.leaving) return;
  disk_steps_due(client);
  if (client.left == 0) return;
  if (client.next_submit > now() || client.paused_until > now()) return;
  const ScopedGroup group(choice_, Label::workload);
  const DiskLoad::Call call{*client.fabric, now(), now(client)};
  DiskLoad& load = *client.driver->disks();
  if (client.probing) {
    load.probe(call);
    client.left = 0;
  }
  const bool burst = choice_.fires(scenario_.workload.burst_rate, Label::workload_gap);
  while (client.left > 0) {
    --client.left;
    if (!choice_.skips(Label::request)) {
      const ScopedGroup one(choice_, Label::request);
      load.act(call, !cluster_.healed);
    }
    if (!burst) break;
  }
  client.next_submit = now() + draw_time(choice_, scenario_.workload.gap, Label::workload_gap);
  disk_result(client);
}

// Executes the steps in order. A step that waits for another IO of its sectors delays all later steps.
void Load::disk_steps_due(ClientNode& client) {
  if (client.disk_steps.empty() || client.paused_until > now()) return;
  const DiskLoad::Call call{*client.fabric, now(), now(client)};
  while (!client.disk_steps.empty() && client.driver->disks()->carry_out(call, client.disk_steps.front()))
    client.disk_steps.pop_front();
  disk_result(client);
}

void Load::disk_result(ClientNode& client) {
  const std::uint32_t before = client.under_way;
  client.under_way = client.disks->under_way();
  client.reads_in_flight = client.disks->reads();
  if (client.under_way != before)
    cluster_.hash = fold(cluster_.hash, std::uint64_t{client.id} << 32 ^ client.under_way);
}

std::size_t Load::backlog() const {
  std::size_t count = 0;
  for (const auto& client : clients_) count += client->wanted.size() + client->disk_steps.size();
  return count;
}

bool Load::nothing_in_flight() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) {
    return client->under_way == 0 && client->left == 0 && client->wanted.empty() &&
           client->disk_steps.empty();
  });
}

}  // namespace rtrs::sim
