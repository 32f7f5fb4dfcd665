// One simulated run: real clients and a real server over a simulated network, with storage, load, faults and
// the oracles that watch them. A seed gives the scenario and everything that is drawn while it plays; time
// moves only from event to event. Phases: connect and load under faults; all faults end and everything must
// become well within the bounds; nothing under way: the books are checked; close; empty.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/keyed/keyed_fabric.hpp"
#include "core/record/live_records.hpp"
#include "core/record/recorder.hpp"
#include "sim/choices/choice.hpp"
#include "sim/cluster/endpoints.hpp"
#include "sim/cluster/fault_filter.hpp"
#include "sim/cluster/gate_watch.hpp"
#include "sim/cluster/journal.hpp"
#include "sim/cluster/named_fabric.hpp"
#include "sim/cluster/other_server.hpp"
#include "sim/cluster/scenario.hpp"
#include "sim/cluster/storage_model.hpp"
#include "sim/cluster/watched_fabric.hpp"
#include "sim/cluster/world_run.hpp"
#include "sim/faults/faults.hpp"
#include "sim/network/lying_fabric.hpp"
#include "sim/network/net.hpp"
#include "sim/network/preflush_fabric.hpp"
#include "sim/network/sim_fabric.hpp"
#include "sim/oracles/client_promises.hpp"
#include "sim/oracles/close_watch.hpp"
#include "sim/oracles/data_integrity.hpp"
#include "sim/oracles/exactly_once.hpp"
#include "sim/oracles/heartbeat_watch.hpp"
#include "sim/oracles/io_book.hpp"
#include "sim/oracles/judge.hpp"
#include "sim/oracles/key_hygiene.hpp"
#include "sim/oracles/link_watch.hpp"
#include "sim/oracles/pathless_wait.hpp"
#include "sim/oracles/slot_exclusivity.hpp"

namespace rtrs::sim {

class World : private ServerUser {
  friend class BlockWorld;  // drive it by hand
  friend class StreamPlay;

 public:
  World(const WorldOptions&, ChoiceSource&);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() override;

  // A broken invariant of a machine ends the program; the traces are complete up to the step that broke it.
  // Only one world runs at a time in a process.
  WorldResult run();
  const Scenario& scenario() const noexcept { return scenario_; }
  std::string describe() const;  // it, and what the network has drawn
  const Journal& journal() const noexcept { return journal_; }
  Nanos now() const noexcept { return network_.now(); }

 private:
  struct Node;
  // By the clock of the node.
  Nanos now(const Node& node) const noexcept { return node.clock.local_time(now()); }

