// Test fixture that feeds hand-made histories to the law monitor.
#pragma once
#include "sim/net/basic/law_monitor.hpp"

#include <gtest/gtest.h>

namespace rtrs::sim {

using Kind = NetworkEvent::Kind;
using Op = WorkRequest::Op;

inline constexpr QpId kClient = 0;
inline constexpr QpId kServer = 1;
inline constexpr QpId kOther = 2;  // a later connection of the same client
inline constexpr NodeId kClientNode = 0;
inline constexpr NodeId kServerNode = 1;
inline constexpr std::uint32_t kKey = 77;
inline constexpr std::uint64_t kAddress = 4096;
inline constexpr Nanos kBudget = 1000;

class Story : public ::testing::Test {
 protected:
  Story() {
    connect(kClient, kServer);
    NetworkEvent granted;
    granted.kind = Kind::key_granted;
    granted.node = kServerNode;
    granted.rkey = kKey;
    granted.value = kAddress;
    granted.length = 100;
    tell(granted);
  }

  void tell(NetworkEvent h) {
    h.time = now;
    monitor.on(h);
  }
  void create(QpId qp, NodeId node) {
    NetworkEvent h;
    h.kind = Kind::qp_created;
    h.qp = qp;
    h.node = node;
    h.link = 0;
    h.value = kBudget;
    tell(h);
  }
  void plain(Kind kind, QpId qp, QpId peer = kNone) {
    NetworkEvent h;
    h.kind = kind;
    h.qp = qp;
    h.peer = peer;
    h.node = kServerNode;
    tell(h);
  }
  void connect(QpId client, QpId server) {
    create(client, kClientNode);
    plain(Kind::request_sent, client);
    plain(Kind::request_seen, client);
    create(server, kServerNode);
    plain(Kind::qp_paired, client, server);
    plain(Kind::established, client);
  }
  void link(Kind kind, Way way = Way::to_server) {
    NetworkEvent h;
    h.kind = kind;
    h.link = 0;
    h.way = way;
    tell(h);
  }
  void post(std::uint64_t wr, Op op, bool signalled = true, std::uint32_t length = 10, QpId qp = kClient) {
    NetworkEvent h;
    h.kind = Kind::posted;
    h.qp = qp;
    h.wr = wr;
    h.op = op;
    h.length = length;
    h.rkey = kKey;
    h.value = kAddress;
    h.flag = signalled;
    h.imm = static_cast<std::uint32_t>(wr);
    tell(h);
  }
  void place(std::uint64_t wr, std::uint32_t length = 10, std::uint32_t rkey = kKey,
             std::uint64_t address = kAddress) {
    NetworkEvent h;
    h.kind = Kind::placed;
    h.qp = kServer;
    h.peer = kClient;
    h.wr = wr;
    h.rkey = rkey;
    h.value = address;
    h.length = length;
    tell(h);
  }
  void execute(std::uint64_t wr, Op op, std::uint32_t length = 10, QpId at = kServer, QpId from = kClient) {
    NetworkEvent h;
    h.kind = Kind::executed;
    h.qp = at;
    h.peer = from;
    h.wr = wr;
    h.op = op;
    h.imm = static_cast<std::uint32_t>(wr);
    h.length = length;
    h.flag = op != Op::write;
    tell(h);
  }
  void numbered(Kind kind, std::uint64_t wr, Ending ending = Ending::success, QpId qp = kClient) {
    NetworkEvent h;
    h.kind = kind;
    h.qp = qp;
    h.wr = wr;
    h.ending = ending;
    tell(h);
  }
  void receives(std::uint32_t count, QpId qp = kServer) {
    NetworkEvent h;
    h.kind = Kind::receives_posted;
    h.qp = qp;
    h.length = count;
    tell(h);
  }
  void report(std::uint64_t serial, Op op, std::uint32_t imm, std::uint32_t length = 10) {
    NetworkEvent h;
    h.kind = Kind::reported;
    h.qp = kServer;
    h.wr = serial;
    h.op = op;
    h.imm = imm;
    h.length = length;
    tell(h);
  }
  void broke(QpId qp, Ending ending) {
    NetworkEvent h;
    h.kind = Kind::qp_broken;
    h.qp = qp;
    h.ending = ending;
    tell(h);
  }
  void expect_clean() {
    EXPECT_EQ(monitor.violation_count(), 0u)
        << "A" << monitor.violations()[0].law << ": " << monitor.violations()[0].text;
  }
  // Expects violations of this law and of no other.
  void expect_broken(unsigned law) {
    ASSERT_NE(monitor.violation_count(), 0u);
    for (const Violation& violation : monitor.violations()) {
      EXPECT_EQ(violation.law, law) << violation.text;
      EXPECT_EQ(violation.time, now);
    }
  }

  LawMonitor monitor;
  Nanos now = 5;
};

}  // namespace rtrs::sim
