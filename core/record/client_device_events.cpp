#include "core/record/client_device_events.hpp"

namespace rtrs::trace {

LinkUp recorded(Nanos now, const rnbd::LinkUp& input) noexcept {
  return {now, input.extended};
}
LinkDown recorded(Nanos now, const rnbd::LinkDown&) noexcept {
  return {now};
}
MapRequested recorded(Nanos now, const rnbd::MapRequested& input) noexcept {
  return {now, input.mode, name_text(input.name)};
}
UnmapRequested recorded(Nanos now, const rnbd::UnmapRequested& input) noexcept {
  return {now, input.device};
}
RemapRequested recorded(Nanos now, const rnbd::RemapRequested& input) noexcept {
  return {now, input.device};
}
ResizeRequested recorded(Nanos now, const rnbd::ResizeRequested& input) noexcept {
  return {now, input.nsectors, input.device};
}
MessageDone recorded(Nanos now, const rnbd::MessageDone& input) noexcept {
  MessageDone event{now, input.token, input.peer_errno, input.delivered, {}};
  event.response.assign(input.response.data(), input.response.size());
  return event;
}
RetryDue recorded(Nanos now, const rnbd::RetryDue&) noexcept {
  return {now};
}
ReopenDue recorded(Nanos now, const rnbd::ReopenDue&) noexcept {
  return {now};
}

SendMessage recorded(const rnbd::SendMessage& action) noexcept {
  SendMessage event{action.token, action.kind, action.direction, action.response_length, {}};
  event.header.assign(action.header.data(), action.header_length);
  return event;
}
DeviceChanged recorded(const rnbd::DeviceChanged& action) noexcept {
  return {action.device, action.state, action.peer_errno, action.geometry};
}
CacheReplaced recorded(const rnbd::CacheReplaced& action) noexcept {
  return {action.device, action.unflushed};
}
MapAnswered recorded(const rnbd::MapOutcome& outcome) noexcept {
  return {outcome.error, outcome.device};
}
IoStarted recorded(const rnbd::IoStart& start) noexcept {
  const rnbd::IoTicket& ticket = start.ticket;
  return {start.device_id, ticket.cache, ticket.losses, ticket.doomed, ticket.nature, ticket.arrival};
}
IoJudged recorded(const rnbd::Disposition& disposition) noexcept {
  return {disposition};
}

}  // namespace rtrs::trace
