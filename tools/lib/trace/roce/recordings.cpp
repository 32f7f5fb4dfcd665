#include "tools/lib/trace/roce/recordings.hpp"

#include <algorithm>
#include <deque>
#include <variant>

#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::roce {
namespace {

using trace::WireCmKind;
using trace::WireOp;

// What a note takes at most besides its bytes: here, in its half, in the origins and in the story.
constexpr std::uint64_t kBytesOfNote = 2 * sizeof(StoredNote) + 64;

// Bytes of CON_REQ that name path, attempt and connection. The bytes behind them may differ at the two ends:
// a keyed fabric adds its proof there.
constexpr std::size_t kNameBytes = 44;

std::vector<std::byte> copy_of(wire::Bytes bytes) {
  return {bytes.begin(), bytes.end()};
}

template <class Note>
StoredNote stored(const Note& note, StoredNote::Kind kind) {
  StoredNote one;
  one.kind = kind;
  one.time = note.now;
  one.op = note.op;
  one.has_imm = note.has_imm;
  one.imm = note.imm;
  one.rkey = note.rkey;
  one.remote_addr = note.remote_addr;
  one.length = note.length;
  one.digest = note.digest;
  one.bytes = copy_of(note.head);
  return one;
}

StoredNote stored(const trace::WireCm& note) {
  StoredNote one;
  one.kind = StoredNote::Kind::cm;
  one.time = note.now;
  one.cm = note.kind;
  one.cm_sent = note.sent;
  one.bytes = copy_of(note.private_data);
  return one;
}

// Returns true if the note proves that its recorder is a client. Only clients send requests and receive
// responses.
bool shows_client(const StoredNote& note) noexcept {
  const bool sent = note.kind == StoredNote::Kind::sent;
  if (note.kind == StoredNote::Kind::cm) {
    const bool answer = note.cm == WireCmKind::rep || note.cm == WireCmKind::rej;
    return note.cm == WireCmKind::req ? note.cm_sent : answer && !note.cm_sent;
  }
  if (!note.has_imm) return false;
  const wire::ImmType type = wire::imm_type(note.imm);
  if (type == wire::ImmType::io_req) return sent;
  return (type == wire::ImmType::io_rsp || type == wire::ImmType::io_rsp_w_inv) && !sent;
}

// Returns true for messages that both ends record.
bool is_recorded_by_both(const StoredNote& note) noexcept {
  return note.kind != StoredNote::Kind::cm && note.op != WireOp::write;
}

}  // namespace

trace::Reader::Status Recordings::add(trace::Reader& reader, std::uint64_t most) {
  const auto file = static_cast<std::uint32_t>(files_.size());
  files_.emplace_back();
  const trace::WireNotes notes(reader.header().schema);
  trace::Record record;
  trace::Reader::Status status = trace::Reader::Status::ok;
  std::size_t under_way = 0;  // index of the first note of the current step
  while ((status = reader.next(record)) == trace::Reader::Status::ok) {
    std::vector<StoredNote>& stored_notes = files_[file].notes;
    while (under_way < stored_notes.size() && stored_notes[under_way].time < record.time)
      stored_notes[under_way++].until = record.time;
    const auto value = notes.note(record);
    StoredNote note;
    ConKey key;
    if (const auto* sent = std::get_if<trace::WireSent>(&value)) {
      note = stored(*sent, StoredNote::Kind::sent);
      key = sent->key;
    } else if (const auto* received = std::get_if<trace::WireReceived>(&value)) {
      if (received->op == WireOp::write && received->rkey == 0) continue;  // the data of a READ, as it ended
      note = stored(*received, StoredNote::Kind::received);
      key = received->key;
    } else if (const auto* cm = std::get_if<trace::WireCm>(&value)) {
      note = stored(*cm);
      key = cm->key;
    } else {
      continue;
    }
    held_ += kBytesOfNote + note.bytes.size();
    if (held_ > most) return trace::Reader::Status::ok;
    note.half = half_of(record.instance, note, key);
    Half& half = halves_[note.half];
    if (shows_client(note)) half.client = true;
    half.notes.push_back(static_cast<std::uint32_t>(stored_notes.size()));
    stored_notes.push_back(std::move(note));
  }
  return status;
}

// Returns the index of the half (connection end) that a note belongs to. A connect request always begins a
// new half, even if its key was used before.
std::uint32_t Recordings::half_of(InstanceId instance, const StoredNote& note, const ConKey& key) {
  const auto file = static_cast<std::uint32_t>(files_.size() - 1);
  const HalfKey name(file, instance, key);
  const bool request = note.kind == StoredNote::Kind::cm && note.cm == WireCmKind::req;
  const auto found = open_.find(name);
  if (found != open_.end() && !request) return found->second;
  Half half;
  half.file = file;
  half.key = key;
  if (request) half.request = note.bytes;
  const auto number = static_cast<std::uint32_t>(halves_.size());
  halves_.push_back(std::move(half));
  open_[name] = number;
  return number;
}