  struct Node {
    NodeId id = 0;
    bool up = false;
    Nanos paused_until = 0;
    ClockRate clock;
    unsigned fruitless = 0;  // polls in a row that came too early, at one time
    unsigned overdue = 0;    // polls in a row that left a timer due
    std::unique_ptr<Fabric> sim;
    std::unique_ptr<LyingFabric> lies;   // null for an honest node
    std::unique_ptr<NamedFabric> names;  // null: this world has no host names
    std::unique_ptr<PreflushFabric> preflushes;
    std::unique_ptr<GateWatch> gate;            // of a server that asks for keys; otherwise null
    std::unique_ptr<keyed::KeyedFabric> keyed;  // null: this world has no keys
    std::unique_ptr<WatchedFabric> fabric;
    std::unique_ptr<Recorder> recorder;
    std::unique_ptr<HeartbeatWatch> hearts;
    unsigned starts = 0;
    std::optional<CloseWatch> closing;  // it was told to close
    bool comes_back = false;            // after that
  };
  static constexpr std::uint32_t kMaxUnits = kLongestRequest;  // of a request
  struct Buffer {
    std::uint32_t io = 0;  // the last user; 0: none yet
    bool busy = false;
    std::uint64_t left = 0;  // digest when its last request was over
    std::span<std::byte> bytes;
  };
  // A request that a script asks for, in sectors or, on a block device, in blocks.
  struct Wanted {
    Direction direction = Direction::write;
    std::uint32_t units = 1;
    std::uint32_t first = 0;
    bool service = false;
    std::uint16_t affinity = 0;
  };
  enum class Operation : std::uint8_t { disconnect, reconnect, remove, add, policy, drop, recover };
  struct ClientNode : Node {
    std::unique_ptr<ClientEnd> driver;
    std::unique_ptr<DiskBook> disks;  // of an application over block devices; otherwise null
    std::unique_ptr<LinkWatch> links;
    std::unique_ptr<ClientPromises> promises;
    Nanos last_connected = 0;  // one of its paths
    PathlessWait without_path;
    Nanos without_permits_since = kNever;  // all of them are given up
    std::vector<Buffer> buffers;
    std::vector<std::unique_ptr<std::vector<std::byte>>> memory;  // of every start: late writes may land
    RegionId region = kNoRegion;
    std::uint32_t left = 0;  // requests still to submit
    std::uint32_t under_way = 0;
    Nanos next_submit = 0;
    std::deque<Wanted> wanted;
    std::deque<Step> disk_steps;                    // of the script, for the application over disks
    std::vector<PathAddress> missing;               // removed paths that are to be added again
    std::array<PathAddress, kMaxPaths> address_of;  // by path
    std::uint64_t failovers_seen = 0;
    std::array<std::uint64_t, kMaxPaths> lost_for{};  // a bit for each Reason
    std::uint32_t losses = 0;                         // of connected paths
    std::uint32_t reads_under_way = 0;
    bool probing = false;
    bool link_lost_once = false;
    bool leaving = false;  // a script had it close
    bool at_two_servers = false;
  };
  struct ServerNode : Node {
    std::unique_ptr<ServerEnd> driver;
    std::vector<StorageModel::Op> answers;  // of storage, while the process was paused
    std::vector<std::uint32_t> session_of;  // client by session index
    std::vector<bool> session_up;
    std::vector<unsigned> came_up;        // paths of the session, by its index
    std::vector<PathState> path_state;    // by the path of its ConKeys
    std::vector<std::uint64_t> lost_for;  // by link, a bit for each Reason
    bool retired = false;                 // a script had it close
  };

  // What a hung connection withholds, and since when; kNever: nothing.
  struct Withheld {
    QpId qp = kNone;                               // the client's end
    Nanos by_client = kNever, by_server = kNever;  // what each side has to notice
    Nanos of_fence = kNever;                       // a fence or its answer
    std::uint32_t fences_over = 0;                 // of those, that nobody waits for any more
  };

  // Opens sessions while it lasts and completes none.
  struct Stranger {
    NodeId id = kNone;
    std::unique_ptr<Fabric> sim;  // null: there was no crowd yet
    Fabric* bare = nullptr;       // the same without a key
    std::vector<ConKey> open;
    std::uint32_t requests = 0;
    Nanos next = kNever;
    Nanos until = 0;
  };

  // world.cpp: set-up and time
  void record(Node&, const char* role, const std::string& file);
  std::unique_ptr<Fabric> open_fabric(NodeId);
  // world_keys.cpp
  keyed::SharedKey shared_key(std::uint32_t client) const;
  void ask_for_keys(Fabric& outlet);
  void prove_key(ClientNode&, Fabric&outlet), resolve_names(ClientNode&);
  void give_stranger_a_wrong_key();
  bool play_again(std::span<std::byte> request);
  void start_server(), start_client(std::uint32_t index);
  Nanos next_time();
  bool step();
  void check_laws(), poll_nodes();
  void watch_timer(Node&, Nanos timer);
  std::unique_ptr<HeartbeatWatch> watch_of(const Node&, HeartbeatConfig);
  // `deadline`: by the clock of the node.
  bool due(const Node&, Nanos deadline) const;
  Nanos wake(const Node&, Nanos deadline, Nanos timer) const;
  void faults_due(), operator_due(), recover_due();
  std::uint64_t place_of(const Strike&) const;
  void watch_hung();
  std::uint32_t withheld_messages(const ClientNode&, QpId) const;
  void watch_fence(const ClientNode&, Withheld&);
  bool has_nothing_to_do(const Node&, Nanos deadline) const;
  void check_idle(Nanos until);
  void carry_out(const WorldFault&);
  void recover(ClientNode&), operate(ClientNode&);
  void operate(ClientNode&, Operation, std::uint32_t path);
  void add_missing(ClientNode&), remove(ClientNode&, std::uint32_t path);
  // world_names.cpp
  PathAddress address(std::uint32_t client, std::uint32_t path) const;
  void kill_addresses(bool at_the_end);
  bool has_events(const Node&) const noexcept;

