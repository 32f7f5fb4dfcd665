// Tests of the contract in core/fabric/fabric.hpp. To test a fabric, provide a FabricPair and
//
//     INSTANTIATE_TEST_SUITE_P(Sim, FabricContract, ::testing::Values(FabricCase{"sim", make_sim_pair}),
//     case_name);
//
// in a program that is linked with contract_*_cases.cpp. Cases depend only on capabilities, never on the kind
// of fabric.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "core/fabric/test_seen_event.hpp"

namespace rtrs::conformance {

// Two fabrics that can reach each other.
class FabricPair {
 public:
  virtual ~FabricPair() = default;
  virtual Fabric& client() = 0;
  virtual Fabric& server() = 0;
  // Address to listen at, address at which the client reaches the server, and an address where nobody
  // listens.
  virtual PathAddress listen_address() = 0;
  virtual PathAddress server_address() = 0;
  virtual PathAddress unused_address() = 0;
  // Current time for poll().
  virtual Nanos now() = 0;
  // Called after both polls returned no events. A simulation advances to its next event; a real fabric sleeps
  // briefly until a wait_fd() is readable. Returns false if nothing happened.
  virtual bool idle() = 0;
  // Number of consecutive idle() calls without effect after which a wait fails.
  virtual unsigned patience() const { return 1; }
  // Simulates the death of the server process: its connections are reset; do not use server() afterwards.
  // Returns false if not supported.
  virtual bool kill_server() { return false; }
};

struct FabricCase {
  const char* name;
  std::unique_ptr<FabricPair> (*make)();
  // Returns why this machine cannot run the fabric, so that all cases are skipped; empty if the machine can.
  std::string (*lacking)() = nullptr;
};
inline std::string case_name(const ::testing::TestParamInfo<FabricCase>& info) {
  return info.param.name;
}

using test::SeenEvent;

// One fabric of the pair, and its events that the test has not taken yet.
class Side {
 public:
  explicit Side(Fabric& fabric) : fabric_(&fabric) {}
  Fabric& fabric() { return *fabric_; }
  // Polls once; returns the number of events.
  std::size_t poll(Nanos now);
  // Moves the oldest event of this kind (and key) to `out`; false if there is none.
  bool take(SeenEvent::Kind, SeenEvent& out);
  bool take(SeenEvent::Kind, ConKey, SeenEvent& out);
  std::size_t count(SeenEvent::Kind, ConKey) const;
  std::size_t count(SeenEvent::Kind) const;
  std::deque<SeenEvent>& events() { return events_; }

 private:
  Fabric* fabric_;
  std::deque<SeenEvent> events_;
};

// The two ends of an established connection.
struct Link {
  ConKey client{};
  ConKey server{};
};

// Memory of one side, and the key that lets the other side write there.
struct Target {
  Region region;
  RemoteKey remote_key;
};

std::span<const std::byte> bytes_of(std::string_view);
// Private data without trailing zeros, because some fabrics pad private data to their maximum length.
std::string unpadded(std::string_view);

class FabricContract : public ::testing::TestWithParam<FabricCase> {
 protected:
  void SetUp() override;

  Side& client() { return *client_; }
  Side& server() { return *server_; }
  FabricPair& pair() { return *pair_; }
  const Capabilities& capabilities() { return pair_->client().capabilities(); }
  bool server_alive() const { return server_alive_; }
  void kill_server_now();

  // Polls both sides until `done` returns true; returns false after patience() idle calls.
  bool run_until(const std::function<bool()>& done);
  // Polls both sides until no event is pending.
  void run_until_quiet();
  // Waits for an event of this kind and takes it; fails the test if none comes.
  SeenEvent expect(Side&, SeenEvent::Kind);
  SeenEvent expect(Side&, SeenEvent::Kind, ConKey);

  ConKey fresh_key();
  static ConnectionParams params(std::uint32_t send_depth = 64, std::uint32_t receive_depth = 64);
  // params() with capacity to make and invalidate keys.
  static ConnectionParams keyed();
  // Opens a connection with `receives` receives of `receive_bytes` bytes posted at both ends.
  Link open_link(unsigned receives = 32, std::uint32_t receive_bytes = 256);
  Link open_link(const ConnectionParams&, unsigned receives, std::uint32_t receive_bytes);
  // Disconnects both ends and waits for both ConnectionClosed events.
  void close_link(const Link&);
  // Allocates memory of `owner` that its peers may write to.
  Target make_target(Side& owner, std::size_t bytes);
  // Allocates memory of the server, with a key for this connection's peer that the server can invalidate.
  Target make_revocable(const Link&, std::size_t bytes);
  // Sends a message on the connection, because a new key is valid only after the peer got a message that was
  // sent after the key was made.
  void announce_key(const Link&);
  // Allocates memory of `owner` as a source of writes, filled with `text`.
  Region make_source(Side& owner, std::string_view text);

  static WorkRequest write_imm(ConKey, const Region& from, std::uint32_t length, const Target& to,
                               std::uint64_t offset, std::uint32_t imm);
  static WorkRequest empty_imm(ConKey, std::uint32_t imm);
  static WorkRequest message(ConKey, std::string_view text);
  // Posts all work requests. If the fabric accepts only a part at a time, polls in between.
  void post_all(Side&, std::span<const WorkRequest>);
  void post_one(Side&, const WorkRequest&);

  // Posts a write that must be refused: both sides lose the connection, and the target is unchanged.
  void expect_refused(const Link&, const WorkRequest&, const Target&);

 private:
  std::unique_ptr<FabricPair> pair_;
  std::unique_ptr<Side> client_;
  std::unique_ptr<Side> server_;
  std::uint32_t next_epoch_ = 1;
  bool server_alive_ = true;
};

}  // namespace rtrs::conformance
