// Base class of the networks below a real fabric, for any transport: outages with a retry budget, removed
// ports, and connections whose traffic is dropped. sim/net/streams/pipe_laws.hpp checks from outside what the
// fabric promises.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/net/basic/basic_net.hpp"
#include "sim/net/streams/pipe_laws.hpp"

namespace rtrs::sim {

// One end of a connection.
struct EngineEnd {
  NodeId node = kNone;
  QpId peer = kNone;
  LinkId link = kNone;
  Way way = Way::to_server;  // direction in which this end sends
  ConKey key{};
  bool swallowed = false;
  bool hung = false;
  bool budget_scheduled = false;
  Nanos stuck_since = kNever;
  Nanos budget = 0;
};

template <class Kinds>
struct EngineEvent {
  using Kind = Kinds;
  Nanos time;
  Kind kind;
  std::uint32_t which;
  std::uint64_t serial = 0;
};

// `Node` must have a pointer `fabric` to the fabric of the running process, or nullptr. `Kinds` are the kinds
// of events and include `budget` and `unstick`.
template <class Node, class End, class Kinds>
class EngineNet : public BasicNet<Node, NetLink, EngineEvent<Kinds>> {
  using Base = BasicNet<Node, NetLink, EngineEvent<Kinds>>;

 public:
  using Event = EngineEvent<Kinds>;

  bool has_events(NodeId id) const noexcept override {
    return nodes_[id].up && nodes_[id].fabric != nullptr && !sleeps(id);
  }
  // The network cannot know whether the bytes that wait for a process are a complete message.
  std::size_t event_count(NodeId) const noexcept override { return 0; }
  bool holds_message(NodeId, std::size_t) const noexcept override { return false; }

  void cut(LinkId id, Way way) override {
    if (std::exchange(links_[id].info.cut[static_cast<unsigned>(way)], true)) return;
    ++stats_.cuts;
    happened(1, id, static_cast<std::uint64_t>(way));
  }
  void heal(LinkId id, Way way, ChoiceSource& choice) override {
    LinkInfo& info = links_[id].info;
    if (info.dead[static_cast<unsigned>(way)] || !std::exchange(info.cut[static_cast<unsigned>(way)], false))
      return;
    happened(2, id, static_cast<std::uint64_t>(way));
    link_changed(id, choice);
  }
  void heal_all(ChoiceSource& choice) override {
    for (LinkId id = 0; id < links_.size(); ++id) {
      links_[id].starved[0] = links_[id].starved[1] = 0;
      heal(id, Way::to_server, choice);
      heal(id, Way::to_client, choice);
      link_changed(id, choice);
    }
  }
  std::size_t qp_count() const noexcept override { return ends_.size(); }
  void swallow(QpId id, bool on, ChoiceSource& choice) override {
    const End& end = ends_[id];
    if (on && (end.peer == kNone || !is_joined(end))) return;
    if (end.swallowed == on || end.hung) return;
    if (on) ++stats_.swallowed;
    happened(3, id, on ? 1 : 0);
    for (const QpId one : {id, peer_of(id)}) {
      if (one == kNone) continue;
      ends_[one].swallowed = on;
      if (!on) go_on(one, choice);
    }
  }
  const std::vector<QpId>& hung() noexcept override {
    std::erase_if(hung_, [this](QpId id) { return !this->qp_info(id).established; });
    return hung_;
  }
  bool has_undelivered(QpId id) const noexcept override { return laws_.has_undelivered(id); }
  std::uint32_t undelivered_messages(QpId id) const noexcept override {
    return laws_.undelivered_messages(id);
  }
  void unplug(NodeId node, std::uint32_t port, ChoiceSource& choice) override {
    if (this->is_unplugged(node, port)) return;
    nodes_[node].unplugged.push_back(port);
    ++stats_.unplugged;
    happened(4, node, port);
    for (NetLink& link : links_)
      if (link.is_of(node, port)) ++link.unplugged;
    taken_out(node, port, choice);
  }
  void plug(NodeId node, std::uint32_t port, ChoiceSource& choice) override {
    if (!this->is_unplugged(node, port)) return;
    std::erase(nodes_[node].unplugged, port);
    happened(5, node, port);
    put_back(node, port);
    for (LinkId id = 0; id < links_.size(); ++id)
      if (links_[id].is_of(node, port) && --links_[id].unplugged == 0) link_changed(id, choice);
  }
  void restart(NodeId id) override {
    Node& node = nodes_[id];
    if (node.up) return;
    happened(7, id, 0);
    node.up = true;
    node.silent = false;
    ++node.starts;
  }
  const std::vector<Violation>& violations() const noexcept override { return laws_.violations(); }

