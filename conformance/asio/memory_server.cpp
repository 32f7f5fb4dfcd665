#include "conformance/asio/memory_server.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <variant>

namespace rtrs::conformance {

MemoryServer::MemoryServer(boost::asio::io_context& context, MemoryDisks& disks, const Options& options)
    : disks_(disks), options_(options) {
  auto fabric = ofi::open_ofi_fabric({});
  if (!fabric) throw std::runtime_error(std::string("no fabric: ") + to_string(fabric.error()));
  fabric_ = std::move(*fabric);
  ServerConfig config;
  config.queue_depth = 64;
  config.heartbeat = options.heartbeat;
  server_ = std::make_unique<Server>(fit(config, fabric_->capabilities()), nullptr);
  port_ = options.port;
  for (const std::string& address : options.listen) {
    const Errc listening = server_->listen(*fabric_, asio::steady_now(), PathAddress{"", address, port_});
    if (listening != Errc::ok)
      throw std::runtime_error("cannot listen on " + address + ": " + to_string(listening));
    if (port_ == 0) port_ = fabric_->listening_port();
  }
  pump_ = std::make_unique<asio::FabricPump>(
      context, *fabric_, asio::WaitMode::events,
      asio::FabricPump::Hooks{[this](Nanos now) { return step(now); },
                              [this] { return server_->next_deadline(); }});
  pump_->start();
}

MemoryServer::~MemoryServer() = default;

bool MemoryServer::step(Nanos now) {
  std::array<ServerEvent, 32> events;
  const std::size_t count = server_->poll(*fabric_, now, events);
  for (std::size_t i = 0; i < count; ++i) handle(events[i]);
  return count != 0;
}

void MemoryServer::handle(const ServerEvent& event) {
  if (event.kind == ServerEvent::Kind::session_closed) {
    const auto found = sessions_.find(event.session);
    if (found == sessions_.end()) return;
    feed(*found->second, rnbd::SessionClosed{});
    sessions_.erase(found);
    return;
  }
  if (event.kind == ServerEvent::Kind::session_opened) {
    sessions_[event.session] =
        std::make_unique<Session>(rnbd::ServerOptions{.first_generation = options_.first_generation});
    return;
  }
  Session& session = *sessions_.at(event.session);
  rnbd::RequestArrived input;
  input.request = ++session.last_request;
  input.direction = event.direction == Direction::read ? wire::Direction::read : wire::Direction::write;
  input.data_len = static_cast<std::uint32_t>(event.data.size());
  input.user_header = event.user_header;
  session.requests[input.request] = event;
  feed(session, input);
}

template <class Input>
void MemoryServer::feed(Session& session, const Input& input) {
  step_machine(session, input);
  while (!session.answers.empty()) {
    const auto answer = session.answers.front();
    session.answers.pop_front();
    std::visit([this, &session](const auto& one) { this->step_machine(session, one); }, answer);
  }
}

template <class Input>
void MemoryServer::step_machine(Session& session, const Input& input) {
  rnbd::ServerActions actions;
  session.machine.on(input, actions);
  for (const rnbd::ServerAction& action : actions)
    std::visit([this, &session](const auto& one) { this->perform(session, one); }, action);
}

void MemoryServer::perform(Session& session, const rnbd::Respond& action) {
  const auto found = session.requests.find(action.request);
  const RequestId id = found->second.id;
  session.requests.erase(found);
  server_->respond(*fabric_, asio::steady_now(), id, action.peer_errno);
}

void MemoryServer::perform(Session& session, const rnbd::WriteBack& action) {
  rnbd::fill(action, session.requests.at(action.request).data);
}

void MemoryServer::perform(Session& session, const rnbd::OpenExport& action) {
  rnbd::ExportOpened opened;
  opened.operation = action.operation;
  const auto found = disks_.find(std::string(action.name));
  if (found == disks_.end()) {
    opened.error = ENOENT;
  } else {
    MemoryDisk& disk = found->second;
    ++disk.opens;
    opened.handle = ++last_handle_;
    session.open[opened.handle] = &disk;
    opened.geometry.nsectors = disk.bytes.size() / wire::rnbd::kSectorBytes;
    opened.geometry.logical_block_size = disk.logical_block_size;
    opened.geometry.max_discard_sectors = disk.max_discard_sectors;
    opened.geometry.max_write_zeroes_sectors = disk.max_write_zeroes_sectors;
    opened.geometry.write_cache = disk.write_cache;
    opened.geometry.fua = disk.fua;
  }
  session.answers.push_back(opened);
}

void MemoryServer::perform(Session& session, const rnbd::CloseExport& action) {
  session.open.erase(action.handle);
}

void MemoryServer::perform(Session& session, const rnbd::Storage& action) {
  session.answers.push_back(rnbd::StorageDone{action.operation, carry_out(session, action)});
}

int MemoryServer::carry_out(Session& session, const rnbd::Storage& action) {
  using wire::rnbd::Opcode;
  MemoryDisk& disk = *session.open.at(action.handle);
  if (action.opcode == Opcode::flush) {
    ++disk.flushes;
    return 0;
  }
  if (disk.next_error != 0) return std::exchange(disk.next_error, 0);
  const std::span<std::byte> data = session.requests.at(action.request).data;
  std::byte* const place = disk.bytes.data() + action.sector * wire::rnbd::kSectorBytes;
  if (action.opcode == Opcode::read) {
    std::memcpy(data.data(), place, action.bytes);
  } else if (action.opcode == Opcode::write) {
    std::memcpy(place, data.data(), action.bytes);
    disk.fua_writes += action.fua ? 1 : 0;
  } else {
    std::memset(place, 0, action.bytes);
  }
  return 0;
}

}  // namespace rtrs::conformance
