#include "tools/lib/control/rdma_probe/peer.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_status.hpp"
#include "tools/lib/control/rdma_probe/link.hpp"
#include "tools/lib/control/rdma_probe/probe_error.hpp"

namespace rtrs::probe {
namespace {

constexpr int kResolveMs = 2000;
constexpr std::uint32_t kTold = 16;  // number of writes per signalled write
constexpr std::size_t kSmall = 4096;
// Time limit for disconnecting at the end. The result of the disconnect is not needed.
constexpr std::chrono::milliseconds kDisconnectLimit{1000};

struct NoResponse : Trouble {};

// Waits for the next event and returns it. Throws if it is not `wanted`. `otherwise` is the advice in the
// error.
ManagerEvent expect_event(Manager& manager, const Pace& pace, rdma_cm_event_type wanted,
                          const char* otherwise) {
  const auto event = manager.next(pace);
  if (!event && pace.stop()) throw Trouble{"interrupted", "run it again"};
  if (!event)
    throw NoResponse{
        {.what = fmt::format("no answer within {} ms", pace.patience.count()), .remedy = otherwise}};
  if (event->type == wanted) return *event;
  if (event->type == RDMA_CM_EVENT_REJECTED && decode(event->data))
    throw Trouble{"another probe is served there", "run it again when that one is done"};
  const std::string text = verbs::connect_text(event->type, event->status);
  if (event->type == RDMA_CM_EVENT_UNREACHABLE) throw NoResponse{{.what = text, .remedy = otherwise}};
  throw Trouble{text, otherwise};
}

class PeerProbe {
 public:
  PeerProbe(const PeerWanted& wanted, const Pace& pace) : wanted_(wanted), pace_(pace) {}

  // Returns the number of addresses of the peer that were not tried yet, including the current one; 0 before
  // find().
  [[nodiscard]] std::size_t ways() const noexcept { return to_.size(); }
  std::string way() const { return verbs::to_text(to_.front().get()); }
  void find() {
    const std::size_t at = wanted_.address.find('@');
    const auto known = [this](const std::string& text, std::uint16_t port) {
      auto found = wanted_.resolve(text, port);
      if (found.empty())
        throw Trouble{fmt::format("no host has the name or address \"{}\"", text), "check the spelling"};
      return found;
    };
    to_ = known(at == std::string::npos ? wanted_.address : wanted_.address.substr(at + 1), wanted_.port);
    if (at != std::string::npos) from_ = known(wanted_.address.substr(0, at), 0);
  }
  void take_next_address() {
    link_.reset();
    id_.reset();
    to_.erase(to_.begin());
  }

  std::string address() {
    if (to_.empty()) find();
    net::SocketAddress to = to_.front();
    // If the local name has several addresses, uses the first one of the same address family as the peer.
    auto from = std::find_if(from_.begin(), from_.end(),
                             [&to](const net::SocketAddress& one) { return one.family() == to.family(); });
    if (from == from_.end()) from = from_.begin();
    manager_.emplace();
    id_ = manager_->make_id(verbs::is_gid(to.get()) ? RDMA_PS_IB : RDMA_PS_TCP);
    constexpr const char* kRemedy = "ping it; ip route get ADDRESS names the interface, rdma link its device";
    if (rdma_resolve_addr(id_.get(), from != from_.end() ? from->get() : nullptr, to.get(), kResolveMs) != 0)
      throw Trouble{verbs::connect_text(RDMA_CM_EVENT_ADDR_ERROR, -errno), kRemedy};
    expect_event(*manager_, pace_, RDMA_CM_EVENT_ADDR_RESOLVED, kRemedy);
    if (rdma_resolve_route(id_.get(), kResolveMs) != 0)
      throw Trouble{verbs::connect_text(RDMA_CM_EVENT_ROUTE_ERROR, -errno), kRemedy};
    expect_event(*manager_, pace_, RDMA_CM_EVENT_ROUTE_RESOLVED, kRemedy);
    return fmt::format("by port {} of {}, from {}", static_cast<unsigned>(id_->port_num),
                       ibv_get_device_name(id_->verbs->device),
                       verbs::to_text(rdma_get_local_addr(id_.get())));
  }