void Recordings::join() {
  open_.clear();
  for (const File& file : files_) origins_.emplace_back(file.notes.size());
  pair_halves();
  for (const ConnectionEnds& ends : connections_) {
    if (ends.client == ConnectionEnds::kNone || ends.server == ConnectionEnds::kNone) continue;
    match(halves_[ends.client], halves_[ends.server]);
    match(halves_[ends.server], halves_[ends.client]);
  }
  align();
}

// Returns the number of messages that `to` received; -1 if these messages are not the first ones that `from`
// sent.
std::int64_t Recordings::matching_messages(const Half& from, const Half& to) const {
  const auto& sent = files_[from.file].notes;
  std::size_t next = 0;
  std::int64_t count = 0;
  for (const std::uint32_t index : to.notes) {
    const StoredNote& note = files_[to.file].notes[index];
    if (!is_recorded_by_both(note) || note.kind != StoredNote::Kind::received) continue;
    const auto is_next = [&](std::uint32_t one) {
      return is_recorded_by_both(sent[one]) && sent[one].kind == StoredNote::Kind::sent;
    };
    while (next < from.notes.size() && !is_next(from.notes[next])) ++next;
    if (next == from.notes.size()) return -1;
    const StoredNote& origin = sent[from.notes[next++]];
    if (origin.op != note.op || origin.has_imm != note.has_imm || origin.imm != note.imm) return -1;
    ++count;
  }
  return count;
}

// Pairs halves by their connect request, which contains path, attempt and connection number.
void Recordings::pair_halves() {
  std::map<std::vector<std::byte>, std::deque<std::uint32_t>> waiting;
  const auto connect = [this](std::uint32_t client, std::uint32_t server) {
    const auto number = static_cast<std::uint32_t>(connections_.size());
    for (const std::uint32_t half : {client, server})
      if (half != ConnectionEnds::kNone) halves_[half].connection = number;
    connections_.push_back(ConnectionEnds{client, server});
  };
  const auto name = [this](std::uint32_t half) {
    std::vector<std::byte> request = halves_[half].request;
    request.resize(kNameBytes);
    return request;
  };
  const auto answer_of = [this](std::uint32_t half) {
    for (const std::uint32_t index : halves_[half].notes) {
      const StoredNote& note = files_[halves_[half].file].notes[index];
      const bool answer =
          note.kind == StoredNote::Kind::cm && (note.cm == WireCmKind::rep || note.cm == WireCmKind::rej);
      if (answer) return note.cm;
    }
    return WireCmKind::req;
  };
  const auto count = static_cast<std::uint32_t>(halves_.size());
  for (std::uint32_t half = 0; half < count; ++half)
    if (!halves_[half].client && !halves_[half].request.empty()) waiting[name(half)].push_back(half);
  std::vector<bool> taken(count);
  for (std::uint32_t half = 0; half < count; ++half) {
    if (!halves_[half].client) continue;
    std::uint32_t server = ConnectionEnds::kNone;
    const auto found = waiting.find(name(half));
    if (!halves_[half].request.empty() && found != waiting.end() && !found->second.empty()) {
      // A network can duplicate a connect request, which creates several server halves. The right half sent
      // the reply that the client received, and has the same messages. If several halves match equally well,
      // the first one is taken.
      const auto rank = [this, half, &answer_of](std::uint32_t one) {
        const bool answered = answer_of(half) == answer_of(one);
        const std::int64_t forth = matching_messages(halves_[half], halves_[one]);
        const std::int64_t back = matching_messages(halves_[one], halves_[half]);
        return std::tuple(answered, forth >= 0 && back >= 0, forth + back);
      };
      const auto best = found->second.size() == 1
                            ? found->second.begin()
                            : std::max_element(found->second.begin(), found->second.end(),
                                               [&rank](auto a, auto b) { return rank(a) < rank(b); });
      server = *best;
      found->second.erase(best);
      taken[server] = true;
    }
    connect(half, server);
  }
  for (std::uint32_t half = 0; half < count; ++half)
    if (!halves_[half].client && !taken[half]) connect(ConnectionEnds::kNone, half);
}

