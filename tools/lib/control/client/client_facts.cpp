#include "tools/lib/control/client/client_facts.hpp"

#include <fmt/format.h>

#include <cstring>

#include "core/proto/reasons.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "tools/lib/text/times.hpp"

namespace rtrs::control {

using nlohmann::json;
using tools::micros_of;
using tools::seconds_between;
using tools::seconds_of;
using tools::seconds_since;

namespace {

using At = ClientPathAt;
using namespace tools::field;

json reason_of(const At& at, const char* key) {
  const PathStatus& status = at.path.status;
  json why = json::object();
  add_reason(why, status.reason, status.peer_errno, at.model.fabric);
  if (status.last_cause != Reason::none)
    why["sentence"] = fmt::format("{}, the last of them: {}", why.value("sentence", ""),
                                  words_of(status.last_cause, 0).sentence);
  return why.value(key, json());
}

json rtt_of(const At& at) {
  const Nanos latency = at.path.status.heartbeat_latency;
  return latency == 0 ? json() : json(micros_of(static_cast<std::uint64_t>(latency)));
}

json next_of(const At& at) {
  const PathStatus& status = at.path.status;
  if (status.state != PathState::waiting || status.retry_at == 0 || status.retry_at == kNever) return {};
  return seconds_between(at.now, status.retry_at);
}

json reconnects_of(const ClientModel& model) {
  std::uint64_t all = 0;
  for (const ClientPathModel& path : model.paths) all += is_shown(path) ? path.status.reconnects : 0;
  return all;
}

constexpr const char* kStates = "connecting|connected|draining|waiting|closing|closed";
constexpr const char* kP99 = "99th percentile; can be up to 2x too high";

constexpr tools::Fact<ClientPathAt> kPath[] = {
    {text("sessname", "Session name", "name of the session").shown(), nullptr},
    RTRS_FACT(plain("path", "Index", "of the path; can be used as PATH").shown(), at.path.path),
    RTRS_FACT(text("pathname", "Path", "SRC@DST, both ends: names it too").shown(), pathname_of(at.path)),
    RTRS_FACT(text("hca_name", "HCA", "RDMA device, provider of libfabric, or tcp").shown(),
              at.path.device.name),
    RTRS_FACT(plain("hca_port", "Port", "of the RDMA device, from 1; not the TCP port"), at.path.device.port),
    RTRS_FACT(text("posting", "Posting", "over RDMA: send or wr, as in rdma_post="), at.path.device.posting),
    RTRS_FACT(text("state", "State", "connecting, connected, draining, waiting ...").shown().of(kStates),
              to_string(at.path.status.state)),
    // As in rnbd, TX and RX are from the view of the client: the client transmits (TX) what it writes.
    RTRS_FACT(bytes("tx_bytes", "TX", "bytes that were written").shown().was("/write_bytes"),
              at.path.status.traffic.write_bytes()),
    RTRS_FACT(bytes("rx_bytes", "RX", "bytes that were read").shown().was("/read_bytes"),
              at.path.status.traffic.read_bytes()),
    RTRS_FACT(text("src_addr", "Client address", "of this side"), source_of(at.path)),
    RTRS_FACT(text("dst_addr", "Server address", "of the server"), destination_of(at.path)),
    RTRS_FACT(count("inflights", "Inflight", "requests that are not answered yet").was("/inflight"),
              at.path.status.inflight),
    RTRS_FACT(count("reconnects", "Reconnects", "number of reconnects"), at.path.status.reconnects),
    {real("rtt_us", "RTT/us", "microseconds from a heartbeat to its answer").if_known(), rtt_of},
    RTRS_FACT(plain("attempt", "Attempt", "to connect, since it was connected"), at.path.status.attempt),
    {real("next_s", "Next/s", "seconds until the next attempt").if_known(), next_of},
    RTRS_FACT(real("reconnect_min_s", "Pause min/s", "seconds before the second attempt"),
              seconds_of(at.model.reconnect_min)),
    RTRS_FACT(real("reconnect_max_s", "Pause max/s", "the longest delay, without the random part"),
              seconds_of(at.model.reconnect_max)),
    RTRS_FACT(count("failed_attempts", "Failed", "attempts to connect that failed"),
              at.path.status.failed_attempts),
    RTRS_FACT(count("failovers", "Failovers", "requests taken over from other paths"),
              at.path.status.failovers),
    RTRS_FACT(count("reads", "Reads", "requests to read"), at.path.status.traffic.reads()),
    RTRS_FACT(count("writes", "Writes", "requests to write"), at.path.status.traffic.writes()),
    RTRS_FACT(real("read_mean_us", "Read mean/us", "microseconds until the answer")
                  .if_known()
                  .was("/answer_time/read/mean_us"),
              micros_of(at.path.reads.mean())),
    RTRS_FACT(real("read_p99_us", "Read p99/us", kP99).if_known().was("/answer_time/read/p99_us"),
              micros_of(at.path.reads.at_most(99))),
    RTRS_FACT(
        real("read_max_us", "Read max/us", "the slowest read").if_known().was("/answer_time/read/max_us"),
        micros_of(at.path.reads.max())),
    RTRS_FACT(
        real("write_mean_us", "Write mean/us", "of the writes").if_known().was("/answer_time/write/mean_us"),
        micros_of(at.path.writes.mean())),
    RTRS_FACT(real("write_p99_us", "Write p99/us", kP99).if_known().was("/answer_time/write/p99_us"),
              micros_of(at.path.writes.at_most(99))),
    RTRS_FACT(
        real("write_max_us", "Write max/us", "the slowest write").if_known().was("/answer_time/write/max_us"),
        micros_of(at.path.writes.max())),
    RTRS_FACT(real("heartbeat_s", "Heartbeat/s", "seconds between two heartbeats of this side"),
              seconds_of(at.model.heartbeat.interval)),
    RTRS_FACT(plain("missed_max", "Missed max", "heartbeats that may stay unanswered"),
              at.model.heartbeat.missed_max),
    RTRS_FACT(real("dead_s", "Dead after/s", "seconds of silence that end the path"),
              seconds_of(dead_peer_time(at.model.heartbeat))),
    RTRS_FACT(real("since_s", "Since/s", "seconds since the path entered this state"),
              seconds_between(at.path.status.since, at.now)),
    RTRS_FACT(real("silent_s", "Silent/s", "seconds since a heartbeat without an answer").if_known(),
              seconds_since(at.path.status.silent_since, at.now)),
    RTRS_FACT(real("lost_s", "Lost/s", "seconds since its last connection ended").if_known(),
              seconds_since(at.path.status.lost_at, at.now)),
    RTRS_FACT(text("reason", "Reason", "why it was lost or refused last").if_known(),
              reason_of(at, "reason")),
    RTRS_FACT(text("sentence", "Meaning", "of the reason").if_known(), reason_of(at, "sentence")),
    RTRS_FACT(plain("errno", "Errno", "of the reason").if_known(), reason_of(at, "errno")),
    RTRS_FACT(text("hint", "What to do", "about the reason").if_known(), reason_of(at, "hint")),
    RTRS_FACT(unlisted("address"), address_of(at.path)),
    RTRS_FACT(unlisted("max_attempts"), at.model.max_reconnect_attempts),
    RTRS_FACT(unlisted("ios"), at.path.status.ios),
    RTRS_FACT(unlisted("read_count", "/answer_time/read/count"), at.path.reads.count()),
    RTRS_FACT(unlisted("write_count", "/answer_time/write/count"), at.path.writes.count()),
};

constexpr tools::Fact<ClientModel> kSession[] = {
    RTRS_FACT(text("sessname", "Session name", "name of the session").shown().was("/name"), at.session),
    RTRS_FACT(text("state", "State", "connected or disconnected").shown().of("connected|disconnected"),
              at.link_up ? "connected" : "disconnected"),
    {text("path_uu", "PS", "one U for each path that is up, one _ for each that is not")
         .shown()
         .of("^[U_]*$"),
     nullptr},
    RTRS_FACT(text("mp_short", "MP", "policy: RR round-robin, MI min-inflight, ML min-latency")
                  .shown()
                  .of("RR|MI|ML"),
              short_name(at.policy)),
    {bytes("tx_bytes", "TX", "bytes that were written").shown(), nullptr},
    {bytes("rx_bytes", "RX", "bytes that were read").shown(), nullptr},
    {count("reconnects", "Reconnects", "number of reconnects of paths").shown(), reconnects_of},
    RTRS_FACT(count("inflights", "Inflight", "requests that are not answered yet").was("/inflight"),
              at.under_way),
    {plain("path_cnt", "Paths", "paths"), nullptr},
    {plain("act_path_cnt", "Active", "paths that are up"), nullptr},
    RTRS_FACT(text("policy", "Policy", "in words").of("round-robin|min-inflight|min-latency"),
              to_string(at.policy)),
    RTRS_FACT(count("queued", "Queued", "requests that wait for a permit"), at.queued),
    RTRS_FACT(plain("depth", "Depth", "requests that can be at the server"), at.depth),
    {count("reads", "Reads", "requests to read"), nullptr},
    {count("writes", "Writes", "requests to write"), nullptr},
    RTRS_FACT(unlisted("max_io_size"), at.max_io_size),
    RTRS_FACT(unlisted("max_reconnect_attempts"), at.max_reconnect_attempts),
};

constexpr tools::Fact<ClientDeviceAt> kDevice[] = {
    RTRS_FACT(text("sessname", "Session name", "name of the session").shown().was("/session"),
              at.model.session),
    RTRS_FACT(text("mapping_path", "Mapping path", "as the server knows it").shown(), at.device.name),
    RTRS_FACT(text("state", "State", "open, closed, init, unmapping, or idle: not mapped")
                  .shown()
                  .of("idle|init|open|closed|unmapping|unmapped"),
              at.device.state),
    RTRS_FACT(text("access_mode", "Access mode", "ro, rw or migration").shown().of("ro|rw|migration"),
              wire::rnbd::to_string(at.device.mode)),
    RTRS_FACT(size("size_bytes", "Size", "when it was opened last").shown(), at.device.size_bytes),
    RTRS_FACT(plain("users", "Users", "NBD connections that use it").shown(), at.device.users),
    RTRS_FACT(plain("handle", "Handle", "number of this mapping"), at.device.handle),
    RTRS_FACT(flag("kept", "Kept", "stays open without users"), at.device.kept),
    RTRS_FACT(plain("errno", "Errno", "of the last refusal of the server"), at.device.error),
    RTRS_FACT(text("reason", "Reason", "why the server refused it, see \"urtrs reason show\""),
              rnbd::text_of(rnbd::reason_of_refusal(static_cast<std::uint16_t>(at.device.error))).code),
};

constexpr tools::Fact<ClientStats> kStats[] = {
    RTRS_FACT(plain("reads"), at.reads),
    RTRS_FACT(plain("writes"), at.writes),
    RTRS_FACT(plain("read_bytes"), at.read_bytes),
    RTRS_FACT(plain("write_bytes"), at.write_bytes),
    RTRS_FACT(plain("errors"), at.errors),
    RTRS_FACT(plain("failovers"), at.failovers),
    RTRS_FACT(plain("unfenced_failovers"), at.unfenced_failovers),
    RTRS_FACT(plain("unproven_failures"), at.unproven_failures),
    RTRS_FACT(plain("permits_given_up"), at.permits_given_up),
    RTRS_FACT(plain("stale_events"), at.stale_events),
    RTRS_FACT(plain("stale_responses"), at.stale_responses),
    RTRS_FACT(plain("refused_messages"), at.refused_messages),
    RTRS_FACT(plain("copied_reads"), at.copied_reads),
};

}  // namespace

std::span<const tools::Fact<ClientPathAt>> client_path_facts() {
  return kPath;
}
std::span<const tools::Fact<ClientModel>> client_session_facts() {
  return kSession;
}
std::span<const tools::Fact<ClientDeviceAt>> client_device_facts() {
  return kDevice;
}
std::span<const tools::Fact<ClientStats>> client_stats_facts() {
  return kStats;
}

bool is_shown(const ClientPathModel& path) {
  return path.status.state != PathState::absent;
}

void add_reason(json& to, Reason reason, std::uint16_t peer_errno, std::string_view fabric) {
  if (reason == Reason::none) return;
  const ReasonText text = words_of(reason, peer_errno, fabric);
  to["reason"] = text.code;
  to["sentence"] = peer_errno == 0 ? std::string(text.sentence)
                                   : fmt::format("{}: {}", text.sentence, std::strerror(peer_errno));
  to["hint"] = text.hint;
  to["errno"] = peer_errno != 0 ? peer_errno : text.linux_errno;
}

}  // namespace rtrs::control