  // world_client.cpp
  bool poll_client(std::uint32_t index);
  void client_news(ClientNode&, std::uint32_t index);
  void check_one_server(ClientNode&, unsigned path);
  bool leads_astray(const ClientNode&, unsigned path) const;
  unsigned paths_that_came_up(const ClientNode&, bool astray) const;
  void client_path_event(ClientNode&, std::uint32_t index, const PathEvent&);
  bool path_in_motion() const;
  void finished(ClientNode&, std::uint32_t index, const IoCompletion&);
  void check_waits(ClientNode&, std::uint32_t index, Nanos slack);
  std::array<Nanos, kMaxPaths> waiting_since(const ClientNode&) const;
  ClientPromises::Before before_poll(const ClientNode&) const;
  void check_read(Buffer&, BookedIo&, std::uint32_t io);
  void submit_due(std::uint32_t index);
  bool submit_one(ClientNode&, std::uint32_t index);
  // Whether its application submits now: the session itself takes requests only while a path is connected.
  bool takes_requests(const ClientNode& client) const {
    return scenario_.workload.block_device || disks_ != nullptr || client.driver->session().link_up() ||
           (scenario_.submits_always && client.driver->session().depth() != 0);
  }
  // What requests are made of: a sector, or a block.
  std::uint32_t unit() const noexcept { return scenario_.workload.block_device ? kSectorsPerBlock : 1; }
  std::size_t max_io_bytes() const noexcept { return std::size_t{kMaxUnits} * unit() * kSectorBytes; }
  Wanted draw_request();
  void submit(ClientNode&, std::uint32_t index, Buffer&, const Wanted&);
  Buffer* free_buffer(ClientNode&);
  void failover_marks(ClientNode&);
  // Of the state now, and of those between steps, where they are recorded.
  void check_invariants(const Node&, const char* broken);
  void check_attempt(const Node&, std::size_t path, bool same_attempt);
  void client_reason(ClientNode&, const PathChanged&, bool was_connected);

  // world_server.cpp
  bool poll_server();
  void server_news();
  void server_path_event(const PathEvent&);
  void server_reason(std::size_t path, Reason, Nanos at);
  LinkId server_link(std::size_t path) const;
  void session_opened(std::uint16_t session, std::string_view name) override;
  void session_closed(std::uint16_t session) override;
  void raw_request(const ServerEvent&) override;
  void block_request(const block::StartStorage&) override;
  void begin_storage(const StorageModel::Op&);
  void served_nameless(const StorageModel::Op&);
  bool belongs_to(const block::StartStorage&, std::uint32_t io) const;
  std::uint32_t request_of(const block::StartStorage&) const;
  void storage_due();
  void spoil(const StorageModel::Op& op);
  void effect(const StorageModel::Op&);
  void refuse(const StorageModel::Op&, std::uint16_t error);
  bool is_written_by(std::span<const std::byte> data, std::uint64_t lba, std::uint32_t io) const;
  void server_marks();
  std::uint32_t client_named(std::string_view name) const;

  // world_disks.cpp
  void make_disks();
  Nanos disks_time() const noexcept;
  void disks_due();
  void act_on_disks(ClientNode&);
  void disk_steps_due(ClientNode&);
  void disk_step(const Step&);
  void disk_result(ClientNode&);
  void disks_die(NodeId), change_disks(), delay_disks();
  std::size_t in_storage() const noexcept;
  bool devices_open();
  void check_closed_disks();

  // world_closings.cpp
  void begin_close(ClientNode&), begin_shutdown();
  void closings_due();
  void close_somebody();
  bool finish_closings();

  void draw_limits(), settle_limits(), restart_now(NodeId);  // world_limits.cpp

  // world_crowd.cpp
  void crowd_begins(Nanos until);
  Nanos crowd_time() const noexcept;
  void crowd_due();
  void send_stray_request();

  // world_script.cpp
  LinkId link_of(const Step&);
  ClientNode* client_of(const Step&);
  std::uint32_t server_connections(LinkId, bool connected_only);
  bool has_come(const Step&);
  Nanos script_time() const;
  void script_due();
  void carry_out(const Step&);
  void network_step(const Step&);
  void node_step(const Step&);
  void operator_step(const Step&);
  bool follow_script();
  void restart_all();

