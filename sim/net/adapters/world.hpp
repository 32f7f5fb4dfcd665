// State of all in-memory adapters and their objects, guarded by one lock.
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sim/net/adapters/conductor.hpp"
#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::mock_hca {

struct Adapter;
struct QueuePair;

// Semaphore made of an eventfd: counts items that a program can wait for.
class Signal {
 public:
  Signal();
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  int fd() const noexcept { return fd_; }
  void give() noexcept;
  // Returns false if the count is 0, with errno EAGAIN.
  bool take() noexcept;
  // Also counts the items in a sum over several signals. Call before the first give(); `sum` must outlive
  // the signal.
  void count_in(std::atomic<unsigned>& sum) noexcept { waiting_ = &sum; }

 private:
  int fd_;
  std::atomic<unsigned> count_{0};
  std::atomic<unsigned>* waiting_ = nullptr;
};

struct Channel : ibv_comp_channel {
  Signal signal;
  std::deque<struct Queue*> ready;
};

// Entry of a completion queue.
struct Entry {
  ibv_wc completion;
  const QueuePair* of;
  std::uint64_t number;  // number of the work request within its queue pair
};

struct Queue : ibv_cq {
  Adapter* adapter = nullptr;
  Channel* via = nullptr;
  int vector = 0;
  std::deque<Entry> entries;
  // Completions that become readable only after the next poll or the one after it. Two polls in a row may
  // thus find nothing; a program that then arms the queue and does not poll again misses the completions.
  std::array<std::deque<Entry>, 2> late;
  bool armed = false;
  bool overrun = false;
  unsigned unacknowledged = 0;
};

struct ThreadDomain : ibv_td {
  unsigned users = 0;
};

struct Domain : ibv_pd {
  unsigned users = 0;
  // For a parent domain: the protection domain of its objects, and the thread domain that uses them.
  Domain* within = nullptr;
  ThreadDomain* thread = nullptr;
};

struct MemoryRegion : ibv_mr {
  int access = 0;
  unsigned windows = 0;
};

struct Window : ibv_mw {
  MemoryRegion* region = nullptr;  // nullptr if not bound
  std::uint64_t start = 0, length = 0;
  unsigned access = 0;
  std::uint32_t live_key = 0;
  std::uint32_t key = 0;          // key of the last completed bind; the next bind must name it
  const QueuePair* of = nullptr;  // type 2: the only queue pair on which the key is valid
};

struct Work {
  ibv_wr_opcode opcode{};
  std::uint64_t number = 0;  // number of the work request within its queue pair
  std::uint64_t id = 0;
  bool signalled = false;
  std::uint32_t imm = 0;
  std::uint32_t key = 0;  // remote key, key to invalidate, or new key of a bind
  std::uint32_t old_key = 0;
  std::uint64_t address = 0;
  std::vector<ibv_sge> parts;
  std::vector<std::byte> inline_bytes;
  bool is_inline = false;
  Window* window = nullptr;
  ibv_mw_bind_info bind{};
};

struct Receive {
  std::uint64_t id = 0;
  std::vector<ibv_sge> parts;
};

// Work requests built with ibv_wr_*() on a queue pair, from ibv_wr_start() until they are posted or aborted.
struct Batch : ibv_qp_ex {
  struct Built {
    ibv_send_wr request{};
    std::vector<ibv_sge> parts;
    std::vector<std::byte> bytes;  // inline data
    std::uint32_t old_key = 0;
  };
  QueuePair* pair = nullptr;
  std::uint64_t ops = 0;
  bool open = false;
  bool wants_data = false;  // the data of the last work request is not set yet
  int error = 0;
  std::deque<Built> built;
};

struct QueuePair : ibv_qp {
  Adapter* adapter = nullptr;
  ibv_qp_cap cap{};
  std::deque<Work> sends;  // posted work that is not carried out yet
  // Work requests that were carried out but not acknowledged; used only with a conductor.
  std::deque<std::pair<Work, ibv_wc_status>> unheard;
  std::deque<Receive> receives;
  // `posted`: number of posted work requests. `released`: number of those that the program knows to have
  // completed, because it has read their completion or a later one.
  std::uint64_t posted = 0, released = 0;
  std::uint32_t held_receives = 0;
  std::uint32_t peer = 0;
  std::uint8_t rnr_retry = 7;
  std::uint8_t ack_timeout = 0, retries = 0, tos = 0, min_rnr_timer = 0;
  unsigned access = 0;
  // Time since which the queue pair waits for a peer that has disappeared; 0: it does not wait.
  std::uint64_t waits_since = 0;
  bool comm_est_raised = false;
  bool ended = false;  // this end sends nothing more
  unsigned unacknowledged = 0;
  std::unique_ptr<Batch> batch;  // set if the queue pair supports ibv_wr_*()
};

