// Runs of simulated worlds, and the messages of each connection in their traces, for tests of conversions.
#pragma once
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/record/wire_notes.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/roce/recordings.hpp"

namespace rtrs::roce::test {

using trace::WireCmKind;
using trace::WireOp;

// A message or CM message, reduced to the fields that are compared.
struct Line {
  bool to_server = false;
  bool cm = false;
  WireCmKind kind = WireCmKind::req;
  WireOp op = WireOp::write;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;
  std::vector<std::byte> bytes;
  bool operator==(const Line&) const = default;
};

// Name identifies a connection: its connect request, and its number among equal requests. Story contains the
// messages of each connection.
using Name = std::pair<std::vector<std::byte>, unsigned>;
using Story = std::map<Name, std::vector<Line>>;

struct Files {
  std::vector<std::string> clients;
  std::vector<std::string> servers;
};

std::ostream& operator<<(std::ostream& out, const Line& line);
// Runs the world of a seed without faults that a conversion cannot reproduce. Files gets the paths of its
// traces, which exist as long as the folder.
Files play(const tools::ScratchFolder& folder, std::uint64_t seed);
Recordings load(const std::vector<std::string>& paths);
Recordings load_text(const std::string& text);
// Returns the messages in the halves of one side. Of the CM messages, only requests and replies are returned,
// because the traces of the two sides can differ in which side disconnects first.
Story told_by(const Recordings& recordings, bool client);
// Returns only data writes, or everything else. A response that carries data counts as both.
std::vector<Line> only(const std::vector<Line>& lines, bool to_server, bool writes);
std::vector<Line> without_cm(std::vector<Line> lines);
bool is_prefix(const std::vector<Line>& part, const std::vector<Line>& whole);
// Clears PREFLUSH. In some worlds the fabric sets this flag in writes, after the client has recorded them
// (sim/net/basic/preflush_fabric.hpp).
std::vector<Line> without_preflush(std::vector<Line> lines);
// Removes the requests that the server received after their connection had ended. The server
// does not read their content, so the export leaves them out.
std::vector<Line> without_unread(std::vector<Line> lines);

}  // namespace rtrs::roce::test
