// A fabric that proves a shared key during connection set-up, layered over a fabric without keys (protocol
// section 12). The user of this fabric sees CON_REQ and CON_RSP as without keys: proofs are added on the way
// to the wire and removed on the way back, and appear in no trace. If a proof is missing or invalid, the user
// gets the reason:
//   - server: event::ConnectRequested has a refusal, or with a valid proof the key's identity;
//   - client: the connect request fails with challenged, which causes an immediate retry, or with
//   key_refused.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"
#include "core/keyed/key_proof.hpp"

namespace rtrs::keyed {

class KeyedFabric final : public ForwardingFabric {
 public:
  // `inner` must outlive this object.
  explicit KeyedFabric(Fabric& inner) noexcept : ForwardingFabric(inner) {}
  explicit KeyedFabric(std::unique_ptr<Fabric> inner) noexcept
      : ForwardingFabric(*inner), owned_(std::move(inner)) {}

  // Client: proves the key and rejects servers that do not prove it too. `renew` is called before each
  // connect request and returns a new key to use from now on, or null.
  using RenewKey = std::function<std::shared_ptr<const SharedKey>()>;
  void prove(MacFunction mac, SharedKey key, RenewKey renew = {});
  // Server: requests proofs. `secret`: random, private to this fabric.
  void ask(MacFunction mac, const Secret& secret, const std::vector<SharedKey>& keys, Mode mode);
  // Replaces the keys for clients that connect from now on. Call after ask(). Building a large table takes
  // milliseconds, so a thread that serves peers should leave this to another thread. Returns the previous
  // keys.
  std::shared_ptr<const KeyTable> replace_keys(std::shared_ptr<const KeyTable> keys, Mode mode);
  void replace_keys(const std::vector<SharedKey>& keys, Mode mode);

  void connect(ConKey, const PathAddress&, const ConnectionParams&,
               std::span<const std::byte> private_data) override;
  void accept(std::uint32_t request, ConKey, const ConnectionParams&,
              std::span<const std::byte> private_data) override;
  void reject(std::uint32_t request, std::span<const std::byte> private_data) override;
  std::string identity_of_request(std::uint32_t request) const override;
  std::string refusal_of_request(std::uint32_t request) const override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;

 private:
  using ConReq = std::array<std::byte, wire::kConnReqBytes>;
  using ConRsp = std::array<std::byte, wire::kConnRspBytes>;

  // A pending connect request of this client.
  struct Asked {
    ConKey key{};
    ConReq request{};
    std::shared_ptr<Prover> prover;       // holds the key used for this request
    std::optional<wire::KeyNonce> nonce;  // nonce of the proof in the request, if any
  };
  // A peer's connect request.
  struct Judged {
    std::uint32_t request = 0;
    bool challenged = false;  // the reject carries the nonce
    wire::KeyNonce nonce{};
    std::optional<SharedKey> key;  // set after a valid proof
    std::string refusal;           // log text: why the request is rejected
    ConReq con_req{};
  };

  // Returns false if the user must not see the event.
  bool passes(Nanos now, FabricEvent&);
  void judge(Nanos now, event::ConnectRequested&);
  void open_answer(Nanos now, FabricEvent&, const event::Connected&);
  void open_answer(Nanos now, event::ConnectFailed&);
  std::optional<Asked> take_asked(const ConKey&);
  std::optional<Judged> take_judged(std::uint32_t request);
  // Returns a copy of the message to show to the user; valid until the next poll().
  static_assert(sizeof(ConReq) == sizeof(ConRsp));
  std::span<std::byte> shown(std::span<const std::byte> message);

  std::unique_ptr<Fabric> owned_;
  std::shared_ptr<Prover> prover_;  // null if this side opens no connections
  MacFunction prover_mac_ = nullptr;
  RenewKey renew_;
  std::optional<Gate> gate_;
  MacFunction mac_ = nullptr;  // MAC function of the gate
  std::shared_ptr<const KeyTable> keys_;
  Mode mode_ = Mode::off;
  std::vector<Asked> asked_;
  std::vector<Judged> judged_;
  // Connections whose server did not prove the key. Only the end of such a connection is still reported.
  std::vector<ConKey> unproven_;
  std::deque<ConReq> shown_;  // a deque, so that addresses stay valid
  std::size_t shown_count_ = 0;
  Nanos now_ = 0;  // time of the last poll
};

}  // namespace rtrs::keyed