  // world_acts.cpp
  bool has_happened(const Step&);
  void act(const Step&);
  void leave(ClientNode&);
  void rejoin(ClientNode&);
  void inject(const Step&);
  void let_go(ClientNode&);
  // The session of this client has a liar at one end.
  bool lied_to(std::uint32_t client) const noexcept {
    return scenario_.liar == 0 || scenario_.liar == client + 1;
  }
  bool honest() const noexcept { return scenario_.fenced && scenario_.liar == kNone; }

  // world_marks.cpp
  void counted_marks();
  void shape_marks();
  void load_marks(const BookedIo&, std::uint32_t io);
  void moved_marks(const BookedIo&);
  void note_pairs();
  void reason_marks(Reason at_server);
  PathState server_state(LinkId);

  // world_phases.cpp
  void play();
  bool run_until(Nanos time);
  bool run_while(Nanos deadline, const std::function<bool()>& done);
  void heal();
  void kill_links(), cut_living();
  bool connects_in_time();
  // The link of this path of the client is dead for good by now.
  bool is_dead(const ClientNode&, unsigned path) const;
  bool lives(const ClientNode&, std::uint32_t port) const;
  std::uint32_t living_paths(const ClientNode&) const;
  bool may_remove(const ClientNode&, std::uint32_t path) const;
  bool all_connected();
  bool nothing_under_way();
  std::size_t backlog() const;
  bool work_off_backlog(Nanos each);
  bool exhausted(const ClientNode&) const;
  bool keeps_permits(const ClientNode&, unsigned path) const;
  bool remove_path_that_keeps_permits();
  bool requests_end(Nanos each);
  void liveness();
  void probe();
  void disconnect_dead();
  void check_books();
  void close();
  std::string unfinished();
  void stalled(const std::string& what);
  void fold_final_state(), end_processes();
  void save_traces() noexcept;
  void note_trace(int error, const std::string& file);
  void complete_traces();
  std::string trace_path(const std::string& node) const { return options_.trace + "." + node + ".rtrc"; }

  void note(Journal::Kind kind, std::uint32_t node, std::uint64_t a = 0, std::uint64_t b = 0,
            std::uint64_t c = 0) {
    journal_.add(Journal::Entry{now(), kind, node, a, b, c});
  }

  WorldOptions options_;
  ChoiceSource& choice_;
  Scenario scenario_;
  std::unique_ptr<Net> owned_network_;
  Net& network_;
  FaultDriver faults_;
  Judge judge_;
  Journal journal_;
  std::string trace_file_;  // the first that could not be written
  int trace_errno_ = 0;
  IoBook book_;
  ExactlyOnce once_;
  SlotExclusivity slots_;
  DataIntegrity integrity_;
  // Without a fence: a request failed unanswered, and its chunk is another one's while storage may have it.
  bool chunks_given_up_ = false;
  std::vector<bool> spoiled_;  // sectors that storage wrote from a chunk that was another request's by then
  KeyHygiene keys_;
  StorageModel storage_;
  std::unique_ptr<Disks> disks_;  // null: the load is not one of such devices
  ServerNode server_;
  std::vector<std::unique_ptr<ClientNode>> clients_;
  Stranger stranger_;
  std::unique_ptr<OtherServer> other_server_;  // null: there is none
  std::vector<WorldFault> world_faults_;
  Nanos next_operation_ = kNever, next_closing_ = kNever, next_recovery_ = kNever;
  bool script_on_ = false;
  std::size_t script_at_ = 0;  // the step that is next
  Nanos script_since_ = 0;     // when the one before was over
  std::uint64_t deliveries_ = 0, completions_ = 0, errors_ = 0;
  std::uint32_t last_answered_ = 0;
  bool links_killed_ = false;
  std::vector<std::uint32_t> open_ios_;  // of all clients
  std::array<std::array<bool, kPathStates>, kPathStates> pairs_{};
  std::uint64_t steps_at_once_ = 0;
  std::vector<Withheld> withheld_;
  bool reconfigured_ = false;        // the server came back otherwise
  std::optional<Death> next_death_;  // of the server; nothing: drawn
  bool healed_ = false;              // the faults are over
  bool closing_ = false;             // the run is at its end
  ServerConfig usual_server_;        // with the limits that it has in the end
  bool stalled_ = false;
  bool exhausted_ = false;
  bool script_stuck_ = false;
  std::uint64_t hash_ = 0;
};

}  // namespace rtrs::sim
