// Server side of a session: which actions the state machine may take, given its inputs. Also the registry,
// which maps sessions and session names to their clients.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "conformance/spec/connection.hpp"
#include "conformance/spec/findings.hpp"
#include "conformance/spec/heartbeat.hpp"
#include "conformance/spec/possible_states.hpp"

namespace rtrs::spec {

struct KnownChunk;
struct KnownSession;

class ServerSpec {
 public:
  // Paths of one session have keys whose path is session * kPaths + index in the session
  // (core/proto/ids.hpp).
  static constexpr unsigned kPaths = 128;

  // `settings` is null if the beginning was not seen.
  ServerSpec(Findings& findings, unsigned machine, const Settings* settings);
  // Call before the first event of a trace that begins in the middle of a run.
  void resume(const KnownSession&);
  void on(const Event&);
  void finish();

 private:
  struct Path {
    PathState state = PathState::unknown;
    std::vector<Connection> cons;  // indexed by cid
    std::uint32_t incarnation = 0;
    std::uint16_t recon_cnt = 0;
    std::uint8_t extensions = 0;
    std::uint32_t address_pair = 0;
    Uuid uuid{};
    Time deadline = kNever;  // end of the handshake
    bool overdue = false;
    bool info_sent = false;
    Heartbeat heartbeat;
    // State of the current step:
    bool touched = true;  // the step may have changed the path, or one of its checks is postponed
    bool must_end = false;
    Rule must_end_rule = Rule::path_teardown;
    bool ended = false;
    bool info_asked = false;
  };
  struct Use {
    Key key;
    std::uint32_t incarnation = 0;
    std::uint8_t generation = 0;
    bool reads = false;
    bool has_data = false;
    bool has_descriptor = false;
    bool need_invalidate = false;
    bool operator==(const Use&) const = default;
  };
  // leaving: the path has ended; the request ends later without a visible event.
  enum class Phase : std::uint8_t { idle, taken, invalidating, serving, answering, leaving };
  struct Chunk {
    Phase phase = Phase::idle;
    bool due = false;    // taken: must be delivered in this step
    bool ready = false;  // taken: its key is invalidated
    bool from_park = false;
    bool has_parked = false;
    std::uint16_t serial = 0;
    std::uint16_t error = 0;
    Use user;
    Use parked;
    bool operator==(const Chunk&) const = default;
  };
  struct Question {
    Key asker;
    std::uint32_t serial = 0;
    Uuid uuid{};
    unsigned target = kPaths;  // path that the fence waits for; kPaths: none
    std::uint32_t incarnation = 0;
  };

  RuleContext context() const { return RuleContext{findings_, event_, machine_}; }
  // References stay valid when another path is added.
  Path& path_at(unsigned index) {
    index %= kPaths;
    while (paths_.size() <= index) paths_.push_back(unused_);
    paths_[index].touched = true;
    return paths_[index];
  }
  const Path& path_at(unsigned index) const {
    return index % kPaths < paths_.size() ? paths_[index % kPaths] : unused_;
  }
  Connection* find(const Key& key);
  void resume(const KnownChunk&);
  void input();
  void action();
  // `continued`: true if this is a Continued step and no further Continued step follows.
  void end_step(bool continued);
  void end_path_step(Path& path, unsigned index, bool continued);
  void must_end(Path& path, Rule rule);

  // Defined in server_paths.cpp.
  void on_connection_input();
  void info_requested(Path& path);
  void accept();
  void path_changed();
  void link_changed();
  void release_path();
  void end_session();
  void send_info();
  void fence_requested(Path& path);
  void send_fence_answer();
  void post_imm();
  void probe_delivery();
  void check_silence(const Path&);
  void imm_received(Path& path);
  bool probes(const Path& path) const noexcept;

  // Defined in server_chunks.cpp.
  PossibleStates<Chunk>& chunk_at(std::uint16_t index);
  bool live(const Use& use) const noexcept;
  Chunk ended(Chunk chunk) const;
  // Adds the states that a leaving request may have reached.
  void settle(PossibleStates<Chunk>& chunk) const;
  void request_arrived(Path& path);
  void chunk_invalidated();
  void invalidate_chunk();
  void deliver();
  void responded();
  void post_response();
  void check_response(const Chunk& chunk);
  bool sends_invalidation(const Use& use) const;
  bool may_join_data(const Use& use) const;  // the response may carry the data, if there is any
  bool renews_key(const Use& use) const;     // the chunk's key is invalidated before the request is delivered
  bool owes_response(const PossibleStates<Chunk>&);
  void chunks_end_step();
  void drop_path_users(unsigned index);
  void path_released(unsigned index, std::uint32_t incarnation);
  std::string allowed_now(const PossibleStates<Chunk>& chunk) const;

  Findings& findings_;
  unsigned machine_;
  bool whole_;
  Settings settings_;
  Event event_;
  bool began_ = false;
  bool continued_ = false;  // the last input was Continued
  std::deque<Path> paths_;  // indexed by path, up to the highest path that had an event
  Path unused_;
  std::vector<PossibleStates<Chunk>> chunks_;
  std::vector<std::uint16_t> touched_;  // chunks changed in the current step
  std::vector<Question> questions_;
  std::optional<Event> connect_;  // connect request of the current step, unanswered
  std::uint32_t next_incarnation_ = 0;
  unsigned connected_ = 0;
  std::optional<bool> link_;
  bool counts_known_;
  bool ended_ = false;
};

class RegistrySpec {
 public:
  RegistrySpec(Findings& findings, unsigned machine, bool whole)
      : findings_(findings), machine_(machine), whole_(whole) {}
  void on(const Event&);
  void finish();

 private:
  struct Session {
    bool live = false;
    bool named = false;
    Uuid uuid{};
    std::uint64_t name[2] = {0, 0};
    std::uint64_t identity[2] = {0, 0};
  };
  RuleContext context() const { return RuleContext{findings_, event_, machine_}; }
  Session& session_at(std::uint16_t index);
  static bool is_of(const Session&, const Event& sought);
  void admit();
  void answer_name();
  bool owned_by_other(const Event& claim) const;

  Findings& findings_;
  unsigned machine_;
  bool whole_;
  Event event_;
  std::vector<Session> sessions_;
  std::optional<Event> sought_;
  std::optional<Event> claim_;
};

}  // namespace rtrs::spec
