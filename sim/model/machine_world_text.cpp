// Texts for worlds and their steps.
#include <string>

#include "core/wire/imm.hpp"
#include "sim/model/machine_world.hpp"

namespace rtrs::sim {

namespace {

using Kind = MachineStep::Kind;

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

}  // namespace

const char* to_string(MachineStep::Kind kind) noexcept {
  switch (kind) {
    case Kind::to_server:
      return "to_server";
    case Kind::to_client:
      return "to_client";
    case Kind::forget:
      return "forget";
    case Kind::server_lost:
      return "server_lost";
    case Kind::client_lost:
      return "client_lost";
    case Kind::server_closed:
      return "server_closed";
    case Kind::client_closed:
      return "client_closed";
    case Kind::storage:
      return "storage";
    case Kind::submit:
      return "submit";
    case Kind::deadline:
      return "deadline";
    case Kind::early_deadline:
      return "early_deadline";
    case Kind::cut:
      return "cut";
    case Kind::lose:
      return "lose";
    case Kind::reconnect:
      return "reconnect";
    case Kind::disconnect:
      return "disconnect";
    case Kind::crash:
      return "crash";
    case Kind::close:
      return "close";
  }
  return "?";
}

std::string MachineWorld::request_text(std::uint16_t io) const {
  return (is_read(io) ? "READ " : "write ") + number(io / config_.blocks + 1U) + " of block " +
         number(io % config_.blocks);
}

std::string MachineWorld::message_text(const Connection& connection, const Message& message) const {
  switch (message.kind) {
    case Message::Kind::connect:
      return "CON_REQ cid " + number(connection.client_key.con);
    case Message::Kind::accept:
      return "CON_RSP (accepted)";
    case Message::Kind::reject:
      return "CON_RSP (errno " + number(message.peer_errno) + ")";
    case Message::Kind::info_req:
      return "INFO_REQ";
    case Message::Kind::info_rsp:
      return "INFO_RSP";
    case Message::Kind::request:
      return "request in chunk " + number(message.path) + ": " + request_text(message.io);
    case Message::Kind::data:
      return "data of " + request_text(message.io) +
             (message.content == kNoIo ? ", never written,"
                                       : ", that of " + request_text(message.content) + ",");
    case Message::Kind::fence_req:
      return "FENCE_REQ for path " + number(message.path) + " up to attempt " + number(message.recon);
    case Message::Kind::fence_rsp:
      return "FENCE_RSP";
    case Message::Kind::imm:
      break;
  }
  const wire::ImmType type = wire::imm_type(message.number);
  if (type != wire::ImmType::io_rsp && type != wire::ImmType::io_rsp_w_inv) return "heartbeat";
  return "response for chunk " +
         number(wire::split_msg_id(config_.server.queue_depth, wire::decode_io_rsp(message.number).msg_id)
                    .buf_id);
}

std::string MachineWorld::describe(const MachineStep& step) const {
  const Connection* c = find(step.which);
  const auto where = [c] {
    if (c == nullptr) return std::string("?");
    return "path " + number(c->client_key.path) + " attempt " + number(c->client_key.epoch) + " cid " +
           number(c->client_key.con);
  };
  switch (step.kind) {
    case Kind::to_server:
      return message_text(*c, c->to_server.front()) + " arrives over " + where();
    case Kind::to_client:
      return message_text(*c, c->to_client.front()) + " arrives over " + where();
    case Kind::forget:
      return "the connect request of " + where() + " is lost";
    case Kind::server_lost:
    case Kind::client_lost:
      return where() + " is found lost";
    case Kind::server_closed:
    case Kind::client_closed:
      return where() + " is drained";
    case Kind::storage:
      return request_text(storage_[step.which].io) + " is finished from chunk " +
             number(storage_[step.which].chunk);
    case Kind::submit: {
      std::uint16_t io = static_cast<std::uint16_t>(step.which);
      while (ios_[io] != IoState::unsent) io = static_cast<std::uint16_t>(io + config_.blocks);
      return request_text(io) + " is submitted, permit " + number(client_.next_permit());
    }
    case Kind::deadline:
      return "time passes until the next deadline";
    case Kind::early_deadline:
      return "time passes until the next deadline, too early";
    case Kind::cut:
      return where() + " breaks";
    case Kind::lose:
      return message_text(*c, (c->server == End::none ? c->to_server : c->to_client).front()) + " of " +
             where() + " is lost";
    case Kind::reconnect:
      return "an operator has path " + number(step.which) + " reconnected";
    case Kind::disconnect:
      return "an operator disconnects path " + number(step.which) + " at the server";
    case Kind::crash:
      return "the server crashes and is back";
    case Kind::close:
      return "the session is closed";
  }
  return {};
}

}  // namespace rtrs::sim
