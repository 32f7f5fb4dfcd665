#include "tools/dev/netns-faults.d/load/load.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <chrono>

#include "backends/bindings/asio/error.hpp"
#include "tools/dev/netns-faults.d/load/cell.hpp"

namespace rtrs::real {
namespace {

Outcome outcome_of(const boost::system::error_code& error) {
  if (!error) return Outcome::ok;
  return error.category() == boost::system::generic_category() ? Outcome::peer : Outcome::gone;
}

}  // namespace

Load::Load(boost::asio::io_context& context, asio::RemoteDevice& device, HistoryWriter& history,
           const LoadOptions& options)
    : context_(context),
      device_(device),
      history_(history),
      options_(options),
      random_(options.seed * 1000 + options.client),
      cells_(options.cells),
      next_id_(first_id(options.client) + 1) {
  if (options_.used == 0) options_.used = options_.cells - options_.first;
  options_.longest = std::min(options_.longest, options_.used);
  final_cell_ = options_.first;
  for (std::uint32_t at = 0; at < options_.depth; ++at) {
    slots_.push_back(std::make_unique<Slot>(context));
    slots_.back()->data.resize(options_.longest * kCellBytes);
  }
}

void Load::start() {
  for (const auto& slot : slots_) rest(*slot);
}

// Waits a random time before the next request of the slot. The mean time is chosen so that all slots together
// reach the request rate.
void Load::rest(Slot& slot) {
  const std::int64_t share = std::int64_t{1'000'000'000} * options_.depth / options_.rate;
  slot.timer.expires_after(std::chrono::nanoseconds(random_() % static_cast<std::uint64_t>(2 * share)));
  slot.timer.async_wait([this, &slot](const boost::system::error_code& error) {
    if (!error && !done_) next(slot);
  });
}

void Load::next(Slot& slot) {
  if (choose(slot)) return begin(slot);
  rest(slot);
}

// Chooses a request whose cells no request in the other direction uses, because storage may return a partial
// write to a concurrent read. Returns false if it finds no such request.
bool Load::choose(Slot& slot) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    slot.write = random_() % 100 < options_.write_percent;
    const bool small = random_() % 2 == 0;
    slot.count = small ? 1 : 1 + static_cast<std::uint32_t>(random_() % options_.longest);
    slot.first = options_.first + static_cast<std::uint32_t>(random_() % (options_.used - slot.count + 1));
    if (is_free(slot)) return true;
  }
  return false;
}

bool Load::is_free(const Slot& slot) const {
  for (std::uint32_t at = slot.first; at < slot.first + slot.count; ++at)
    if (slot.write ? cells_[at].reads != 0 : cells_[at].writes != 0) return false;
  return true;
}

void Load::occupy(const Slot& slot, int change) {
  for (std::uint32_t at = slot.first; at < slot.first + slot.count; ++at) {
    std::uint16_t& users = slot.write ? cells_[at].writes : cells_[at].reads;
    users = static_cast<std::uint16_t>(users + change);
  }
}

void Load::begin(Slot& slot) {
  slot.id = next_id_++;
  slot.begun = asio::steady_now();
  occupy(slot, 1);
  ++in_flight_;
  for (std::uint32_t at = 0; slot.write && at < slot.count; ++at)
    write_cell(slot.id, slot.first + at, options_.seed,
               std::span(slot.data).subspan(at * kCellBytes, kCellBytes));
  history_.begin(slot.write, slot.id, slot.first, slot.count, slot.begun);
  BlockRequest io;
  io.opcode = slot.write ? wire::rnbd::Opcode::write : wire::rnbd::Opcode::read;
  io.offset = options_.base + std::uint64_t{slot.first} * kCellBytes;
  io.length = std::uint64_t{slot.count} * kCellBytes;
  io.data = slot.data.data();
  device_.async_io(io, [this, &slot](const boost::system::error_code& error) { on_done(slot, error); });
}

void Load::on_done(Slot& slot, const boost::system::error_code& error) {
  const Time now = asio::steady_now();
  std::vector<std::uint32_t> values;
  for (std::uint32_t at = 0; !error && !slot.write && at < slot.count; ++at) {
    const auto value =
        value_of(std::span(slot.data).subspan(at * kCellBytes, kCellBytes), slot.first + at, options_.seed);
    if (!value) ++broken_;
    values.push_back(value.value_or(kBroken));
  }
  history_.answer(slot.id, outcome_of(error), asio::to_errno(error), values, now);
  occupy(slot, -1);
  --in_flight_;
  ++answered_;
  if (now - slot.begun > worst_) {
    worst_ = now - slot.begun;
    worst_begun_ = slot.begun;
  }
  if (error) note_error(slot, error, now);
  // If no path is left, each further request of the final read would time out, too. So the rest of the final
  // read is skipped.
  if (done_ && outcome_of(error) == Outcome::gone) final_cell_ = options_.first + options_.used;
  if (done_) return settle();
  rest(slot);
}

void Load::note_error(const Slot& slot, const boost::system::error_code& error, Time now) {
  ErrorCount& known = errors_[std::string(slot.write ? "write: " : "read: ") + error.message()];
  if (known.count++ == 0) known.first = now;
  known.last = now;
}

void Load::finish(std::function<void()> done) {
  done_ = std::move(done);
  for (const auto& slot : slots_) slot->timer.cancel();
  settle();
}

void Load::settle() {
  if (in_flight_ != 0) return;
  if (final_cell_ == options_.first + options_.used) {
    history_.end(asio::steady_now());
    return boost::asio::post(context_, done_);
  }
  Slot& slot = *slots_.front();
  slot.write = false;
  slot.first = final_cell_;
  slot.count = std::min(options_.longest, options_.first + options_.used - final_cell_);
  final_cell_ += slot.count;
  begin(slot);
}

nlohmann::json Load::summary() const {
  nlohmann::json errors = nlohmann::json::object();
  for (const auto& [words, known] : errors_)
    errors[words] = {{"count", known.count}, {"first", known.first}, {"last", known.last}};
  return {{"answered", answered_},   {"in_flight", in_flight_},
          {"worst_ns", worst_},      {"worst_begun", worst_begun_},
          {"broken_cells", broken_}, {"history_errno", history_.error()},
          {"errors", errors}};
}

}  // namespace rtrs::real