 protected:
  using Base::Base;
  using Base::config_, Base::links_, Base::nodes_, Base::now_, Base::stats_;

  // True if the process has nothing to do.
  virtual bool sleeps(NodeId) const noexcept = 0;
  // Resumes the traffic that waited for the link or the peer.
  virtual void go_on(QpId, ChoiceSource&) = 0;
  // True if this end, which has a peer, can still send to the peer.
  virtual bool is_joined(const End&) const noexcept = 0;
  virtual void taken_out(NodeId, std::uint32_t port, ChoiceSource&) = 0;
  virtual void put_back(NodeId, std::uint32_t /*port*/) {}

  void schedule(Nanos time, Kinds kind, std::uint32_t which) { Base::schedule({time, kind, which}); }
  void happened(unsigned what, std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) {
    this->hash_ = Base::mixed(Base::mixed(Base::mixed(this->hash_, now_), a << 8 | what), b << 32 ^ c);
  }
  // Marks the node as down. Returns false if it was down already.
  bool mark_down(NodeId id, bool orderly) {
    Node& node = nodes_[id];
    if (!std::exchange(node.up, false)) return false;
    happened(6, id, orderly ? 1 : 0);
    node.silent = !orderly;
    node.by_key.clear();
    return true;
  }
  // Returns the peer; kNone if there is none or if the peer is now joined to another end.
  QpId peer_of(QpId id) const noexcept {
    const QpId peer = ends_[id].peer;
    return peer != kNone && ends_[peer].peer == id ? peer : kNone;
  }
  QpInfo info_of(const End& end) const noexcept {
    QpInfo info;
    info.node = end.node;
    info.peer = end.peer;
    info.link = end.link;
    info.way = end.way;
    info.key = end.key;
    return info;
  }
  // Drops the traffic of both ends permanently.
  void make_hung(QpId id, ChoiceSource& choice) {
    swallow(id, true, choice);
    const End& end = ends_[id];
    ends_[id].hung = ends_[end.peer].hung = true;
    hung_.push_back(end.way == Way::to_server ? id : end.peer);
  }
  // True if nothing that this end sends arrives now.
  bool is_stopped(const End& end) const noexcept { return this->is_cut(end.link, end.way) || end.swallowed; }
  // True if nothing from the peer arrives at this end now, including acknowledgements.
  bool receives_nothing(const End& end) const noexcept {
    return this->is_cut(end.link, opposite(end.way)) || end.swallowed;
  }
  Nanos latency_of(const End& end, ChoiceSource& choice) const {
    return links_[end.link].latency + draw_time(choice, links_[end.link].jitter, Label::latency);
  }
  // Called when this end gets no reply. The first call starts its retry budget.
  void stuck(QpId id, ChoiceSource& choice) {
    End& end = ends_[id];
    if (end.hung || end.stuck_since != kNever) return;
    end.stuck_since = now_;
    end.budget = config_.retry_budget + draw_time(choice, config_.retry_spread, Label::retry_budget);
    if (!std::exchange(end.budget_scheduled, true)) schedule(now_ + end.budget, Kinds::budget, id);
  }

  std::vector<End> ends_;
  PipeLaws laws_;

 private:
  // Resumes traffic some time after a link change, as retransmission timers do.
  void link_changed(LinkId id, ChoiceSource& choice) {
    for (QpId end = 0; end < ends_.size(); ++end) {
      if (ends_[end].link != id || ends_[end].stuck_since == kNever) continue;
      schedule(now_ + draw_time(choice, config_.retransmit, Label::retransmit_delay), Kinds::unstick, end);
    }
  }

  std::vector<QpId> hung_;
};

}  // namespace rtrs::sim
