// Client side of a session: which actions the state machine may take, given its inputs.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/spec/connection.hpp"
#include "conformance/spec/findings.hpp"
#include "conformance/spec/heartbeat.hpp"
#include "conformance/spec/possible_states.hpp"

namespace rtrs::spec {

struct KnownRequest;
struct KnownSession;

class ClientSpec {
 public:
  // `settings` is null if the beginning was not seen; then any state is possible until events rule it out.
  ClientSpec(Findings& findings, unsigned machine, const Settings* settings);
  // Call before the first event of a trace that begins in the middle of a run.
  void resume(const KnownSession&);
  void on(const Event&);
  // Call after the last step.
  void finish();

 private:
  static constexpr unsigned kPaths = 128;
  struct Path {
    PathState state = PathState::unknown;
    std::vector<Connection> cons;  // connections of the current attempt
    std::uint32_t epoch = 0;       // 0: no attempt was seen
    std::uint16_t cid_num = 0;
    std::uint16_t recon_cnt = 0;
    bool attempted = false;  // an attempt was made since the path was added
    bool came_up = false;    // connected since the path was added
    bool info_sent = false;
    bool fresh_keys = false;
    bool fence = false;
    bool generations = false;
    bool probe = false;
    bool joins_data = false;
    std::uint32_t proven = 0;  // the server has closed all incarnations up to this one
    Heartbeat heartbeat;
    std::uint32_t flying = 0;  // requests in flight
    std::optional<Time> latency{
        0};  // time of the last heartbeat since the path connected; 0: none yet; empty: unknown
    // State of the current step:
    bool touched = true;    // the step may have changed the path, or one of its checks is postponed
    bool must_end = false;  // an event says that the path is lost
    Rule must_end_rule = Rule::path_teardown;
    bool ended = false;  // the path left the states connecting and connected
    bool info_accepted = false;
    // challenged: the server asks for a proof of the key. answers: the next attempt carries the proof.
    bool challenged = false;
    bool answers = false;
  };
  enum class Phase : std::uint8_t { free, queued, flying, answered, held, again, abandoned };
  struct Slot {
    Phase phase = Phase::free;
    bool invalidated = false;
    std::uint16_t path = 0;  // flying: path in use; held: path that was lost; again: path for the resend
    std::uint16_t con = 0;
    std::uint32_t epoch = 0;
    std::uint16_t error = 0;  // answered: errno
    Time since = 0;           // queued, held: start of the wait
    Time sent = 0;            // flying, held: time of the last post
    Time first = 0;           // flying, held, again: time of the first post
    bool operator==(const Slot&) const = default;
  };
  struct Permit {
    PossibleStates<Slot> slot;
    std::optional<std::uint8_t> generation;  // generation of the last use on the wire
    bool described = false;                  // the fields below are known
    bool service = false;
    bool reads = false;
    bool fresh = false;       // submitted but not posted yet
    std::uint64_t order = 0;  // position among all submitted requests
    std::uint16_t affinity = 0;
    bool offers_invalidation = false;
    std::uint32_t data_len = 0;
    std::uint32_t usr_len = 0;
  };
  struct Question {
    Key over;
    std::uint32_t serial = 0;
    std::uint16_t path = 0;
    std::uint32_t epoch = 0;
  };

  RuleContext context() const { return RuleContext{findings_, event_, machine_}; }
  Path& path_at(unsigned index);
  Connection* find(const Key& key);
  Permit& permit_at(std::uint16_t id);
  bool grants_fence(const Path& path) const noexcept { return path.fence; }
  std::uint16_t depth() const noexcept;

  void resume(const KnownRequest&);
  void input();
  void action();
  // `continued`: true if this is a Continued step and no further Continued step follows.
  void end_step(bool continued);
  void end_path_step(Path& path, unsigned index, bool continued);
  std::string allowed_now(const Permit& permit) const;

  // Defined in client_paths.cpp.
  void on_connection_input();
  void connected(Path& path);
  void info_accepted(Path& path);
  void connect();
  void disconnect();
  void send_info();
  void path_changed();
  void challenged(Path& path, PathState from, PathState to);
  void link_changed();
  void release_path();
  void end_session();
  void must_end(Path& path, Rule rule);
  void fence_asked();
  void fence_answered(Path& path);

  // Defined in client_requests.cpp.
  void submitted();
  void imm_received(Path& path);
  void keyed_response(Path& path);
  void key_invalidated(Path& path);
  void response(Path& path);
  void forget_flights();
  void post_request();
  bool move_to_flight(Permit& permit);
  void check_request(const Path& path, Permit& permit);
  bool result_fits(const Slot& slot) const;
  bool exceeds_both_timeouts(const Slot& slot, Time now) const;
  bool failed_in_time(const Slot& slot) const;
  void complete();
  void failed_over();
  void store_key();
  void post_imm();
  void probe_delivery();
  bool outstanding(const Key& key) const;
  void note_outstanding();
  void check_silence(const Path& path);
  void hold(unsigned path);

  // Defined in client_choice.cpp.
  bool has_room(const Path& path, const Permit& permit) const;
  bool is_preferred(unsigned index, unsigned other) const;
  void check_choice(const Permit& permit);
  void check_affinity(const Path& path, const Permit& permit);
  void check_order(Permit& permit, Connection& con);

  Findings& findings_;
  unsigned machine_;
  bool whole_;  // the trace contains the beginning
  Settings settings_;
  Event event_;
  bool began_ = false;
  bool continued_ = false;  // the last input was Continued
  std::vector<Path> paths_;
  std::vector<Permit> permits_;
  std::vector<Question> questions_;
  bool opened_ = false;
  std::uint16_t queue_depth_ = 0;  // 0: unknown
  std::uint32_t max_io_size_ = 0;
  std::uint32_t max_hdr_size_ = 0;
  unsigned connected_ = 0;
  std::optional<unsigned> turn_ = 0;  // next path of round-robin; empty: unknown
  std::uint64_t submitted_ = 0;       // number of submitted requests
  std::optional<bool> link_;
  bool counts_known_;
  bool closing_ = false;
  bool ended_ = false;
  // State of the current step:
  std::optional<std::uint16_t> answered_;  // permit that must be completed
  bool key_due_ = false;
  Event keyed_;
  std::optional<std::uint16_t> just_submitted_;
};

}  // namespace rtrs::spec
