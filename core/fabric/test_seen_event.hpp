// Event record for tests: the fields of all event kinds in one struct, with a copy of the peer's bytes.
#pragma once
#include <string>
#include <type_traits>

#include "core/fabric/work.hpp"

namespace rtrs::test {

struct SeenEvent {
  // Same order as the alternatives of FabricEvent.
  enum class Kind : std::uint8_t {
    imm_received,
    message_received,
    send_done,
    connect_requested,
    connected,
    connect_failed,
    connection_lost,
    connection_closed,
    key_invalidated,
    chunk_invalidated,
    addresses_found,
  };
  Kind kind = Kind::imm_received;
  Reason reason = Reason::none;
  bool has_imm = false;
  bool ok = true;
  ConKey key{};
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint32_t request = 0;
  std::uint32_t address_pair = 0;
  std::uint64_t cookie = 0;
  std::string text;

  std::span<const std::byte> bytes() const noexcept { return std::as_bytes(std::span(text)); }
};

template <SeenEvent::Kind kind, class Event>
inline constexpr bool kKindIs =
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(kind), FabricEvent>, Event>;
static_assert(kKindIs<SeenEvent::Kind::imm_received, event::ImmReceived> &&
              kKindIs<SeenEvent::Kind::message_received, event::MessageReceived> &&
              kKindIs<SeenEvent::Kind::send_done, event::SendDone> &&
              kKindIs<SeenEvent::Kind::connect_requested, event::ConnectRequested> &&
              kKindIs<SeenEvent::Kind::connected, event::Connected> &&
              kKindIs<SeenEvent::Kind::connect_failed, event::ConnectFailed> &&
              kKindIs<SeenEvent::Kind::connection_lost, event::ConnectionLost> &&
              kKindIs<SeenEvent::Kind::connection_closed, event::ConnectionClosed> &&
              kKindIs<SeenEvent::Kind::key_invalidated, event::KeyInvalidated> &&
              kKindIs<SeenEvent::Kind::chunk_invalidated, event::ChunkInvalidated> &&
              kKindIs<SeenEvent::Kind::addresses_found, event::AddressesFound>);

inline SeenEvent seen(const FabricEvent& event) {
  SeenEvent result;
  result.kind = static_cast<SeenEvent::Kind>(event.index());
  const auto keep = [&result](std::span<const std::byte> bytes) {
    result.text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.key; }) result.key = one.key;
        if constexpr (requires { one.reason; }) result.reason = one.reason;
        if constexpr (requires { one.imm.value(); }) {
          result.has_imm = one.imm.has_value();
          result.imm = one.imm.value_or(0);
        } else if constexpr (requires { one.imm; }) {
          result.imm = one.imm;
        }
        if constexpr (requires { one.rkey; }) result.rkey = one.rkey;
        if constexpr (requires { one.cookie; }) result.cookie = one.cookie;
        if constexpr (requires { one.ok; }) result.ok = one.ok;
        if constexpr (requires { one.request; }) result.request = one.request;
        if constexpr (requires { one.address_pair; }) result.address_pair = one.address_pair;
        if constexpr (requires { one.private_data; }) keep(one.private_data);
        if constexpr (requires { one.payload; }) keep(one.payload);
      },
      event);
  return result;
}

}  // namespace rtrs::test
