// Implements the listening probe. Peers are not trusted: a peer can only write to the memory that is
// registered for its connection, and get answers.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/verbs/verbs_address.hpp"
#include "tools/lib/control/rdma_probe/link.hpp"
#include "tools/lib/control/rdma_probe/peer.hpp"
#include "tools/lib/control/rdma_probe/probe_error.hpp"

namespace rtrs::probe {
namespace {

constexpr int kBacklog = 8;
constexpr std::uint32_t kPosted = 16;  // number of posted receives
constexpr unsigned kLooksAtOnce = 256;
constexpr std::size_t kMaxLines = 1000;
constexpr std::chrono::milliseconds kWaitForPeer{100};

class Listener {
 public:
  Listener(const Listening& wanted, const Pace& pace) : wanted_(wanted), pace_(pace) {}

  void listen() {
    std::vector<net::SocketAddress> addresses{net::any_address(wanted_.port)};
    if (!wanted_.address.empty()) addresses = wanted_.resolve(wanted_.address, wanted_.port);
    if (addresses.empty())
      throw Trouble{fmt::format("\"{}\" is not an address", wanted_.address),
                    "ip address lists those of this host"};
    // Listens on the first of the addresses that belongs to an RDMA device.
    const bool listens = std::any_of(addresses.begin(), addresses.end(), [this](net::SocketAddress& one) {
      id_ = manager_.make_id(verbs::is_gid(one.get()) ? RDMA_PS_IB : RDMA_PS_TCP);
      return rdma_bind_addr(id_.get(), one.get()) == 0 && rdma_listen(id_.get(), kBacklog) == 0;
    });
    if (!listens)
      throw Trouble{fmt::format("cannot listen on {} port {}: {}",
                                wanted_.address.empty() ? "any address" : wanted_.address, wanted_.port,
                                errno_text(errno)),
                    errno == EADDRINUSE ? "--port=N chooses another port"
                                        : "use the address of an RDMA device: rdma link lists them"};
    wanted_.ready(ntohs(rdma_get_src_port(id_.get())));
  }

  void serve(Lines& lines) {
    const Clock::time_point end = Clock::now() + wanted_.lasts;
    while (Clock::now() < end && !pace_.stop()) {
      const auto event = manager_.next(kWaitForPeer);
      if (event && event->id == id_.get() && event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
        throw Trouble{"the RDMA device was removed", "see the log of the kernel: dmesg"};
      if (!event || event->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
      const std::string who = verbs::to_text(rdma_get_peer_addr(event->id));
      Line line = judged(Line::Part::peer, "", "peer " + who, [&] { return answer(*event, end); });
      pace_.progress(fmt::format("{}: {}", who, line.what));
      if (lines.size() < kMaxLines) lines.push_back(std::move(line));
    }
  }

 private:
  std::string answer(const ManagerEvent& request, Clock::time_point end) {
    verbs::IdHandle id(request.id);
    if (!decode(request.data)) {
      rdma_reject(id.get(), nullptr, 0);
      throw Trouble{"the peer is not a probe of this version",
                    "install the same version of urtrs on both hosts"};
    }
    Link link(std::move(id));
    for (std::uint32_t i = 0; i < kPosted; ++i) succeed(link.post_receive(), "posting a receive");
    link.to_receive();
    link.to_send();
    const HelloBytes hello = encode(link.hello());
    rdma_conn_param params{};
    params.private_data = hello.data();
    params.private_data_len = static_cast<std::uint8_t>(hello.size());
    params.rnr_retry_count = 7;
    params.qp_num = link.pair()->qp_num;
    if (rdma_accept(link.id(), &params) != 0) throw Trouble{"it is not accepted: " + errno_text(errno)};
    return talk(link, std::min(end, Clock::now() + wanted_.each));
  }

  std::string talk(Link& link, Clock::time_point end) {
    std::uint64_t rounds = 0, wrong = 0;
    std::uint32_t unanswered = 0;  // number of this probe's writes that are not completed yet
    Clock::time_point heard = Clock::now();
    while (!gone(link)) {
      const Clock::time_point now = Clock::now();
      if (pace_.stop()) break;
      demand(now < end, fmt::format("time limit reached after {} rounds", rounds));
      demand(now - heard < 2 * pace_.patience, fmt::format("no more messages after {} rounds", rounds));
      for (unsigned i = 0; i < kLooksAtOnce; ++i) {
        const auto found = link.look();
        if (!found) break;
        // When the peer disconnects, work requests are flushed before the disconnect event arrives, so this
        // is not an error.
        if (found->has_value() && (*found)->status == IBV_WC_WR_FLUSH_ERR) break;
        const ibv_wc one = good(*found, "the connection");
        if ((one.opcode & IBV_WC_RECV) == 0) {
          --unanswered;
          continue;
        }
        demand(one.opcode == IBV_WC_RECV_RDMA_WITH_IMM && one.byte_len == 0, "it sent an invalid message");
        demand(unanswered < kLinkDepth, "it does not receive the answers");
        const std::uint32_t round = ntohl(one.imm_data);
        const bool same = round <= kMaxRounds && has_pattern(link.target(), round);
        ++rounds;
        wrong += same ? 0 : 1;
        heard = now;
        succeed(link.post_receive(), "posting a receive");
        succeed(link.post_immediate(same ? round : kWrong), "posting an answer");
        ++unanswered;
      }
    }
    demand(wrong == 0, fmt::format("{} of {} rounds had wrong data", wrong, rounds));
    return fmt::format("{} rounds; all data arrived before the immediate", rounds);
  }

  // Returns true if the peer has disconnected. Rejects other peers that try to connect with an empty hello,
  // which means that the probe is busy.
  bool gone(const Link& link) {
    while (const auto event = manager_.next(std::chrono::milliseconds(0))) {
      if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        const HelloBytes hello = encode({});
        rdma_reject(event->id, hello.data(), static_cast<std::uint8_t>(hello.size()));
        const verbs::IdHandle other(event->id);
      } else if (event->id == link.id() && event->type != RDMA_CM_EVENT_ESTABLISHED) {
        // The peer waits until this end disconnects, too.
        if (event->type == RDMA_CM_EVENT_DISCONNECTED) rdma_disconnect(link.id());
        return true;
      }
    }
    return false;
  }

  const Listening& wanted_;
  const Pace& pace_;
  Manager manager_;
  verbs::IdHandle id_;
};

}  // namespace

Lines listen_for_peers(const Listening& wanted, const Pace& pace) {
  Lines lines;
  std::optional<Listener> listener;
  Line line = judged(Line::Part::peer, "", "listening", [&]() -> std::string {
    listener.emplace(wanted, pace);
    listener->listen();
    return {};
  });
  if (line.grade != Line::Grade::ok) return {line};
  line = judged(Line::Part::peer, "", "listening", [&]() -> std::string {
    listener->serve(lines);
    return {};
  });
  if (line.grade != Line::Grade::ok) lines.push_back(line);
  if (lines.empty())
    lines.push_back({.part = Line::Part::peer,
                     .check = "peer",
                     .grade = Line::Grade::absent,
                     .what = "none came",
                     .remedy = "urtrs doctor --rdma ADDRESS on the other host, with an address of this one"});
  return lines;
}

}  // namespace rtrs::probe
