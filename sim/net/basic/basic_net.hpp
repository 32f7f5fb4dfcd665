// Base class of the simulated networks: virtual time, events, links between ports, and planned shortages of
// node resources.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/net/basic/net.hpp"

namespace rtrs::sim {

struct NetNode {
  bool up = true;
  bool silent = false;
  std::uint32_t starts = 1;
  std::unordered_map<std::uint64_t, QpId> by_key;  // only looked up, never iterated
  std::vector<std::uint32_t> unplugged;            // removed ports
  std::uint32_t shortage_after = 0, shortage_count = 0;
  unsigned short_posts = 0;  // consecutive short posts
};

struct NetLink {
  LinkInfo info;
  Nanos latency = 0, jitter = 0;
  Nanos starved[2] = {0, 0};
  unsigned unplugged = 0;  // number of the link's two ports whose adapter is removed
  bool is_of(NodeId node, std::uint32_t port) const noexcept {
    return (info.client == node && info.client_port == port) ||
           (info.server == node && info.server_port == port);
  }
};

// `Node` and `Link` are the structs above or derived from them. An `Event` has a time, and a serial that
// orders events of equal time.
template <class Node, class Link, class Event>
class BasicNet : public Net {
 public:
  std::size_t node_count() const noexcept { return nodes_.size(); }
  Nanos now() const noexcept override { return now_; }
  Nanos next_time() const noexcept override { return heap_.empty() ? kNever : heap_.front().time; }
  // Moves the clock to the next event and processes it. Returns false if there is no event.
  bool step(ChoiceSource& choice) {
    if (heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    now_ = std::max(now_, event.time);
    ++stats_.events;
    act(event, choice);
    return true;
  }
  void run_until(Nanos time, ChoiceSource& choice) override {
    while (!heap_.empty() && heap_.front().time <= time) step(choice);
    now_ = std::max(now_, time);
  }

  Rates& rates() noexcept override { return rates_; }
  const NetworkConfig& config() const noexcept override { return config_; }
  LinkId link(NodeId client, std::uint32_t client_port, NodeId server, std::uint32_t server_port) override {
    const auto is_it = [&](const Link& one) {
      return one.info.client == client && one.info.client_port == client_port && one.info.server == server &&
             one.info.server_port == server_port;
    };
    const auto found = std::find_if(links_.begin(), links_.end(), is_it);
    if (found != links_.end()) return static_cast<LinkId>(found - links_.begin());
    Link& made = links_.emplace_back();
    made.info.client = client;
    made.info.client_port = client_port;
    made.info.server = server;
    made.info.server_port = server_port;
    made.latency = config_.latency;
    made.jitter = config_.jitter;
    made.unplugged =
        (is_unplugged(client, client_port) ? 1U : 0U) + (is_unplugged(server, server_port) ? 1U : 0U);
    const auto id = static_cast<LinkId>(links_.size() - 1);
    link_made(id);
    return id;
  }
  std::size_t link_count() const noexcept override { return links_.size(); }
  LinkInfo link_info(LinkId id) const noexcept override { return links_[id].info; }
  void kill(LinkId id, Way way) override {
    cut(id, way);
    links_[id].info.dead[static_cast<unsigned>(way)] = true;
  }
  void set_latency(LinkId id, Nanos latency, Nanos jitter) override {
    links_[id].latency = latency;
    links_[id].jitter = jitter;
  }
  void starve(LinkId id, Way way, Nanos until) override {
    links_[id].starved[static_cast<unsigned>(way)] = until;
  }
  bool is_unplugged(NodeId node, std::uint32_t port) const noexcept override {
    const auto& ports = nodes_[node].unplugged;
    return std::find(ports.begin(), ports.end(), port) != ports.end();
  }
  void plan_shortage(NodeId node, std::uint32_t skip, std::uint32_t count) override {
    nodes_[node].shortage_after = skip;
    nodes_[node].shortage_count = count;
  }
  // Called before memory, a key or a connection is created. Returns true if the creation must fail.
  bool allocation_fails(NodeId id, ChoiceSource& choice) {
    Node& node = nodes_[id];
    bool fails = choice.fires(rates_.resource_short, Label::resource_short);
    if (node.shortage_count != 0) {
      const bool planned = node.shortage_after == 0;
      --(planned ? node.shortage_count : node.shortage_after);
      fails = fails || planned;
    }
    if (fails) ++stats_.shortages;
    return fails;
  }
  // Returns how many of the `offered` work requests post() accepts.
  std::size_t takes(NodeId id, std::size_t offered, ChoiceSource& choice) {
    constexpr unsigned kInARow = 2;
    Node& node = nodes_[id];
    if (offered == 0 || node.short_posts == kInARow || !choice.fires(rates_.post_short, Label::post_short)) {
      node.short_posts = 0;
      return offered;
    }
    ++node.short_posts;
    ++stats_.short_posts;
    return choice.draw(static_cast<std::uint32_t>(offered), Label::post_short);
  }
  bool is_up(NodeId node) const noexcept override { return nodes_[node].up; }
  std::uint32_t starts(NodeId node) const noexcept { return nodes_[node].starts; }
  QpId find_qp(NodeId node, ConKey key) const noexcept override {
    const auto found = nodes_[node].by_key.find(packed(key));
    return found == nodes_[node].by_key.end() ? kNone : found->second;
  }

  const Capabilities& capabilities() const noexcept override { return config_.capabilities; }
  std::uint64_t hash() const noexcept override { return hash_; }
  const NetworkStats& stats() const noexcept override { return stats_; }

 protected:
  // `hash`: initial value of hash(), before any event.
  BasicNet(const NetworkConfig& config, std::uint64_t hash) : config_(config), hash_(hash) {}

  virtual void act(const Event&, ChoiceSource&) = 0;
  virtual void link_made(LinkId) {}

  void schedule(Event event) {
    event.time = std::max(event.time, now_);
    event.serial = next_serial_++;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  bool is_cut(LinkId link, Way way) const noexcept {
    return links_[link].info.cut[static_cast<unsigned>(way)] || links_[link].unplugged != 0;
  }
  // Packs a ConKey without its session, because a server numbers the epochs of all its sessions together.
  static std::uint64_t packed(ConKey key) noexcept {
    return std::uint64_t{key.epoch} << 32 | std::uint64_t{key.path} << 16 | key.con;
  }
  static std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
    return hash ^ (hash >> 29);
  }

  NetworkConfig config_;
  Rates rates_;
  Nanos now_ = 0;
  std::uint64_t hash_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  NetworkStats stats_;

 private:
  // Order of the min-heap of events: earliest time first, then lowest serial.
  static bool later(const Event& a, const Event& b) noexcept {
    return a.time != b.time ? a.time > b.time : a.serial > b.serial;
  }

  std::uint64_t next_serial_ = 0;
  std::vector<Event> heap_;
};

}  // namespace rtrs::sim
