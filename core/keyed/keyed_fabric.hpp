// A fabric whose connections begin with proofs of a shared key, in front of one that knows nothing of them
// (protocol section 12). Its user sees CON_REQ and CON_RSP as without keys: what proofs add goes on at the
// wire and comes off here, and is in no trace. Where a proof is missing or not good, the user is told the
// reason:
//   server  event::ConnectRequested has a refusal, and with a good proof the identity of the key
//   client  the connect request ends with challenged, so that it is asked again at once, or with key_refused
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
  // `inner` has to outlive this.
  explicit KeyedFabric(Fabric& inner) noexcept : ForwardingFabric(inner) {}
  explicit KeyedFabric(std::unique_ptr<Fabric> inner) noexcept
      : ForwardingFabric(*inner), owned_(std::move(inner)) {}

  // As a client: proves that it has the key, and takes no server that does not. `renew` is called before each
  // connect request, and returns another key to use from now on, or null.
  using RenewKey = std::function<std::shared_ptr<const SharedKey>()>;
  void prove(MacFunction mac, SharedKey key, RenewKey renew = {});
  // As a server. `secret`: random, of this fabric alone.
  void ask(MacFunction mac, const Secret& secret, const std::vector<SharedKey>& keys, Mode mode);
  // Other keys, for clients that connect from now on. After ask(). A table of many keys takes milliseconds to
  // make, which whoever has peers to serve leaves to another thread.
  // The keys that there were.
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

  // A connect request of ours that is not answered.
  struct Asked {
    ConKey key{};
    ConReq request{};
    std::shared_ptr<Prover> prover;       // of the key that it was asked with
    std::optional<wire::KeyNonce> nonce;  // it has a proof under this one
  };
  // One of a peer.
  struct Judged {
    std::uint32_t request = 0;
    bool challenged = false;  // its reject has the nonce with it
    wire::KeyNonce nonce{};
    std::optional<SharedKey> key;  // proved
    std::string refusal;           // why it was not, in words
    ConReq con_req{};
  };

  // False: the event is not for the user.
  bool passes(Nanos now, FabricEvent&);
  void judge(Nanos now, event::ConnectRequested&);
  void open_answer(Nanos now, FabricEvent&, const event::Connected&);
  void open_answer(Nanos now, event::ConnectFailed&);
  std::optional<Asked> take_asked(const ConKey&);
  std::optional<Judged> take_judged(std::uint32_t request);
  // What the user is shown instead of the bytes that came, until the next poll().
  static_assert(sizeof(ConReq) == sizeof(ConRsp));
  std::span<std::byte> shown(std::span<const std::byte> message);

  std::unique_ptr<Fabric> owned_;
  std::shared_ptr<Prover> prover_;  // null: no client
  MacFunction prover_mac_ = nullptr;
  RenewKey renew_;
  std::optional<Gate> gate_;
  MacFunction mac_ = nullptr;  // of the gate
  std::shared_ptr<const KeyTable> keys_;
  Mode mode_ = Mode::off;
  std::vector<Asked> asked_;
  std::vector<Judged> judged_;
  // Connections whose server did not prove itself: nothing but their end is reported any more.
  std::vector<ConKey> unproven_;
  std::deque<ConReq> shown_;  // which keeps its places
  std::size_t shown_count_ = 0;
  Nanos now_ = 0;  // of the last poll
};

}  // namespace rtrs::keyed
