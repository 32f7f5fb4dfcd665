#include "tools/lib/control/attributes/server_facts.hpp"

#include <algorithm>

#include "core/proto/reasons.hpp"
#include "tools/lib/text/times.hpp"

namespace rtrs::attributes {

using nlohmann::json;
using namespace tools::field;

namespace {

using At = ServerPathAt;
using Times = ServiceTimes::Times;

const char* state_of(const ServerSessionStatus& session) {
  const bool up = std::any_of(session.paths.begin(), session.paths.end(),
                              [](const auto& path) { return path.state == PathState::connected; });
  return up ? "connected" : session.opened ? "disconnected" : "half-open";
}

constexpr tools::Fact<ServerSessionStatus> kSession[] = {
    RTRS_FACT(text("sessname", "Session name", "name of the session").shown().was("/name"), at.name),
    RTRS_FACT(text("state", "State", "connected, disconnected or half-open")
                  .shown()
                  .of("connected|disconnected|half-open"),
              state_of(at)),
    {text("path_uu", "PS", "one U for each path that is up, one _ for each that is not")
         .shown()
         .of("^[U_]*$"),
     nullptr},
    {bytes("tx_bytes", "TX", "bytes that clients read").shown(), nullptr},
    {bytes("rx_bytes", "RX", "bytes that clients wrote").shown(), nullptr},
    {count("inflights", "Inflight", "requests that are not answered yet").shown(), nullptr},
    {plain("path_cnt", "Paths", "paths"), nullptr},
    {plain("act_path_cnt", "Active", "paths that are up"), nullptr},
    RTRS_FACT(text("identity", "Identity", "proved by TLS or a shared key; else empty"), at.identity),
    {count("reads", "Reads", "requests to read"), nullptr},
    {count("writes", "Writes", "requests to write"), nullptr},
    RTRS_FACT(unlisted("session"), at.session),
};

json extensions_of(const At& at) {
  json names = json::array();
  constexpr std::pair<wire::Extensions, const char*> kNames[] = {
      {wire::Extensions::fence, "fence"},
      {wire::Extensions::generation, "generation"},
      {wire::Extensions::probe, "probe"},
      {wire::Extensions::keys_stay, "keys_stay"},
      {wire::Extensions::data_with_answer, "data_with_answer"}};
  for (const auto& [one, name] : kNames)
    if (has(at.path.extensions, one)) names.push_back(name);
  return names;
}

// Returns one member of the description of the path's reason; null if the path has no reason.
template <auto member>
json reason_of(const At& at) {
  return at.path.reason == Reason::none ? json() : json(text_of(at.path.reason).*member);
}

json count_of(const Times& times) {
  return times.count();
}
json mean_of(const Times& times) {
  return tools::micros_of(static_cast<std::uint64_t>(times.mean()));
}
json p50_of(const Times& times) {
  return tools::micros_of(times.percentile(50));
}
json p99_of(const Times& times) {
  return tools::micros_of(times.percentile(99));
}
json max_of(const Times& times) {
  return tools::micros_of(times.max());
}

// Returns a statistic of the service times of reads or writes; null before the path is connected.
template <Direction direction, json (*read)(const Times&)>
json timed(const At& at) {
  return at.path.times == nullptr ? json() : read(at.path.times->of(direction));
}

// Returns [lowest time in ns, number of requests] for each bucket that has requests.
template <Direction direction>
json buckets_of(const At& at) {
  if (at.path.times == nullptr || !at.buckets) return {};
  const Times& times = at.path.times->of(direction);
  json list = json::array();
  for (std::size_t i = 0; i < Times::kBuckets; ++i)
    if (times.count(i) != 0) list.push_back({Times::lowest_of(i), times.count(i)});
  return list;
}

constexpr tools::Fact<At> kPath[] = {
    {text("sessname", "Session name", "name of the session").shown(), nullptr},
    RTRS_FACT(plain("path", "Index", "of the path; can be used as PATH").shown(), at.path.path),
    RTRS_FACT(text("pathname", "Path", "CLIENT@SERVER, both ends: names it too").shown(),
              pathname_of(at.path.peer)),
    RTRS_FACT(
        text("hca_name", "HCA", "RDMA device (host channel adapter), provider of libfabric, or tcp").shown(),
        at.path.device.name),
    RTRS_FACT(plain("hca_port", "Port", "of the RDMA device, counted from 1; not the TCP port"),
              at.path.device.port),
    RTRS_FACT(text("posting", "Posting", "over RDMA: send or wr, as in --rdma-post"), at.path.device.posting),
    RTRS_FACT(text("state", "State", "connecting, connected or closing").shown(), to_string(at.path.state)),
    // TX and RX are from the view of this host: the server transmits (TX) the data that clients read.
    RTRS_FACT(bytes("tx_bytes", "TX", "bytes that clients read").shown().was("/read_bytes"),
              at.path.traffic.read_bytes()),
    RTRS_FACT(bytes("rx_bytes", "RX", "bytes that clients wrote").shown().was("/write_bytes"),
              at.path.traffic.write_bytes()),
    RTRS_FACT(text("src_addr", "Client address", "of the client"), path_ends(at.path.peer).source),
    RTRS_FACT(text("dst_addr", "Server address", "of this server"), path_ends(at.path.peer).destination),
    RTRS_FACT(count("inflights", "Inflight", "requests that are not answered yet").was("/inflight"),
              at.path.in_service),
    RTRS_FACT(count("connections", "Connections", "that are open"), at.path.connections),
    RTRS_FACT(count("reads", "Reads", "requests to read"), at.path.traffic.reads()),
    RTRS_FACT(count("writes", "Writes", "requests to write"), at.path.traffic.writes()),
    {real("read_p50_us", "Read p50/us", "microseconds from request to answer: half of the reads")
         .if_known()
         .was("/service_time/read/p50_us"),
     timed<Direction::read, p50_of>},
    {real("read_p99_us", "Read p99/us", "99 of 100 reads").if_known().was("/service_time/read/p99_us"),
     timed<Direction::read, p99_of>},
    {real("read_max_us", "Read max/us", "the slowest read").if_known().was("/service_time/read/max_us"),
     timed<Direction::read, max_of>},
    {real("write_p50_us", "Write p50/us", "half of the writes").if_known().was("/service_time/write/p50_us"),
     timed<Direction::write, p50_of>},
    {real("write_p99_us", "Write p99/us", "99 of 100 writes").if_known().was("/service_time/write/p99_us"),
     timed<Direction::write, p99_of>},
    {real("write_max_us", "Write max/us", "the slowest write").if_known().was("/service_time/write/max_us"),
     timed<Direction::write, max_of>},
    RTRS_FACT(real("heartbeat_s", "Heartbeat/s", "seconds between two heartbeats of this side").if_known(),
              tools::seconds_of(at.heartbeat.interval)),
    RTRS_FACT(plain("missed_max", "Missed max", "heartbeats that may stay unanswered").if_known(),
              at.heartbeat.missed_max),
    RTRS_FACT(real("dead_s", "Dead after/s", "seconds of silence that end the path at the latest").if_known(),
              tools::seconds_of(dead_peer_time(at.heartbeat))),
    RTRS_FACT(real("since_s", "Since/s", "seconds since the path entered this state"),
              tools::seconds_between(at.path.since, at.now)),
    RTRS_FACT(real("silent_s", "Silent/s", "seconds since a heartbeat that nothing followed").if_known(),
              tools::seconds_since(at.path.silent_since, at.now)),
    {text("reason", "Reason", "why it closes").if_known(), reason_of<&ReasonText::code>},
    {text("sentence", "Meaning", "of the reason").if_known(), reason_of<&ReasonText::sentence>},
    {plain("errno", "Errno", "of the reason").if_known(), reason_of<&ReasonText::linux_errno>},
    {text("hint", "What to do", "about the reason").if_known(), reason_of<&ReasonText::hint>},
    {text("extensions", "Extensions", "of the protocol, that were granted").as(tools::Field::Value::list),
     extensions_of},
    RTRS_FACT(unlisted("peer"), at.path.peer),
    {unlisted("read_count", "/service_time/read/count"), timed<Direction::read, count_of>},
    {unlisted("read_mean_us", "/service_time/read/mean_us"), timed<Direction::read, mean_of>},
    {unlisted("read_buckets", "/service_time/read/buckets"), buckets_of<Direction::read>},
    {unlisted("write_count", "/service_time/write/count"), timed<Direction::write, count_of>},
    {unlisted("write_mean_us", "/service_time/write/mean_us"), timed<Direction::write, mean_of>},
    {unlisted("write_buckets", "/service_time/write/buckets"), buckets_of<Direction::write>},
};

constexpr tools::Fact<OpenDeviceAt> kDevice[] = {
    RTRS_FACT(text("sessname", "Session name", "name of the session").shown().was("/session"),
              at.use.session),
    RTRS_FACT(text("mapping_path", "Mapping path", "as the client requested it").shown(),
              at.use.mapping_path),
    RTRS_FACT(text("device", "Device", "what is exported").shown(), at.device.backing),
    RTRS_FACT(text("access_mode", "Access mode", "ro, rw or migration").shown().of("ro|rw|migration"),
              to_string(at.use.mode)),
    RTRS_FACT(size("size_bytes", "Size", "of the device").shown(), at.use.size_bytes),
    RTRS_FACT(plain("handle", "Handle", "number of this open device"), at.use.handle),
};

std::string source_of(const ExportModel& one) {
  return one.memory_bytes == 0 ? one.path : "mem:" + std::to_string(one.memory_bytes);
}

json if_set(bool value) {
  return value ? json(true) : json();
}

constexpr tools::Fact<ExportModel> kExport[] = {
    RTRS_FACT(text("name", "Name", "for clients").shown(), at.name),
    RTRS_FACT(text("source", "Source", "file, block device or memory").shown(), source_of(at)),
    RTRS_FACT(text("access", "Access", "ro or rw").shown().of("ro|rw"), at.read_only ? "ro" : "rw"),
    RTRS_FACT(plain("delay_ms", "Delay", "milliseconds that every operation waits"), at.delay_ms),
    RTRS_FACT(text("state", "State", "served, missing or lost; shown unless all are served")
                  .of("served|missing|lost"),
              at.lost              ? "lost"
              : at.missing.empty() ? "served"
                                   : "missing"),
    RTRS_FACT(text("why", "Why", "it is missing or lost; likewise"),
              at.lost ? "its NBD server is lost; the log has the reason" : at.missing),
    RTRS_FACT(unlisted("path"), at.memory_bytes == 0 ? json(at.path) : json()),
    RTRS_FACT(unlisted("memory_bytes"), at.memory_bytes != 0 ? json(at.memory_bytes) : json()),
    RTRS_FACT(unlisted("read_only"), at.read_only),
    RTRS_FACT(unlisted("force"), if_set(at.force)),
    RTRS_FACT(unlisted("lost"), if_set(at.lost)),
};

}  // namespace

std::string pathname_of(std::string_view described) {
  const PathEnds ends = path_ends(described);
  return ends.source + "@" + ends.destination;
}

std::span<const tools::Fact<ServerSessionStatus>> server_session_facts() {
  return kSession;
}
std::span<const tools::Fact<ServerPathAt>> server_path_facts() {
  return kPath;
}
std::span<const tools::Fact<OpenDeviceAt>> open_device_facts() {
  return kDevice;
}
std::span<const tools::Fact<ExportModel>> export_facts() {
  return kExport;
}

}  // namespace rtrs::attributes