  std::string connect() {
    const Clock::time_point begin = Clock::now();
    link_.emplace(std::move(id_));
    const HelloBytes hello = encode({});
    rdma_conn_param params{};
    params.private_data = hello.data();
    params.private_data_len = static_cast<std::uint8_t>(hello.size());
    params.retry_count = 6;
    params.rnr_retry_count = 7;
    params.qp_num = link_->pair()->qp_num;
    if (rdma_connect(link_->id(), &params) != 0)
      throw Trouble{"the request is not sent: " + errno_text(errno)};
    const std::string remedy =
        fmt::format("urtrs doctor --rdma --listen --port={} on that host", wanted_.port);
    const ManagerEvent answer =
        expect_event(*manager_, pace_, RDMA_CM_EVENT_CONNECT_RESPONSE, remedy.c_str());
    const auto theirs = decode(answer.data);
    if (!theirs) throw Trouble{"the peer is not a probe of this version", remedy};
    if (theirs->length < kPeerMemory) throw Trouble{"the probe there offers too little memory", remedy};
    there_ = *theirs;
    link_->to_receive();
    link_->to_send();
    for (std::uint32_t i = 0; i < kTold; ++i) succeed(link_->post_receive(), "posting a receive");
    if (rdma_establish(link_->id()) != 0)
      throw Trouble{"the connection is not completed: " + errno_text(errno)};
    up_ = true;
    const std::chrono::duration<double, std::milli> taken = Clock::now() - begin;
    return fmt::format("{}, in {:.1f} ms", link_->describe(), taken.count());
  }

  // Runs the rounds that hello.hpp describes. Sets `microseconds` to the average time of a round.
  std::string rounds(double& microseconds) {
    const Clock::time_point begin = Clock::now();
    std::uint64_t round = 0;
    for (; round < wanted_.rounds && !pace_.stop(); ++round) {
      make_pattern(link_->source(), round);
      succeed(link_->post_write(kPatternBytes, there_, false), "posting a write");
      succeed(link_->post_immediate(static_cast<std::uint32_t>(round)), "posting an empty write");
      const std::uint32_t said = answer();
      demand(said != kWrong,
             fmt::format("in round {} the immediate arrived before the data written before it", round));
      demand(said == round, fmt::format("round {} is answered with {}", round, said));
      succeed(link_->post_receive(), "posting a receive");
      if (round % 256 == 0) pace_.progress(fmt::format("{}: round {}", wanted_.address, round));
    }
    demand(round > 0, "interrupted");
    const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
    microseconds = taken.count() / static_cast<double>(round);
    return fmt::format("{} rounds of {} bytes, each checked and answered by the peer", round, kPatternBytes);
  }

  double writes_a_second(std::size_t bytes) {
    const Clock::time_point begin = Clock::now();
    std::chrono::duration<double> taken{};
    std::uint64_t count = 0;
    std::uint32_t free = kLinkDepth;
    do {
      for (; free >= kTold; free -= kTold)
        for (std::uint32_t i = 0; i < kTold; ++i)
          succeed(link_->post_write(bytes, there_, i + 1 == kTold), "posting a write");
      good(link_->wait(pace_), "a write");
      free += kTold;
      count += kTold;
      taken = Clock::now() - begin;
    } while (taken < pace_.measures && !pace_.stop());
    for (; free < kLinkDepth; free += kTold) good(link_->wait(pace_), "a write");
    return static_cast<double>(count) / taken.count();
  }

  void leave() {
    if (!link_ || !std::exchange(up_, false)) return;
    rdma_disconnect(link_->id());
    Pace farewell = pace_;
    farewell.patience = std::min(pace_.patience, kDisconnectLimit);
    manager_->next(farewell);
  }

