// Fuzzes a client session with random peer, fabric and operator inputs. The state must stay consistent, every
// request must complete once, and the session must end when it is closed.
#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <type_traits>
#include <variant>

#include "conformance/fuzz/draws.hpp"
#include "conformance/fuzz/session_ledger.hpp"
#include "conformance/fuzz/state_pairs.hpp"
#include "core/proto/client_session.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

using namespace rtrs;

namespace {

ClientConfig drawn_config(fuzz::Draws& draws) {
  ClientConfig config;
  config.con_num = static_cast<std::uint16_t>(2 + draws.below(2));
  config.max_depth = static_cast<std::uint16_t>(1 + draws.below(4));
  config.send_depth = draws.below(2) == 0 ? 8 : 64;
  config.extensions = static_cast<wire::Extensions>(draws.below(4));
  // Not a random draw, so that existing corpus files keep their meaning.
  if (has(config.extensions, wire::Extensions::generation)) config.extensions |= wire::Extensions::probe;
  config.imm_consumes_receive = draws.below(2) != 0;
  config.probe_deliveries = config.imm_consumes_receive;
  config.offer_invalidation = draws.below(2) != 0;
  config.policy = static_cast<MultipathPolicy>(draws.below(3));
  config.kernel_peer = static_cast<UnfencedReplay>(draws.below(2));
  config.fence_failed = static_cast<UnfencedReplay>(draws.below(2));
  constexpr std::array<Nanos, 3> kTimeouts{0, seconds(20), kNever};
  config.queue_timeout = kTimeouts[draws.below(3)];
  config.max_reconnect_attempts = static_cast<std::int32_t>(draws.below(4)) - 1;
  return config;
}

class World {
 public:
  explicit World(fuzz::Draws& draws) : draws_(draws), session_(drawn_config(draws)) {
    const auto paths = static_cast<std::uint16_t>(1 + draws_.below(3));
    for (std::uint16_t path = 0; path < paths; ++path) feed(PathAdded{now_, path});
  }
  bool ended() const { return ledger_.ended(); }

  void act() {
    event_ = draws_.below(16);
    const ConKey key = ledger_.some(draws_);
    switch (event_) {
      case 0:
      case 1:
        return feed(connected(key));
      case 2:
        return feed(ConnectFailed{now_, key, Reason::rejected,
                                  static_cast<std::uint16_t>(draws_.below(2) == 0 ? 16 : 104)});
      case 3:
        if (draws_.rarely(2))
          return feed(AddressesFound{now_, key, static_cast<std::uint16_t>(draws_.below(5))});
        return feed(ConnectionLost{now_, key, Reason::transport_error});
      case 4:
      case 5:
        return close(key);
      case 6:
        return feed(InfoAccepted{now_, key});
      case 7:
      case 8:
        return submit();
      case 9:
        return respond(key);
      case 10:
        return feed(ImmReceived{now_, key, draws_.rarely(4) ? draws_.word() : draws_.below(16) << 28});
      case 11:
        return feed(
            FenceAnswered{now_, key, draws_.below(8), static_cast<std::uint16_t>(draws_.rarely(4) * 5)});
      case 12:
        if (const std::uint64_t cookie = ledger_.completion(draws_, key)) feed(SendDone{now_, key, cookie});
        return;
      case 13:
        return pass_time(draws_.below(8));
      case 14:
        return operate();
      default:
        return feed_violation(key);
    }
  }

  // Closes the session and delivers the events that the fabric still has to report. The session must end with
  // every request completed.
  void end() {
    event_ = 16;
    if (!ended()) feed(CloseRequested{now_});
    for (unsigned turn = 0; turn < 10'000 && !ended(); ++turn) {
      for (const auto& [key, connection] : std::map(ledger_.connections()))
        if (connection.ending) close(key);
      if (!ended()) pass_time(0);
    }
    RTRS_FUZZ_CHECK(ended() && open_.empty() && session_.permits_used() == 0);
  }

 private:
  template <class Input>
  void feed(const Input& input) {
    step(input);
    for (unsigned turn = 0; !ended() && session_.wants_to_continue(); ++turn) {
      RTRS_FUZZ_CHECK(turn < 1000);
      step(Continued{now_});
    }
  }
  template <class Input>
  void step(const Input& input) {
    if (ended()) return;
    ClientActions out;
    session_.on(input, out);
    for (const ClientAction& action : out)
      visit_action([this](const auto& one) { this->perform(one); }, action);
    if (const char* rule = session_.broken_invariant()) {
      std::fprintf(stderr, "broken: %s\n", rule);
      std::abort();
    }
    std::uint64_t state =
        session_.permits_used() * 4 + (session_.closing() ? 1U : 0U) + (session_.opened() ? 2U : 0U);
    for (unsigned path = 0; path < 3; ++path) {
      state = state * 8 + static_cast<std::uint64_t>(session_.path(path).state());
      state = state * 2 + (session_.path(path).inflight() > 0 ? 1U : 0U);
    }
    for (std::uint16_t permit = 0; session_.opened() && permit < std::min(depth(), 2U); ++permit)
      state = state * 5 + static_cast<std::uint64_t>(session_.permit(permit).state);
    pairs_.reached(state, event_);
  }

