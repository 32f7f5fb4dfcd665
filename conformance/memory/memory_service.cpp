#include "conformance/memory/memory_service.hpp"

#include <cstring>
#include <utility>

#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {

void MemoryService::handle(Server& server, Fabric& fabric, Nanos now, const ServerEvent& event) {
  const Answering to{server, fabric, now};
  if (event.kind == ServerEvent::Kind::session_closed) {
    const auto found = sessions_.find(event.session);
    if (found == sessions_.end()) return;
    feed(to, *found->second, rnbd::SessionClosed{});
    sessions_.erase(found);
    return;
  }
  if (event.kind == ServerEvent::Kind::session_opened) {
    sessions_[event.session] =
        std::make_unique<Session>(rnbd::ServerOptions{.first_generation = first_generation_});
    return;
  }
  Session& session = *sessions_.at(event.session);
  rnbd::RequestArrived input;
  input.request = ++session.last_request;
  input.direction = event.direction == Direction::read ? wire::Direction::read : wire::Direction::write;
  input.data_len = static_cast<std::uint32_t>(event.data.size());
  input.user_header = event.user_header;
  session.requests[input.request] = event;
  feed(to, session, input);
}

template <class Input>
void MemoryService::feed(const Answering& to, Session& session, const Input& input) {
  step(to, session, input);
  while (!session.answers.empty()) {
    const auto answer = session.answers.front();
    session.answers.pop_front();
    std::visit([&](const auto& one) { this->step(to, session, one); }, answer);
  }
}

template <class Input>
void MemoryService::step(const Answering& to, Session& session, const Input& input) {
  rnbd::ServerActions actions;
  session.machine.on(input, actions);
  for (const rnbd::ServerAction& action : actions)
    std::visit([&](const auto& one) { this->perform(to, session, one); }, action);
}

void MemoryService::perform(const Answering& to, Session& session, const rnbd::Respond& action) {
  const auto found = session.requests.find(action.request);
  const RequestId id = found->second.id;
  session.requests.erase(found);
  to.server.respond(to.fabric, to.now, id, action.peer_errno);
}

void MemoryService::perform(const Answering&, Session& session, const rnbd::WriteBack& action) {
  rnbd::fill(action, session.requests.at(action.request).data);
}

void MemoryService::perform(const Answering&, Session& session, const rnbd::OpenExport& action) {
  rnbd::ExportOpened opened;
  opened.operation = action.operation;
  const bool writes = rnbd::is_writable(action.mode);
  const auto found = disks_.find(std::string(action.name));
  if (found == disks_.end()) {
    opened.error = wire::linux_errno::kEnoent;
  } else if (writes && found->second.writers != 0) {
    opened.error = wire::linux_errno::kEperm;
  } else {
    MemoryDisk& disk = found->second;
    ++disk.opens;
    disk.writers += writes ? 1 : 0;
    opened.handle = ++last_handle_;
    session.open[opened.handle] = Open{&disk, writes};
    opened.geometry.nsectors = disk.bytes.size() / wire::rnbd::kSectorBytes;
    opened.geometry.logical_block_size = disk.logical_block_size;
    opened.geometry.max_discard_sectors = disk.max_discard_sectors;
    opened.geometry.max_write_zeroes_sectors = disk.max_write_zeroes_sectors;
    opened.geometry.write_cache = disk.write_cache;
    opened.geometry.fua = disk.fua;
  }
  session.answers.push_back(opened);
}

void MemoryService::perform(const Answering&, Session& session, const rnbd::CloseExport& action) {
  const auto found = session.open.find(action.handle);
  found->second.disk->writers -= found->second.writes ? 1 : 0;
  session.open.erase(found);
}

void MemoryService::perform(const Answering&, Session& session, const rnbd::MeasureExport& action) {
  const std::size_t bytes = session.open.at(action.handle).disk->bytes.size();
  session.answers.push_back(rnbd::ExportMeasured{action.operation, bytes / wire::rnbd::kSectorBytes});
}

void MemoryService::perform(const Answering&, Session& session, const rnbd::Storage& action) {
  session.answers.push_back(rnbd::StorageDone{action.operation, carry_out(session, action)});
}

int MemoryService::carry_out(Session& session, const rnbd::Storage& action) {
  using wire::rnbd::Opcode;
  MemoryDisk& disk = *session.open.at(action.handle).disk;
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
