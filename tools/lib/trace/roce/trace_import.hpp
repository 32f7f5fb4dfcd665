// Converts a capture to the wire notes of a trace (docs/trace_format.md). The trace looks as if the clients
// had recorded it: a message to a server is WireSent, a message to a client is WireReceived. Unlike in a
// client's trace, address and key are always included, and also the data that servers write to the memory of
// clients. Instances are sessions, from 1; instance 0 has the invalid connect requests to the RTRS port.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/record/writer.hpp"
#include "tools/lib/trace/roce/chunk_table.hpp"
#include "tools/lib/trace/roce/wire_event.hpp"

namespace rtrs::roce {

struct ImportOptions {
  std::uint16_t port = 1234;    // port of RTRS servers; invalid connect requests to it are kept
  bool payload = false;         // record complete user data instead of digests
  std::uint64_t time_zero = 0;  // time in the capture that becomes time 0 of the trace
};

struct ImportCounters {
  std::uint64_t sessions = 0;
  std::uint64_t paths = 0;
  std::uint64_t connections = 0;
  std::uint64_t unparsed_requests = 0;  // invalid connect requests to the RTRS port
  std::uint64_t other_connections = 0;  // connections of other protocols
  std::uint64_t notes = 0;
  std::uint64_t headless = 0;  // requests without an RTRS header at the expected position
};

class TraceImport {
 public:
  // `writer`: already started with the schema of this build; must outlive this object.
  TraceImport(trace::Writer& writer, const ImportOptions& options) : writer_(writer), options_(options) {}

  // Takes the next event of the capture.
  void on(const WireEvent& event);
  // Call last. Reports, as a gap without a connection, that the capture has `packets` packets of connections
  // whose setup is missing. `time`: time of the last packet.
  void without_setup(std::uint64_t packets, std::uint64_t time);
  [[nodiscard]] const ImportCounters& counters() const noexcept { return counters_; }
  // 0, or the positive errno with which writing the trace failed.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  struct Attempt {
    std::uint32_t epoch = 0;
    std::uint16_t recon_cnt = 0;
    std::vector<bool> cids;  // indexed by cid: true if the connection was requested
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
    std::size_t path = 0;     // index into paths_; valid if `parsed`
    std::size_t attempt = 0;  // index into Path::attempts
    bool parsed = false;
  };

  void request(const WireEvent& event, Connection& connection);
  void place(const wire::ConnReq& request, Connection& connection);
  void cm(const WireEvent& event, const Connection& connection);
  void message(const WireEvent& event, const Connection& connection);
  void split(const WireEvent& event, const Connection& connection);
  // Returns offset and length of the payload's head, which the protocol state machines parse.
  std::pair<std::size_t, std::size_t> head_of(const WireEvent& event, const Connection& connection);
  ChunkTable* chunks(const Connection& connection);
  template <class Note>
  void put(const Connection& connection, const Note& note);

  trace::Writer& writer_;
  ImportOptions options_;
  ImportCounters counters_;
  int error_ = 0;
  // Indexed by ConnectionNumber; of RoCE, and of iWARP.
  std::array<std::vector<Connection>, 2> connections_;
  std::map<wire::Uuid, Session> sessions_;
  // Keyed by the uuids of session and path.
  std::map<std::pair<wire::Uuid, wire::Uuid>, std::size_t> path_index_;
  std::vector<Path> paths_;
  std::uint32_t unparsed_ = 0;
};

}  // namespace rtrs::roce
