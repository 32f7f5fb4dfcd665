// Fuzzes a server session with random client, fabric and operator inputs. The state must stay consistent, a
// chunk must serve one request at a time, each request must be answered once or dropped with its path, and
// the session must end when it is closed.
#include <algorithm>
#include <map>
#include <variant>
#include <vector>

#include "conformance/fuzz/draws.hpp"
#include "conformance/fuzz/session_ledger.hpp"
#include "conformance/fuzz/state_pairs.hpp"
#include "core/proto/server_invariants.hpp"
#include "core/proto/server_session.hpp"
#include "core/wire/imm.hpp"

using namespace rtrs;

namespace {

constexpr std::uint16_t kSession = 2;

ServerConfig drawn_config(fuzz::Draws& draws) {
  ServerConfig config;
  config.queue_depth = static_cast<std::uint16_t>(1 + draws.below(4));
  config.send_depth = draws.below(2) == 0 ? 8 : 64;
  config.extensions = static_cast<wire::Extensions>(draws.below(4));
  // Not a random draw, so that existing corpus files keep their meaning.
  if (has(config.extensions, wire::Extensions::generation)) config.extensions |= wire::Extensions::probe;
  config.always_invalidate = draws.below(2) != 0;
  config.imm_consumes_receive = draws.below(2) != 0;
  config.probe_deliveries = config.imm_consumes_receive;
  const std::uint32_t keys = draws.below(4);
  config.send_invalidate = (keys & 1) != 0;
  if ((keys & 2) != 0) config.extensions |= wire::Extensions::keys_stay;
  return config;
}

class World {
 public:
  explicit World(fuzz::Draws& draws)
      : draws_(draws), config_(drawn_config(draws)), session_(config_, kSession) {}
  bool ended() const { return ledger_.ended(); }

  void act() {
    event_ = draws_.below(16);
    const ConKey key = ledger_.some(draws_);
    switch (event_) {
      case 0:
      case 1:
        return connect();
      case 2:
        return feed(ConnectionLost{now_, key, Reason::peer_closed});
      case 3:
      case 4:
        return close(key);
      case 5:
        return feed(InfoRequested{now_, key, static_cast<std::uint16_t>(draws_.rarely(8) ? 1 : 0)});
      case 6:
      case 7:
      case 8:
        return request(key);
      case 9:
        return answer_one();
      case 10:
        return invalidate_one();
      case 11:
        return feed(ImmReceived{now_, key,
                                draws_.rarely(4) ? draws_.word() : wire::encode_hb(wire::ImmType::hb_msg)});
      case 12:
        if (const std::uint64_t cookie = ledger_.completion(draws_, key)) feed(SendDone{now_, key, cookie});
        return;
      case 13:
        return pass_time(draws_.below(8));
      case 14:
        return feed(FenceRequested{now_, key, draws_.below(4), static_cast<std::uint16_t>(draws_.below(4)),
                                   uuid(draws_.below(5))});
      default:
        return operate(key);
    }
  }

  void end() {
    event_ = 16;
    if (!ended()) feed(CloseRequested{now_});
    for (unsigned turn = 0; turn < 10'000 && !ended(); ++turn) {
      for (const auto& [key, connection] : std::map(ledger_.connections()))
        if (connection.ending) close(key);
      while (!in_service_.empty()) answer_one();
    }
    RTRS_FUZZ_CHECK(ended() && in_service_.empty());
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
    ServerActions out;
    session_.on(input, out);
    for (const ServerAction& action : out)
      visit_action([this](const auto& one) { this->perform(one); }, action);
    if (const char* rule = broken_invariant(session_)) {
      std::fprintf(stderr, "broken: %s\n", rule);
      std::abort();
    }
    std::uint64_t state = in_service_.size() * 4 + invalidations_.size();
    for (unsigned path = 0; path < 3; ++path)
      state = state * 8 + static_cast<std::uint64_t>(session_.path_state(path));
    for (std::uint16_t chunk = 0; chunk < config_.queue_depth; ++chunk)
      state = state * 4 + (session_.chunk_idle(chunk) ? 0U : session_.is_awaited(chunk) ? 2U : 1U);
    pairs_.reached(state, event_);
  }

  void perform(const Accept& action) {
    RTRS_FUZZ_CHECK(action.request == asked_);
    asked_ = 0;
    ledger_.opened(action.key);
  }
  void perform(const Reject& action) {
    RTRS_FUZZ_CHECK(action.request == asked_ && action.peer_errno != 0);
    asked_ = 0;
  }
  void perform(const Disconnect& action) { ledger_.disconnected(action.key); }
  void perform(const SendInfoRsp& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const SendFenceRsp& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const PostImm& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const ProbeDelivery& action) { ledger_.posted(action.key, action.cookie); }
  void perform(const PostReceive& action) { ledger_.posted(action.key, 0); }
  void perform(const Deliver& action) {
    ledger_.posted(action.key, 0);
    RTRS_FUZZ_CHECK(in_service_.emplace(action.chunk, action).second);
  }
  void perform(const InvalidateChunk& action) {
    ledger_.posted(action.key, 0);
    RTRS_FUZZ_CHECK(in_service_.count(action.chunk) == 0);
    invalidations_.push_back(action);
  }
  // Only requests that the application has answered may be answered, each once.
  void perform(const PostResponse& action) {
    const auto owed = owed_.find(action.chunk);
    RTRS_FUZZ_CHECK(owed != owed_.end() && owed->second == action.key);
    RTRS_FUZZ_CHECK(in_service_.count(action.chunk) == 0);
    owed_.erase(owed);
    ledger_.posted(action.key, action.cookie);
  }
  void perform(const ReleasePath& action) {
    for (const auto& [key, connection] : ledger_.connections()) RTRS_FUZZ_CHECK(key.path != action.path);
    for (const auto& [chunk, deliver] : in_service_) RTRS_FUZZ_CHECK(deliver.key.path != action.path);
    std::erase_if(owed_, [&](const auto& one) { return one.second.path == action.path; });
  }
  void perform(const EndSession&) {
    RTRS_FUZZ_CHECK(in_service_.empty());
    ledger_.session_ended();
  }
  // Actions that need no reaction here.
  void perform(const PathChanged&) {}
  void perform(const LinkChanged&) {}