  void perform(const Connect& action) {
    RTRS_FUZZ_CHECK(keys_.insert(action.key).second);
    ledger_.opened(action.key);
  }
  void perform(const Disconnect& action) { ledger_.disconnected(action.key); }
  void perform(const SendInfoReq& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const SendFenceReq& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const PostImm& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const ProbeDelivery& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const PostReceive& action) { ledger_.posted(action.key, 0); }
  void perform(const PostRequest& action) {
    RTRS_FUZZ_CHECK(open_.count(action.permit) == 1);
    ledger_.posted(action.key, action.cookie);
  }
  void perform(const Complete& action) { RTRS_FUZZ_CHECK(open_.erase(action.permit) == 1); }
  void perform(const EndSession&) {
    RTRS_FUZZ_CHECK(open_.empty());
    ledger_.session_ended();
  }
  // Actions that need no reaction here.
  void perform(const StoreKey&) {}
  void perform(const PathChanged&) {}
  void perform(const LinkChanged&) {}
  void perform(const FailedOver&) {}
  void perform(const ReleasePath&) {}

  Connected connected(ConKey key) {
    constexpr std::array<std::uint16_t, 4> kDepths{3, 3, 8, 1};
    Connected in{now_, key, 65536, 4096, 0, kDepths[draws_.below(4)]};
    if (draws_.rarely(3)) in.flags |= wire::kConnRspNewRkey;
    if (!draws_.rarely(3)) in.flags |= wire::kConnRspFence;
    if (!draws_.rarely(3)) in.flags |= wire::kConnRspGeneration | wire::kConnRspProbe;
    return in;
  }
  void close(ConKey key) {
    const auto at = ledger_.connections().find(key);
    if (at == ledger_.connections().end() || !at->second.ending) return;
    ledger_.connections().erase(at);
    feed(ConnectionClosed{now_, key});
  }
  void submit() {
    const std::uint16_t permit = session_.next_permit();
    if (permit == kNoPermit) return;
    Submitted in{};
    in.now = now_;
    in.permit = permit;
    in.direction = draws_.below(2) == 0 ? Direction::read : Direction::write;
    in.service = draws_.rarely(4);
    in.offers_invalidation = in.direction == Direction::read && session_.config().offer_invalidation;
    in.affinity = static_cast<std::uint16_t>(draws_.below(4));
    in.data_len = draws_.rarely(16) ? 1U << 20 : 4096;
    in.usr_len = 32;
    // The permit is in use now, so next_permit() must not return it again before the response.
    RTRS_FUZZ_CHECK(open_.insert(permit).second);
    feed(in);
  }
  // Sends a correct response, or one with a wrong generation, connection, errno or invalidation flag.
  void respond(ConKey key) {
    const std::uint32_t permit = draws_.below(5);
    const auto known = static_cast<std::uint16_t>(permit);
    const bool there = session_.opened() && permit < depth();
    const std::uint8_t generation = there && key.path < kMaxPaths && session_.path(key.path).has_generations()
                                        ? session_.permit(known).generation
                                        : 0;
    const std::uint32_t id = wire::tagged_msg_id(announced_depth(), permit,
                                                 static_cast<std::uint8_t>(generation - draws_.rarely(6)));
    const auto type = draws_.rarely(4) ? wire::ImmType::io_rsp_w_inv : wire::ImmType::io_rsp;
    const std::uint32_t imm = wire::encode_io_rsp(type, id, draws_.rarely(4) ? 5 : 0);
    if (draws_.rarely(3)) return feed(KeyedResponseReceived{now_, key, imm, draws_.below(99), known});
    feed(ImmReceived{now_, key, imm});
  }
  // Queue depth of the session if it is open, otherwise 3.
  std::uint32_t announced_depth() const {
    std::uint32_t depth = 3;
    ClientSession::visit_fields(session_, [&depth](std::string_view name, const auto& field) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(field)>, std::uint32_t>)
        if (name == "queue_depth_" && field != 0) depth = field;
    });
    return depth;
  }
  std::uint32_t depth() const {
    return std::min<std::uint32_t>(announced_depth(), session_.config().max_depth);
  }
  void pass_time(std::uint32_t fraction) {
    const Nanos next = session_.next_deadline();
    now_ = fraction == 0 && next != kNever ? std::max(now_, next) : now_ + seconds(fraction);
    feed(DeadlineReached{now_});
  }
  void operate() {
    const auto path = static_cast<std::uint16_t>(draws_.below(4));
    switch (draws_.below(7)) {
      case 0:
        return feed(PathRemoveRequested{now_, path});
      case 1:
        return feed(PathDisconnectRequested{now_, path});
      case 2:
        return feed(PathReconnectRequested{now_, path});
      case 3:
        return feed(PolicyChanged{now_, static_cast<MultipathPolicy>(draws_.below(3))});
      case 4:
        if (session_.path(path).state() == PathState::absent) feed(PathAdded{now_, path});
        return;
      case 5:
        return feed(AttemptsChanged{now_, static_cast<std::int32_t>(draws_.below(4)) - 1});
      default:
        if (draws_.rarely(4)) feed(CloseRequested{now_});
    }
  }
  void feed_violation(ConKey key) {
    if (draws_.below(2) == 0) return feed(PeerBroke{now_, key, wire::Refusal::bad_magic});
    feed(KeyInvalidated{now_, key,
                        static_cast<std::uint16_t>(draws_.rarely(3) ? kNoPermit : draws_.below(5))});
  }

  fuzz::Draws& draws_;
  fuzz::StatePairs pairs_;
  fuzz::SessionLedger ledger_;
  ClientSession session_;
  std::set<ConKey> keys_;         // every key that was ever used
  std::set<std::uint16_t> open_;  // permits of unanswered requests
  Nanos now_ = seconds(1);
  std::uint32_t event_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Draws draws(data, size);
  World world(draws);
  while (draws.left() && !world.ended()) world.act();
  world.end();
  return 0;
}
