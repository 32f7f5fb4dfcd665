// What a capture says, as the wire notes of a trace (docs/trace_format.md). The trace reads as if the clients
// had recorded it: what goes to a server is WireSent, what goes to a client WireReceived, with address and
// key also where a client could not see them, and with the data that servers write into clients' memory.
// Instances are sessions, from 1; 0 has connect requests to the RTRS port that do not parse.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/record/writer.hpp"
#include "tools/lib/trace/roce/analyzer.hpp"
#include "tools/lib/trace/roce/chunk_table.hpp"

namespace rtrs::roce {

struct ImportOptions {
  std::uint16_t port = 1234;    // of RTRS servers: a request to it that does not parse is kept
  bool payload = false;         // user data whole, not as digests
  std::uint64_t time_zero = 0;  // of the capture: becomes time 0 of the trace
};

struct ImportCounters {
  std::uint64_t sessions = 0;
  std::uint64_t paths = 0;
  std::uint64_t connections = 0;
  std::uint64_t unparsed_requests = 0;  // of a connection, to the RTRS port
  std::uint64_t other_connections = 0;  // of other protocols
  std::uint64_t notes = 0;
  std::uint64_t headless = 0;  // requests without an RTRS header where it should be
};

class TraceImport {
 public:
  // `writer` was started with a header of this build's schema and outlives this.
  TraceImport(trace::Writer& writer, const ImportOptions& options) : writer_(writer), options_(options) {}

  // The next event of `analyzer`.
  void on(const Analyzer& analyzer, const WireEvent& event);
  // Last of all: the capture has `packets` of connections whose setup it does not have. A gap of no known
  // connection says so to whoever judges the trace. `time`: of the capture's last packet.
  void without_setup(std::uint64_t packets, std::uint64_t time);
  [[nodiscard]] const ImportCounters& counters() const noexcept { return counters_; }
  // 0 or a positive errno: the trace could not be written.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  struct Attempt {
    std::uint32_t epoch = 0;
    std::uint16_t recon_cnt = 0;
    std::vector<bool> cids;  // asked for
    ChunkTable chunks;
  };
  struct Path {
    InstanceId session = 0;
    std::uint16_t index = 0;
    std::uint32_t epochs = 0;
    std::vector<Attempt> attempts;
  };
  struct Session {
    InstanceId instance = 0;
    std::uint16_t paths = 0;
  };
  struct Connection {
    bool ours = false;
    InstanceId instance = 0;
    ConKey key;
    std::size_t path = 0;     // index into paths_, when the request parsed
    std::size_t attempt = 0;  // of the path
    bool parsed = false;
  };

  void request(const Analyzer& analyzer, const WireEvent& event, Connection& connection);
  void place(const wire::ConnReq& request, Connection& connection);
  void cm(const WireEvent& event, const Connection& connection);
  void message(const WireEvent& event, const Connection& connection);
  // Offset and length of what a machine parses within the payload.
  std::pair<std::size_t, std::size_t> head_of(const WireEvent& event, const Connection& connection);
  ChunkTable* chunks(const Connection& connection);
  template <class Note>
  void put(const Connection& connection, const Note& note);

  trace::Writer& writer_;
  ImportOptions options_;
  ImportCounters counters_;
  int error_ = 0;
  std::vector<Connection> connections_;  // by ConnectionNumber
  std::map<wire::Uuid, Session> sessions_;
  std::map<std::pair<wire::Uuid, wire::Uuid>, std::size_t> path_index_;  // session, path
  std::vector<Path> paths_;
  std::uint32_t unparsed_ = 0;
};

}  // namespace rtrs::roce