  static wire::Uuid uuid(std::uint32_t number) {
    wire::Uuid uuid;
    uuid.bytes.fill(static_cast<std::uint8_t>(number));
    return uuid;
  }
  void connect() {
    ConnectRequested in{};
    in.now = now_;
    const std::uint32_t path = draws_.below(4);
    in.sess_uuid = uuid(path);
    in.cid_num = static_cast<std::uint16_t>(draws_.rarely(16) ? 1 + draws_.below(4096) : 2);
    in.key = {static_cast<std::uint16_t>(session_.assign(in.sess_uuid) % kMaxPaths),
              static_cast<std::uint16_t>(draws_.below(2) % in.cid_num), ++epoch_, kSession};
    in.request = asked_ = epoch_;
    in.address_pair = draws_.rarely(16) ? draws_.below(4) : path;
    in.recon_cnt =
        static_cast<std::uint16_t>(draws_.rarely(8) ? draws_.below(1U << 16) : 1 + draws_.rarely(6));
    in.extensions =
        draws_.rarely(8) ? static_cast<wire::Extensions>(draws_.below(256)) : wire::kKnownExtensions;
    in.first_conn = draws_.below(2) != 0;
    feed(in);
    RTRS_FUZZ_CHECK(asked_ == 0);
  }
  void close(ConKey key) {
    const auto at = ledger_.connections().find(key);
    if (at == ledger_.connections().end() || !at->second.ending) return;
    ledger_.connections().erase(at);
    std::erase_if(invalidations_, [key](const InvalidateChunk& one) { return one.key == key; });
    feed(ConnectionClosed{now_, key});
  }
  void request(ConKey key) {
    RequestArrived in{};
    in.now = now_;
    in.key = key;
    in.chunk = static_cast<std::uint16_t>(draws_.below(config_.queue_depth));
    // A correct client has one request per chunk. A second request is sent only rarely, because it ends the
    // path.
    if (!session_.chunk_idle(in.chunk) && !draws_.rarely(4)) return;
    in.data_len = draws_.below(2) * 4096;
    in.usr_len = 32;
    in.generation = static_cast<std::uint8_t>(draws_.below(4));
    in.direction = draws_.below(2) == 0 ? Direction::read : Direction::write;
    in.has_descriptor = in.direction == Direction::read && draws_.below(4) != 3;
    in.need_invalidate = draws_.below(2) != 0;
    feed(in);
  }
  void answer_one() {
    const auto at = draws_.one_of(in_service_);
    if (at == in_service_.end()) return;
    const Deliver deliver = at->second;
    in_service_.erase(at);
    const auto connection = ledger_.connections().find(deliver.key);
    if (connection != ledger_.connections().end() && !connection->second.ending)
      RTRS_FUZZ_CHECK(owed_.emplace(deliver.chunk, deliver.key).second);
    constexpr std::uint16_t kErrnos[] = {0, 5, 511, 512};
    feed(Responded{now_, deliver.chunk, deliver.serial, kErrnos[draws_.below(4)]});
  }
  void invalidate_one() {
    if (invalidations_.empty()) return;
    const auto at = draws_.below(static_cast<std::uint32_t>(invalidations_.size()));
    const InvalidateChunk one = invalidations_[at];
    invalidations_.erase(invalidations_.begin() + at);
    feed(ChunkInvalidated{now_, one.key, one.chunk, !draws_.rarely(8)});
  }
  void pass_time(std::uint32_t fraction) {
    const Nanos next = session_.next_deadline();
    now_ = fraction == 0 && next != kNever ? std::max(now_, next) : now_ + seconds(fraction);
    feed(DeadlineReached{now_});
  }
  void operate(ConKey key) {
    switch (draws_.below(4)) {
      case 0:
        return feed(PeerBroke{now_, key, wire::Refusal::bad_magic});
      case 1:
        return feed(PathDisconnectRequested{now_, static_cast<std::uint16_t>(draws_.below(kMaxPaths + 1))});
      case 2:
        if (draws_.rarely(8)) feed(CloseRequested{now_});
        return;
      default:
        // A fabric event for an invalidation that was never requested.
        return feed(
            ChunkInvalidated{now_, key, static_cast<std::uint16_t>(draws_.below(config_.queue_depth)), true});
    }
  }

  fuzz::Draws& draws_;
  fuzz::StatePairs pairs_;
  fuzz::SessionLedger ledger_;
  ServerConfig config_;
  ServerSession session_;
  std::map<std::uint16_t, Deliver> in_service_;  // keyed by chunk
  std::map<std::uint16_t, ConKey> owed_;         // answered by the application, on an established connection
  std::vector<InvalidateChunk> invalidations_;
  Nanos now_ = seconds(1);
  std::uint32_t epoch_ = 0;
  std::uint32_t asked_ = 0;  // connect request that is not accepted or rejected yet
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
