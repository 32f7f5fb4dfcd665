// Describes the records of connections, paths and sessions.
#include "core/proto/reasons.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/trace/sequence/explain.hpp"

namespace rtrs::tools::sequence {

namespace {

std::string reason_words(const Fields& record) {
  std::string words = record.word("reason");
  // A reason that this version does not know is shown unchanged.
  if (words == "none")
    words.clear();
  else if (const ReasonText* text = text_of(std::string_view(words)))
    words += std::string(" (") + text->sentence + ")";
  if (record.number("peer_errno") != 0)
    words += (words.empty() ? "" : ", ") + errno_words(record.number("peer_errno"));
  return words;
}

std::string with_reason(std::string title, const Fields& record) {
  const std::string why = reason_words(record);
  return why.empty() ? title : title + ": " + why;
}

std::string seconds_words(std::uint64_t ns) {
  const std::uint64_t ms = ns / 1'000'000;
  return ms < 10'000 ? std::to_string(ms) + " ms" : std::to_string(ms / 1000) + " s";
}

}  // namespace

void Explainer::on_begin_client(const Fields&, Step& step) {
  step.group = Group::control;
  step.title = machine().start == 0 ? "client session begins" : "client session restarts";
}

void Explainer::on_begin_server(const Fields& record, Step& step) {
  step.group = Group::control;
  machine().session = static_cast<std::uint16_t>(record.number("session"));
  machine().depth = static_cast<std::uint32_t>(record.number("config.queue_depth"));
  step.title = machine().registry ? "server begins"
                                  : "server session " + std::to_string(machine().session) + " begins";
}

void Explainer::on_end(const Fields&, Step& step) {
  step.group = Group::control;
  step.title = on_server() ? "server session ended" : "client session ended";
}

void Explainer::on_connect(const Fields& record, Step& step) {
  step.group = Group::connect;
  if (step.connection == kNone) return;  // a trace of another version may have no connection key
  Connection& connection = connection_of(step);
  connection.attempt = static_cast<std::uint16_t>(record.number("recon_cnt"));
  step.title = "CON_REQ " + std::to_string(connection.key.con + 1) + " of " + record.word("cid_num") +
               ", attempt " + record.word("recon_cnt");
  step.may_vanish = false;
  send(step, signature('C', std::uint64_t{connection.attempt} << 16 | connection.key.con));
}

void Explainer::on_connect_requested(const Fields& record, Step& step) {
  step.group = Group::connect;
  if (step.connection == kNone) return;
  Connection& connection = connection_of(step);
  connection.attempt = static_cast<std::uint16_t>(record.number("recon_cnt"));
  connection.path_uuid = record.bytes("sess_uuid");
  now_->requests[static_cast<std::uint32_t>(record.number("request"))] = connection.key;
  machine().generations = machine().generations || (record.number("extensions") & 2) != 0;
  step.title = "CON_REQ " + std::to_string(connection.key.con + 1) + " of " + record.word("cid_num") +
               ", attempt " + record.word("recon_cnt");
  receive(step, signature('C', std::uint64_t{connection.attempt} << 16 | connection.key.con));
}

void Explainer::on_accept(const Fields& record, Step& step) {
  step.group = Group::connect;
  machine().generations = (record.number("flags") & wire::kConnRspGeneration) != 0;
  step.title = "CON_RSP accepted";
  send(step, signature('A', record.number("flags")));
}

void Explainer::on_connected(const Fields& record, Step& step) {
  step.group = Group::connect;
  machine().generations = (record.number("flags") & wire::kConnRspGeneration) != 0;
  if (record.number("queue_depth") != 0)
    machine().depth = static_cast<std::uint32_t>(record.number("queue_depth"));
  step.title = "CON_RSP accepted";
  if (record.number("key.con") == 0)
    step.title +=
        ", depth " + record.word("queue_depth") + ", IO up to " + size_words(record.number("max_io_size"));
  receive(step, signature('A', record.number("flags")));
}

void Explainer::on_reject(const Fields& record, Step& step) {
  step.group = Group::connect;
  step.tone = Tone::warning;
  step.title = with_reason("CON_RSP rejected", record);
  const auto request = now_->requests.find(static_cast<std::uint32_t>(record.number("request")));
  if (request == now_->requests.end()) return;
  step.connection = now_->connections[request->second];
  send(step, signature('J', record.number("peer_errno")));
}

void Explainer::on_addresses_found(const Fields& record, Step& step) {
  step.group = Group::connect;
  step.title = "the name of path " + record.word("key.path") + " has " + record.word("count") + " addresses";
}

void Explainer::on_connect_failed(const Fields& record, Step& step) {
  step.group = Group::connect;
  step.tone = Tone::warning;
  step.title = with_reason("connecting failed", record);
  // If the record has no errno from the peer, the attempt failed without a message from the peer, so the step
  // has no receive.
  if (record.number("peer_errno") != 0) receive(step, signature('J', record.number("peer_errno")));
}

void Explainer::on_info(const Fields& record, Step& step) {
  step.group = Group::connect;
  if (step.event == "SendInfoReq" || step.event == "InfoRequested") {
    step.title = "INFO_REQ";
    step.event == "SendInfoReq" ? send(step, signature('I', 0)) : receive(step, signature('I', 0));
    if (record.number("refusal_errno") != 0) {
      step.tone = Tone::bad;
      step.title += " refused, " + errno_words(record.number("refusal_errno"));
    }
    return;
  }
  step.title = "INFO_RSP";
  step.event == "SendInfoRsp" ? send(step, signature('i', 0)) : receive(step, signature('i', 0));
}

void Explainer::on_fence(const Fields& record, Step& step) {
  step.group = Group::fence;
  const bool request = step.event == "SendFenceReq" || step.event == "FenceRequested";
  const bool sends = step.event == "SendFenceReq" || step.event == "SendFenceRsp";
  step.title = std::string(request ? "FENCE_REQ " : "FENCE_RSP ") + record.word("serial");
  if (step.event == "SendFenceReq")
    step.title += ": path " + record.word("path") + " up to attempt " + record.word("recon_cnt");
  if (!request) {
    step.title += ' ' + errno_words(record.number("peer_errno"));
    if (record.number("peer_errno") != 0) step.tone = Tone::warning;
  }
  const std::uint64_t sign = signature(request ? 'F' : 'f', record.number("serial"));
  sends ? send(step, sign) : receive(step, sign);
}

void Explainer::on_disconnect(const Fields& record, Step& step) {
  step.group = Group::connect;
  step.title = with_reason("disconnect", record);
  step.may_vanish = true;
  if (record.word("reason") != "requested" && record.word("reason") != "session_closed")
    step.tone = Tone::warning;
  send(step, signature('D', 0));
}

void Explainer::on_lost(const Fields& record, Step& step) {
  step.group = Group::connect;
  step.tone = Tone::warning;
  step.title = with_reason("connection lost", record);
  // A client's driver that waits for INFO_RSP reports a disconnect by the peer as "name_refused" instead of
  // "peer_closed".
  if (record.word("reason") == "peer_closed" || record.word("reason") == "name_refused")
    receive(step, signature('D', 0));
}

void Explainer::on_closed(const Fields&, Step& step) {
  step.group = Group::connect;
  step.title = "connection closed, nothing outstanding";
}

void Explainer::on_path_changed(const Fields& record, Step& step) {
  step.group = Group::state;
  const std::string state = record.word("state");
  step.title = with_reason("path " + record.word("path") + ' ' + state, record);
  if (state == "waiting" && record.number("delay") != 0)
    step.title += ", next attempt in " + seconds_words(record.number("delay"));
  step.tone = state == "connected"                        ? Tone::good
              : state == "draining" || state == "waiting" ? Tone::warning
                                                          : Tone::normal;
}

void Explainer::on_link_changed(const Fields& record, Step& step) {
  step.group = Group::state;
  step.tone = record.flag("up") ? Tone::good : Tone::bad;
  step.title = record.flag("up") ? "link up: a path is connected" : "link down: no path is connected";
}

void Explainer::on_end_session(const Fields& record, Step& step) {
  step.group = Group::state;
  step.title = with_reason("session ended", record);
}

void Explainer::on_operator(const Fields& record, Step& step) {
  step.group = Group::state;
  static const std::map<std::string_view, const char*> words = {
      {"PathAdded", "operator adds path "},
      {"PathRemoveRequested", "operator removes path "},
      {"PathDisconnectRequested", "operator disconnects path "},
      {"PathReconnectRequested", "operator reconnects path "},
      {"PolicyChanged", "operator sets policy "},
      {"AttemptsChanged", "operator sets max_reconnect_attempts "},
      {"CloseRequested", "close requested"}};
  step.title =
      words.at(step.event) + (record.has("path")                     ? record.word("path")
                              : record.has("policy")                 ? record.word("policy")
                              : record.has("max_reconnect_attempts") ? record.word("max_reconnect_attempts")
                                                                     : std::string());
}

}  // namespace rtrs::tools::sequence