// libibverbs expects the table of its newer functions in memory directly before the context.
struct Extension {
  alignas(verbs_context) std::array<std::byte, offsetof(verbs_context, context)> bytes{};
};

struct Context : Extension, ibv_context {
  Adapter* adapter = nullptr;
  bool over = false;  // the adapter was removed after this context was opened
  Signal signal;
  std::deque<ibv_async_event> events;
  std::deque<ibv_async_event> held;  // events that are delivered later
};

struct Identifier;
struct EventChannel : rdma_event_channel {
  Signal signal;
  unsigned host = 0;
  std::uint32_t requests_shown = 0;
  std::deque<rdma_cm_event*> events;
};

struct ManagerEvent : rdma_cm_event {
  std::array<std::byte, 256> data{};
};

struct Identifier : rdma_cm_id {
  enum class State {
    idle,
    listening,
    resolved,
    routed,
    asking,
    asked,
    answered,
    accepted,
    up,
    leaving,
    left,
    over
  };
  State state = State::idle;
  EventChannel* events = nullptr;
  Identifier* listener = nullptr;
  std::uint32_t number = 0;   // never reused
  std::uint32_t peer = 0;     // number of the other end; 0: unknown, or destroyed
  std::uint32_t request = 0;  // server side: number of connect requests on its channel, including this one
  Message last;               // last message, repeated until it is answered
  std::uint32_t qp_num = 0;   // queue pair of this end
  std::uint32_t peer_qp_num = 0;  // known once the request or its answer has arrived
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_asked = 0;    // RNR retries requested from the peer
  std::uint8_t ack_timeout = 0;  // 0: default
  std::uint8_t tos = 0;
  int backlog = 0;
  unsigned unacknowledged = 0;
  const QueuePair* pair = nullptr;  // queue pair qp_num while it exists
  bool reserved_port = false;
  bool in_timewait = false;
  bool of_server = false;
};

struct Adapter {
  Profile profile;
  std::size_t number = 0;
  unsigned host = 0;
  ibv_device device{};
  std::unique_ptr<Context> of_manager;  // context that identifiers refer to
  std::vector<std::unique_ptr<Context>> former;
  bool removed = false;
  bool in_place = false;  // removed without connection manager events; identifiers work again when it returns
  bool port_down = false;
  Counts counts;
  std::size_t leaked = 0;      // objects destroyed after the removal, and therefore leaked
  std::uint32_t next_key = 1;  // counted per adapter, so that keys of two adapters can be equal
  // Keys of destroyed windows, for profiles that reuse numbers.
  std::vector<std::uint32_t> free_keys;
};

struct World {
  std::mutex lock;
  // Number of items of all signals of a host. Declared before all objects with signals, so that it outlives
  // them.
  std::map<unsigned, std::atomic<unsigned>> waiting;
  std::vector<std::unique_ptr<Adapter>> adapters, former;
  std::vector<std::string> problems;
  std::atomic<bool> has_problems{false};  // read without the lock, after each call of a fabric
  std::set<Context*> contexts;
  std::set<Domain*> domains;
  std::set<ThreadDomain*> thread_domains;
  std::set<Channel*> channels;
  std::set<Queue*> queues;
  std::set<EventChannel*> event_channels;
  std::set<Identifier*> identifiers;
  std::map<std::uint32_t, Identifier*> numbered;  // identifiers by number, in order of creation
  // Last message to each client whose connection has ended on this side, because a repeated request must be
  // treated as a duplicate.
  std::map<std::pair<unsigned, std::uint32_t>, Message> answered;
  std::set<ManagerEvent*> shown;
  // Regions by adapter and key. The local and the remote key of a region are equal.
  std::map<std::pair<const Adapter*, std::uint32_t>, MemoryRegion*> regions;
  std::set<Window*> windows;
  std::map<std::uint32_t, QueuePair*> queue_pairs;
  QueuePair* last_queue_pair = nullptr;
  std::uint32_t next_queue_pair = 17;
  std::uint32_t next_identifier = 1;
  std::uint16_t next_port = 40000;
  unsigned shortage_after = 0, shortage_count = 0, shortage_wanted = 0;
  std::vector<std::size_t> holders;             // adapter that currently owns the addresses of each adapter
  std::set<std::uint32_t> in_timewait;          // queue pair numbers
  std::optional<bool> destroys_without_device;  // RDMAV_ALLOW_DISASSOC_DESTROY at the first use
  unsigned rtus_to_lose = 0, stale_rejects = 0;
  int batch_refusal = 0;
  bool hostile = false;
  std::mt19937_64 chance;
  Conductor* conductor = nullptr;
  unsigned host = 0;      // host of the current calls
  bool carrying = false;  // work is being carried from one end to the other
  // Hosts whose processes were killed: messages from the destruction of their objects are dropped.
  std::set<unsigned> severed;