 private:
  // Waits for the completion of the empty write and for the peer's answer. The two arrive in any order.
  std::uint32_t answer() {
    std::optional<std::uint32_t> said;
    for (bool sent = false; !said || !sent;) {
      const ibv_wc one = good(link_->wait(pace_), "a round");
      if ((one.opcode & IBV_WC_RECV) == 0) {
        sent = true;
        continue;
      }
      demand(one.opcode == IBV_WC_RECV_RDMA_WITH_IMM && one.byte_len == 0, "the peer sent an invalid answer");
      said = ntohl(one.imm_data);
    }
    return *said;
  }

  const PeerWanted& wanted_;
  const Pace& pace_;
  std::vector<net::SocketAddress> to_;
  std::vector<net::SocketAddress> from_;  // empty: any local address
  std::optional<Manager> manager_;
  verbs::IdHandle id_;
  std::optional<Link> link_;
  Hello there_;
  bool up_ = false;
};

// Tries each address of the peer until one is connected. The line of the connected address also names the
// failed ones. If no address can be connected, each failed address has its own line.
bool connected(const std::function<bool()>& connect, PeerProbe& probe, const Pace& pace, PeerLines& result) {
  Lines failures;
  std::string others;
  for (;;) {
    const bool done = connect();
    if (done && !others.empty()) result.lines.front().what += "; no peer at " + others;
    if (done || probe.ways() < 2 || pace.stop()) {
      if (!done && !others.empty()) result.lines.back().what = probe.way() + ": " + result.lines.back().what;
      if (!done) result.lines.insert(result.lines.begin(), failures.begin(), failures.end());
      return done;
    }
    Line& failed = failures.emplace_back(result.lines.back());
    others += fmt::format("{}{} ({})", others.empty() ? "" : ", ", probe.way(), failed.what);
    failed.what = probe.way() + ": " + failed.what;
    result = {};
    probe.take_next_address();
  }
}

}  // namespace

PeerLines probe_peer(const PeerWanted& wanted, const Pace& pace) {
  PeerLines result;
  PeerProbe probe(wanted, pace);
  // Runs a test and adds its line to the result. Returns false if the later tests must be skipped.
  const auto take = [&](const char* check, const std::function<std::string(Line&)>& test) {
    Line measured;
    Line line = judged(Line::Part::peer, "", check, [&] {
      try {
        return test(measured);
      } catch (const NoResponse&) {
        result.silent = true;
        throw;
      }
    });
    line.number = measured.number;
    line.unit = measured.unit;
    result.lines.push_back(std::move(line));
    return result.lines.back().grade == Line::Grade::ok && !pace.stop();
  };
  const auto rate = [&](const char* check, std::size_t bytes) {
    return take(check, [&](Line& line) {
      constexpr double kMega = 1e6;
      const double each = probe.writes_a_second(bytes);
      const double mega = each * static_cast<double>(bytes) / kMega;
      line.number = bytes == kSmall ? each : mega;
      line.unit = bytes == kSmall ? "writes/s" : "MB/s";
      return fmt::format("{:.0f} writes a second, {:.0f} MB/s, {} in flight", each, mega, kLinkDepth);
    });
  };
  const auto connect = [&] {
    return take("address", [&](Line&) { return probe.address(); }) &&
           take("connection", [&](Line&) { return probe.connect(); });
  };
  double microseconds = 0;
  [[maybe_unused]] const bool all =
      connected(connect, probe, pace, result) &&
      take("data before immediates", [&](Line&) { return probe.rounds(microseconds); }) &&
      take("round trip",
           [&](Line& line) {
             line.number = microseconds;
             line.unit = "us";
             return fmt::format("{:.1f} us for 4 KiB, an immediate and the answer", microseconds);
           }) &&
      rate("4 KiB writes", kSmall) && rate("128 KiB writes", kPeerMemory);
  probe.leave();
  return result;
}

}  // namespace rtrs::probe
