// The contract of core/fabric/fabric.hpp as tests. A fabric takes part by providing a FabricPair and
//
//     INSTANTIATE_TEST_SUITE_P(Sim, FabricContract, ::testing::Values(FabricCase{"sim", make_sim_pair}),
//     case_name);
//
// in a program that is linked with the contract_*_cases.cpp. Cases differ between fabrics by capabilities
// alone: a case never asks which fabric it runs on.
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
  // The server listens at the first, the client reaches it at the second, nobody listens at the third.
  virtual PathAddress listen_address() = 0;
  virtual PathAddress server_address() = 0;
  virtual PathAddress nobody_address() = 0;
  // Time for poll().
  virtual Nanos now() = 0;
  // Called after both polls reported nothing. Lets the world go on: a simulated one goes to its next event, a
  // real one sleeps until a wait_fd() is readable, for a short time. False when nothing happened.
  virtual bool idle() = 0;
  // Fruitless idle() calls in a row after which an expected event will not come any more.
  virtual unsigned patience() const { return 1; }
  // The server process dies: its connections are reset, server() must not be used any more. False where that
  // cannot be done.
  virtual bool kill_server() { return false; }
};

struct FabricCase {
  const char* name;
  std::unique_ptr<FabricPair> (*make)();
  // What this machine lacks for the fabric: the cases are skipped with that reason. Empty: nothing.
  std::string (*lacking)() = nullptr;
};
inline std::string case_name(const ::testing::TestParamInfo<FabricCase>& info) {
  return info.param.name;
}

using test::SeenEvent;

// One fabric of the pair with everything it reported and nobody has taken yet.
class Side {
 public:
  explicit Side(Fabric& fabric) : fabric_(&fabric) {}
  Fabric& fabric() { return *fabric_; }
  // Polls once; the number of events.
  std::size_t poll(Nanos now);
  // Removes the oldest event of this kind (and key) into `out`; false when there is none.
  bool take(SeenEvent::Kind, SeenEvent& out);
  bool take(SeenEvent::Kind, ConKey, SeenEvent& out);
  std::size_t count(SeenEvent::Kind, ConKey) const;
  std::size_t count(SeenEvent::Kind) const;
  std::deque<SeenEvent>& events() { return events_; }

 private:
  Fabric* fabric_;
  std::deque<SeenEvent> events_;
};

// One connection that is up, seen from both sides.
struct Link {
  ConKey client{};
  ConKey server{};
};

// Memory of one side and the key under which the other side may write to it.
struct Target {
  Region region;
  RemoteKey remote_key;
};

std::span<const std::byte> bytes_of(std::string_view);
// Private data without the zeros by which some fabrics fill it up to their greatest length.
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

  // Polls both sides until `done`; false when it did not come true within the patience of the pair.
  bool run_until(const std::function<bool()>& done);
  // Polls both sides until nothing happens any more.
  void run_until_quiet();
  // Waits for one event of this kind and takes it; fails the test when it does not come.
  SeenEvent expect(Side&, SeenEvent::Kind);
  SeenEvent expect(Side&, SeenEvent::Kind, ConKey);

  ConKey fresh_key();
  static ConnectionParams params(std::uint32_t send_depth = 64, std::uint32_t receive_depth = 64);
  // The same with room to make and kill keys.
  static ConnectionParams keyed();
  // A connection with `receives` receives of `receive_bytes` posted at both ends.
  Link open_link(unsigned receives = 32, std::uint32_t receive_bytes = 256);
  Link open_link(const ConnectionParams&, unsigned receives, std::uint32_t receive_bytes);
  // Ends the connection at both sides and waits for both ConnectionClosed.
  void close_link(const Link&);
  // Memory of `owner` that its peers may write to.
  Target make_target(Side& owner, std::size_t bytes);
  // Memory of the server with a key that it can kill, for the peer of this connection.
  Target make_revocable(const Link&, std::size_t bytes);
  // A new key is good for whoever learns of it over the connection that it was made for.
  void tell_of_key(const Link&);
  // Memory of `owner` to write from, holding `text`.
  Region make_source(Side& owner, std::string_view text);

  static WorkRequest write_imm(ConKey, const Region& from, std::uint32_t length, const Target& to,
                               std::uint64_t offset, std::uint32_t imm);
  static WorkRequest empty_imm(ConKey, std::uint32_t imm);
  static WorkRequest message(ConKey, std::string_view text);
  // Posts all, polling in between when the fabric takes only a part.
  void post_all(Side&, std::span<const WorkRequest>);
  void post_one(Side&, const WorkRequest&);

  // Posts a write that must not be let in: both sides lose the connection, and nothing is written.
  void expect_refused(const Link&, const WorkRequest&, const Target&);

 private:
  std::unique_ptr<FabricPair> pair_;
  std::unique_ptr<Side> client_;
  std::unique_ptr<Side> server_;
  std::uint32_t next_epoch_ = 1;
  bool server_alive_ = true;
};

}  // namespace rtrs::conformance