  // Returns nullptr if there is no region with this key.
  MemoryRegion* region(const ibv_pd*, std::uint32_t key) const;
  void problem(std::string text) {
    problems.push_back(std::move(text));
    has_problems = true;
  }
  // Called before an object is created: true if the creation must fail; sets errno.
  bool allocation_fails();
  // Returns a random number from 0 to count - 1.
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(chance() % count); }
  bool allocation_fails(const ibv_context*);
  // Returns the result of a destroy call: EIO if the adapter was removed and the object is therefore leaked.
  int given_back(const ibv_context*);
};
bool is_over(const ibv_context*);
World& world();
// Appends an element. With a hostile profile, inserts the element at a random place behind the last element
// that it must not overtake.
template <class T, class MayNotOvertake>
void put(std::deque<T>& queue, T one, MayNotOvertake stays_behind);
std::unique_ptr<Context> make_context(Adapter&);
std::uint64_t clock_now();

// --- defined in queue_pair.cpp; require the lock ---
void kick(QueuePair&);
void kick_all();
// Delivers a random number of held asynchronous events.
void deliver_held_events();
void fail(QueuePair&);
// Ends the pending sends of a queue pair that is destroyed.
void end_sends(QueuePair&);
enum class Step { done, waits, no_receive, failed };
// Executes the first send but does not complete it.
Step carry_out(QueuePair&, ibv_wc_status&);
void finish(QueuePair&, const Work&, ibv_wc_status);
// True if the other end rejected a work request and this end has not been notified yet.
bool awaits_rejection(const QueuePair&);
void complete(Queue&, const Entry&);
void raise(Adapter&, const ibv_async_event&);
// Returns the counter of unacknowledged events of the object that the event names; nullptr if it names none.
unsigned* unacknowledged_of(const ibv_async_event&);
// Drops unread events of an object that is destroyed.
void forget_events(Adapter&, const void* object);
int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
// Posts work requests for ibv_post_send() and ibv_wr_complete().
int post_work(QueuePair&, ibv_send_wr*, ibv_send_wr**);
// Posts one work request. `old_key`: for a bind, the previous key of its window.
int post_one(QueuePair&, const ibv_send_wr&, std::uint32_t old_key);
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
int bind_mw(ibv_qp*, ibv_mw*, ibv_mw_bind*);
int poll_cq(ibv_cq*, int count, ibv_wc*);
int req_notify_cq(ibv_cq*, int);
// --- defined in objects.cpp ---
void offer_thread_domains(Context&);
// Detaches a domain that is destroyed from its parent domains.
void leave_parents(Domain&);
// Returns the protection domain against which keys are checked.
const ibv_pd* protection_of(const ibv_pd*);
// --- defined in calls.cpp ---
void offer_calls(Context&);
// Records a problem if another call uses the queue pair before its batch ends: real libraries hold a lock
// then.
void check_no_batch(const QueuePair&, const char* call);
// --- defined in windows.cpp ---
QueuePair* make_queue_pair(ibv_pd*, ibv_qp_init_attr&);
ibv_mw* alloc_mw(ibv_pd*, ibv_mw_type);
int dealloc_mw(ibv_mw*);

template <class T, class MayNotOvertake>
void put(std::deque<T>& queue, T one, MayNotOvertake stays_behind) {
  std::size_t first = queue.size();
  if (world().hostile)
    while (first > 0 && !stays_behind(queue[first - 1])) --first;
  const std::size_t at = first + (first == queue.size() ? 0 : world().pick(queue.size() - first + 1));
  queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(at), std::move(one));
}

// --- defined in messages.cpp; require the lock ---
inline constexpr std::uint8_t kRequestData = 56, kAnswerData = 196, kRejectData = 148;
// Values of enum ib_cm_rej_reason.
inline constexpr int kTimeout = 4, kNoSuchService = 8, kStale = 10, kByConsumer = 28, kVendorOption = 35;
// Delivers a connection manager event.
void tell(Identifier&, rdma_cm_event_type, int status = 0, std::span<const std::byte> data = {},
          std::uint8_t field = 0);
Identifier& make_identifier(EventChannel&, void* context, rdma_port_space);
// Returns nullptr if the identifier was destroyed.
Identifier* find(std::uint32_t identifier);
void say(Identifier&, Message);
void hear(const Message&);
// Informs the other end that this end is destroyed or sends nothing more.
void leave(Identifier&);
// --- defined in faults.cpp; requires the lock ---
void enter_timewait(Identifier&);

}  // namespace rtrs::mock_hca