// Matches the messages of one direction. A reliable connection delivers in order and without gaps, so the
// n-th received message is the n-th sent message.
void Recordings::match(const Half& from, const Half& to) {
  std::vector<std::uint32_t> sent;
  for (const std::uint32_t index : from.notes) {
    const StoredNote& note = files_[from.file].notes[index];
    if (is_recorded_by_both(note) && note.kind == StoredNote::Kind::sent) sent.push_back(index);
  }
  const std::uint32_t high = std::max(from.file, to.file);
  PairBounds& bounds = bounds_[{std::min(from.file, to.file), high}];
  std::size_t next = 0;
  // Invariant: sent + offset of `from` <= received + offset of `to`.
  const auto narrow = [&](Bounds& one, Nanos sent_at, Nanos received_at) {
    const auto way = static_cast<std::int64_t>(received_at - sent_at);
    if (to.file == high) {
      one.low = std::max(one.low, -way);
    } else {
      one.high = std::min(one.high, way);
    }
  };
  const auto arrived = [&](std::uint32_t at, std::uint32_t origin) {
    origins_[to.file][at] = Origin{from.file, origin};
    const StoredNote& there = files_[to.file].notes[at];
    const Nanos sent_at = files_[from.file].notes[origin].time;
    narrow(bounds.exact, sent_at, there.time);
    if (there.until != 0) narrow(bounds.loose, sent_at, there.until);
  };
  for (const std::uint32_t index : to.notes) {
    const StoredNote& note = files_[to.file].notes[index];
    if (!is_recorded_by_both(note) || note.kind != StoredNote::Kind::received) continue;
    if (next == sent.size()) break;
    arrived(index, sent[next++]);
  }
  for (const WireCmKind kind : {WireCmKind::req, WireCmKind::rep, WireCmKind::rej}) {
    const auto find = [&](const Half& half, bool own) {
      for (const std::uint32_t index : half.notes) {
        const StoredNote& note = files_[half.file].notes[index];
        if (note.kind == StoredNote::Kind::cm && note.cm == kind && note.cm_sent == own) return index;
      }
      return ConnectionEnds::kNone;
    };
    const std::uint32_t asked = find(from, true);
    const std::uint32_t heard = find(to, false);
    if (asked != ConnectionEnds::kNone && heard != ConnectionEnds::kNone) arrived(heard, asked);
  }
}

// Returns the offset to use: 0 if the bounds allow it, otherwise the middle of the bounds, or the only bound.
std::int64_t Recordings::Bounds::best() const noexcept {
  if (low <= 0 && high >= 0) return 0;
  if (high == -kNoBound) return low;
  if (low == kNoBound) return high;
  return low + (high - low) / 2;
}

// Finds the clock offset of each trace relative to the first one, so that each message arrives after it was
// sent. The offset is 0 if the clocks agree already.
void Recordings::align() {
  for (std::size_t root = 0; root < files_.size(); ++root) {
    if (files_[root].placed) continue;
    files_[root].placed = true;
    std::deque<std::uint32_t> next{static_cast<std::uint32_t>(root)};
    while (!next.empty()) {
      const std::uint32_t known = next.front();
      next.pop_front();
      for (const auto& [pair, bounds] : bounds_) {
        const std::uint32_t other = pair.first == known ? pair.second : pair.first;
        if ((pair.first != known && pair.second != known) || files_[other].placed) continue;
        if (!bounds.loose.hold()) ++drifting_;
        // Offset of the pair's second file relative to the first file.
        const std::int64_t shift = (bounds.exact.hold() ? bounds.exact : bounds.loose).best();
        files_[other].offset = files_[known].offset + (pair.first == known ? shift : -shift);
        files_[other].placed = true;
        next.push_back(other);
      }
    }
  }
}

Nanos Recordings::adjusted(std::uint32_t file, Nanos time) const noexcept {
  const std::int64_t value = static_cast<std::int64_t>(time) + files_[file].offset;
  return value < 0 ? 0 : static_cast<Nanos>(value);
}

std::vector<Recordings::Told> Recordings::story() const {
  std::vector<Told> told;
  std::vector<std::size_t> next(files_.size());
  for (;;) {
    std::size_t best = files_.size();
    // File whose next note is the earliest. Used if every file waits: its next note is a receive whose send
    // is still pending in another file. Mismatched messages can cause this, drifting clocks cannot.
    std::size_t first = files_.size();
    for (std::size_t file = 0; file < files_.size(); ++file) {
      if (next[file] == files_[file].notes.size()) continue;
      const auto time_of = [&](std::size_t one) {
        return adjusted(static_cast<std::uint32_t>(one), files_[one].notes[next[one]].time);
      };
      if (first == files_.size() || time_of(file) < time_of(first)) first = file;
      const Origin& origin = origins_[file][next[file]];
      if (origin.file != ConnectionEnds::kNone && next[origin.file] <= origin.index) continue;
      if (best == files_.size() || time_of(file) < time_of(best)) best = file;
    }
    if (first == files_.size()) return told;
    if (best == files_.size()) best = first;
    const StoredNote& note = files_[best].notes[next[best]++];
    const Nanos time = adjusted(static_cast<std::uint32_t>(best), note.time);
    told.push_back(Told{told.empty() ? time : std::max(time, told.back().time), &note});
  }
}

std::uint64_t Recordings::notes() const noexcept {
  std::uint64_t count = 0;
  for (const File& file : files_) count += file.notes.size();
  return count;
}

std::uint64_t Recordings::paired() const noexcept {
  return static_cast<std::uint64_t>(
      std::count_if(connections_.begin(), connections_.end(), [](const ConnectionEnds& ends) {
        return ends.client != ConnectionEnds::kNone && ends.server != ConnectionEnds::kNone;
      }));
}

}  // namespace rtrs::roce
