#include "tools/lib/trace/roce/test_story.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/record/schema.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "sim/world/world.hpp"

namespace rtrs::roce::test {

std::ostream& operator<<(std::ostream& out, const Line& line) {
  out << (line.to_server ? "> " : "< ");
  if (line.cm) return out << trace::to_string(line.kind);
  return out << trace::to_string(line.op) << " imm " << line.imm << " key " << line.rkey << " at "
             << line.remote_addr << " length " << line.length << " head " << line.bytes.size();
}

Files play(const tools::ScratchFolder& folder, std::uint64_t seed) {
  // The conversion handles neither clocks of different rates, nor equal connect requests, nor violations.
  sim::FaultFilter filter;
  filter.calm = {sim::Label::clock_rate, sim::Label::rare_swarm};
  filter.off[static_cast<std::size_t>(sim::FaultClass::lie)] = true;
  filter.keys = true;
  sim::WorldOptions options;
  options.seed = seed;
  options.trace = folder / "world";
  options.filter = &filter;
  sim::run_seed(options);
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string path = entry.path().string();
    (path.find("server") != std::string::npos ? files.servers : files.clients).push_back(path);
  }
  return files;
}

namespace {

void add(Recordings& recordings, trace::Source& source) {
  trace::Reader reader(source);
  ASSERT_EQ(reader.open(), trace::Reader::Status::ok);
  ASSERT_EQ(recordings.add(reader), trace::Reader::Status::end);
}

}  // namespace

Recordings load(const std::vector<std::string>& paths) {
  Recordings recordings;
  for (const std::string& path : paths) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    trace::FdSource source(fd);
    add(recordings, source);
    ::close(fd);
  }
  recordings.join();
  return recordings;
}

Recordings load_text(const std::string& text) {
  Recordings recordings;
  trace::MemorySource source(text);
  add(recordings, source);
  recordings.join();
  return recordings;
}

namespace {

// Returns the number of a half (connection end) among those with the same connect request. A server half gets
// the number of its client half, because a duplicated request gives the server more halves than the client.
unsigned number_of_half(const Recordings& recordings, const Half& half, unsigned seen) {
  if (half.client) return seen;
  constexpr unsigned kDoubled = 1000;
  const auto& halves = recordings.halves();
  const auto& connections = recordings.connections();
  const auto index = static_cast<std::uint32_t>(&half - halves.data());
  const auto ends = std::find_if(connections.begin(), connections.end(),
                                 [&](const ConnectionEnds& one) { return one.server == index; });
  const bool any_client =
      std::any_of(halves.begin(), halves.end(), [](const Half& one) { return one.client; });
  if (!any_client) return seen;
  if (ends == connections.end() || ends->client == ConnectionEnds::kNone) return kDoubled + seen;
  return static_cast<unsigned>(
      std::count_if(halves.begin(), halves.begin() + ends->client,
                    [&](const Half& one) { return one.client && one.request == half.request; }));
}

}  // namespace

Story told_by(const Recordings& recordings, bool client) {
  Story story;
  std::map<std::vector<std::byte>, unsigned> seen;
  std::vector<std::vector<Line>*> lines;
  for (const Half& half : recordings.halves()) {
    std::vector<std::byte> request = half.request;
    request.resize(wire::kConnReqBytes);
    const bool told = half.client == client && !half.request.empty();
    lines.push_back(told ? &story[Name(request, number_of_half(recordings, half, seen[request]))] : nullptr);
    if (told) ++seen[request];
  }
  for (const Recordings::Told& told : recordings.story()) {
    const StoredNote& note = *told.note;
    std::vector<Line>* to = lines[note.half];
    if (to == nullptr) continue;
    Line line;
    const bool sent = note.kind == StoredNote::Kind::cm ? note.cm_sent : note.kind == StoredNote::Kind::sent;
    line.to_server = sent == client;
    line.bytes = note.bytes;
    if (note.kind == StoredNote::Kind::cm) {
      if (note.cm == WireCmKind::dreq || note.cm == WireCmKind::closed) continue;
      line.cm = true;
      line.kind = note.cm;
      line.bytes.resize(wire::kConnReqBytes);
    } else {
      line.op = note.op;
      line.imm = note.imm;
      line.rkey = note.rkey;
      line.remote_addr = note.remote_addr;
      line.length = note.length;
    }
    to->push_back(line);
  }
  return story;
}

std::vector<Line> only(const std::vector<Line>& lines, bool to_server, bool writes) {
  std::vector<Line> some;
  for (Line line : lines) {
    if (line.to_server != to_server) continue;
    const bool write = !line.cm && line.op == WireOp::write;
    const bool answer = !line.cm && !to_server && line.op == WireOp::write_imm;
    // The receiver does not notice an empty write, which is a liveness probe.
    if (write && line.length == 0) continue;
    if (writes ? !write && !(answer && line.length != 0) : write) continue;
    // The receiver of a response does not know address, key and length.
    if (answer && !writes) {
      line.rkey = line.length = 0;
      line.remote_addr = 0;
    }
    some.push_back(line);
  }
  return some;
}

std::vector<Line> without_cm(std::vector<Line> lines) {
  std::erase_if(lines, [](const Line& line) { return line.cm; });
  return lines;
}

bool is_prefix(const std::vector<Line>& part, const std::vector<Line>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

std::vector<Line> without_preflush(std::vector<Line> lines) {
  constexpr std::byte kPreflush{wire::rnbd::kRwPreflush >> 8};
  for (Line& line : lines)
    if (line.bytes.size() > 20 && line.bytes[0] == std::byte{4})
      line.bytes[17] &= ~kPreflush;  // a byte of the field `rw`, which begins at byte 16
  return lines;
}

std::vector<Line> without_unread(std::vector<Line> lines) {
  std::erase_if(lines, [](const Line& line) {
    return line.op == WireOp::write_imm && line.length == 0 &&
           wire::imm_type(line.imm) == wire::ImmType::io_req;
  });
  return lines;
}

}  // namespace rtrs::roce::test
