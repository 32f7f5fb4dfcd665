// The adapters and all that was made of them. One lock over everything.
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

#include "conformance/mock_hca/conductor.hpp"
#include "conformance/mock_hca/mock_hca.hpp"

namespace rtrs::mock_hca {

struct Adapter;
struct QueuePair;

// A number of things to take, which a program can wait for: a semaphore of eventfd.
class Signal {
 public:
  Signal();
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  int fd() const noexcept { return fd_; }
  void give() noexcept;
  // False: nothing there (errno says EAGAIN).
  bool take() noexcept;
  bool is_there() const noexcept { return count_ != 0; }

 private:
  int fd_;
  std::atomic<unsigned> count_{0};
};

struct Channel : ibv_comp_channel {
  Signal signal;
  std::deque<struct Queue*> ready;
};

// In a completion queue.
struct Entry {
  ibv_wc completion;
  const QueuePair* of;
  std::uint64_t number;  // of the work request, among those of its queue pair
};

struct Queue : ibv_cq {
  Adapter* adapter = nullptr;
  Channel* via = nullptr;
  int vector = 0;
  std::deque<Entry> entries;
  // Written right after the last look at the queue, and after the one before: two looks in a row find
  // nothing, and what a program that arms the queue after them never hears of is there.
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
  // Of a parent domain: where its objects are protected, and the thread that uses them.
  Domain* within = nullptr;
  ThreadDomain* thread = nullptr;
};

struct MemoryRegion : ibv_mr {
  int access = 0;
  unsigned windows = 0;
};

struct Window : ibv_mw {
  MemoryRegion* region = nullptr;  // nullptr: not bound
  std::uint64_t start = 0, length = 0;
  unsigned access = 0;
  std::uint32_t live_key = 0;
  std::uint32_t key = 0;  // that of its last binding that was carried out, which the next one has to name
  const QueuePair* of = nullptr;  // type 2: the only one it is good on
};

struct Work {
  ibv_wr_opcode opcode{};
  std::uint64_t number = 0;  // among those of its queue pair
  std::uint64_t id = 0;
  bool signalled = false;
  std::uint32_t imm = 0;
  std::uint32_t key = 0;  // remote, to be invalidated, or new
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

// What is posted by ibv_wr_*() to a queue pair: from ibv_wr_start() on, until it is posted or thrown away.
struct Batch : ibv_qp_ex {
  struct Built {
    ibv_send_wr request{};
    std::vector<ibv_sge> parts;
    std::vector<std::byte> bytes;  // inline
    std::uint32_t old_key = 0;
  };
  QueuePair* pair = nullptr;
  std::uint64_t ops = 0;
  bool open = false;
  bool wants_data = false;  // the last one that was built
  int error = 0;
  std::deque<Built> built;
};

struct QueuePair : ibv_qp {
  Adapter* adapter = nullptr;
  ibv_qp_cap cap{};
  std::deque<Work> sends;  // not carried out
  // Carried out, and no word of it has come back. Only where a conductor leads.
  std::deque<std::pair<Work, ibv_wc_status>> unheard;
  std::deque<Receive> receives;
  // Work requests, and those of them that a completion was read of, or of one behind them.
  std::uint64_t posted = 0, released = 0;
  std::uint32_t held_receives = 0;
  std::uint32_t peer = 0;
  std::uint8_t rnr_retry = 7;
  std::uint8_t ack_timeout = 0, retries = 0, tos = 0, min_rnr_timer = 0;
  unsigned access = 0;
  std::uint64_t waits_since = 0;  // for a peer that is gone; 0: it does not
  bool told_of_data = false;
  bool ended = false;  // nothing more of it leaves
  unsigned unacknowledged = 0;
  std::unique_ptr<Batch> batch;  // where it takes ibv_wr_*()
};

// What libibverbs knows of newer adapters stands before their context.
struct Extension {
  alignas(verbs_context) std::array<std::byte, offsetof(verbs_context, context)> bytes{};
};

struct Context : Extension, ibv_context {
  Adapter* adapter = nullptr;
  bool over = false;  // opened before its adapter was taken out
  Signal signal;
  std::deque<ibv_async_event> events;
  std::deque<ibv_async_event> held;  // told later
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
  std::uint32_t number = 0;       // never used again
  std::uint32_t peer = 0;         // number of the other end; 0: it is not known, or not there any more
  std::uint32_t request = 0;      // of a server's end: how many requests its channel had shown with this one
  Message last;                   // said last, and said again until there is an answer
  std::uint32_t qp_num = 0;       // of this end
  std::uint32_t peer_qp_num = 0;  // known from the request or its answer on
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_asked = 0;    // of the peer
  std::uint8_t ack_timeout = 0;  // 0: as usual
  std::uint8_t tos = 0;
  int backlog = 0;
  unsigned unacknowledged = 0;
  const QueuePair* pair = nullptr;  // of qp_num, as long as it exists
  bool reserved_port = false;
  bool in_timewait = false;
  bool of_server = false;
};

struct Adapter {
  Profile profile;
  std::size_t number = 0;
  unsigned host = 0;
  ibv_device device{};
  std::unique_ptr<Context> of_manager;  // which identifiers show
  std::vector<std::unique_ptr<Context>> former;
  bool removed = false;
  bool in_place = false;  // it was not removed for the manager, whose identifiers are good when it is back
  bool port_down = false;
  Counts counts;
  std::size_t leaked = 0;      // objects that were given back in vain, because it is gone
  std::uint32_t next_key = 1;  // each adapter has its own: two have equal ones
  // Of windows that are gone, where numbers are used again.
  std::vector<std::uint32_t> free_keys;
};

struct World {
  std::mutex lock;
  std::vector<std::unique_ptr<Adapter>> adapters, former;
  std::vector<std::string> problems;
  std::set<Context*> contexts;
  std::set<Domain*> domains;
  std::set<ThreadDomain*> thread_domains;
  std::set<Channel*> channels;
  std::set<Queue*> queues;
  std::set<EventChannel*> event_channels;
  std::set<Identifier*> identifiers;
  std::map<std::uint32_t, Identifier*> numbered;  // the same, in the order in which they were made
  // What the host said to clients whose connection is over here already: a request that comes once more is an
  // old one.
  std::map<std::pair<unsigned, std::uint32_t>, Message> answered;
  std::set<ManagerEvent*> shown;
  std::map<std::pair<const Adapter*, std::uint32_t>, MemoryRegion*>
      regions;  // by key, local and remote alike
  std::set<Window*> windows;
  std::map<std::uint32_t, QueuePair*> queue_pairs;
  QueuePair* last_queue_pair = nullptr;
  std::uint32_t next_queue_pair = 17;
  std::uint32_t next_identifier = 1;
  std::uint16_t next_port = 40000;
  unsigned shortage_after = 0, shortage_count = 0, shortage_wanted = 0;
  std::vector<std::size_t> holders;             // of addresses: whose those of each adapter are now
  std::set<std::uint32_t> in_timewait;          // numbers of queue pairs
  std::optional<bool> destroys_without_device;  // as the environment said at the first use
  unsigned rtus_to_lose = 0, stale_rejects = 0;
  int batch_refusal = 0;
  bool hostile = false;
  std::mt19937_64 chance;
  Conductor* conductor = nullptr;
  unsigned host = 0;      // which calls come from
  bool carrying = false;  // work of one end to the other
  // Hosts whose processes are dead: what their objects do as they go reaches nobody.
  std::set<unsigned> severed;

  // nullptr: there is none under this key.
  MemoryRegion* region(const ibv_pd*, std::uint32_t key) const;
  void problem(std::string text) { problems.push_back(std::move(text)); }
  // What makes an object asks first. errno is set.
  bool falls_short();
  // One of 0 .. count - 1.
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(chance() % count); }
  bool falls_short(const ibv_context*);
  // What giving an object back, which is done by now, answers.
  int given_back(const ibv_context*);
};
bool is_over(const ibv_context*);
World& world();
// At the end; among hostile adapters anywhere behind the last that it may not overtake.
template <class T, class MayNotOvertake>
void put(std::deque<T>& queue, T one, MayNotOvertake stays_behind);
std::unique_ptr<Context> make_context(Adapter&);
std::uint64_t clock_now();

// --- of queue_pair.cpp, under the lock ---
// Carries out what can be, on this queue pair and on those that wait for it.
void kick(QueuePair&);
void kick_all();
// Asynchronous events that were held back, as chance has it.
void tell_held();
void fail(QueuePair&);
// What is on its way as the queue pair ends.
void end_sends(QueuePair&);
enum class Step { done, waits, no_receive, failed };
// Does not finish it.
Step carry_out(QueuePair&, ibv_wc_status&);
void finish(QueuePair&, const Work&, ibv_wc_status);
// The other end refused something, and this end has not heard of it.
bool waits_for_word(const QueuePair&);
void complete(Queue&, const Entry&);
void raise(Adapter&, const ibv_async_event&);
// Where the object that it names counts what was read and not acknowledged; nullptr: it names none.
unsigned* unacknowledged_of(const ibv_async_event&);
// Of an object that ends, which nobody has read.
void forget_events(Adapter&, const void* object);
int post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
// The same, of either function.
int post_work(QueuePair&, ibv_send_wr*, ibv_send_wr**);
// One of them. A binding names the key that its window had.
int post_one(QueuePair&, const ibv_send_wr&, std::uint32_t old_key);
int post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
int bind_mw(ibv_qp*, ibv_mw*, ibv_mw_bind*);
int poll_cq(ibv_cq*, int count, ibv_wc*);
int req_notify_cq(ibv_cq*, int);
// --- of objects.cpp ---
// What an adapter has that gives them.
void offer_thread_domains(Context&);
// Of a domain that is given back.
void leave_parents(Domain&);
// What keys are compared with.
const ibv_pd* protection_of(const ibv_pd*);
// --- of calls.cpp ---
// What an adapter has that gives them.
void offer_calls(Context&);
// Nothing but ibv_wr_*() may be called of a queue pair before its batch ends: libraries hold a lock.
void check_no_batch(const QueuePair&, const char* call);
// --- of windows.cpp ---
// nullptr: errno says why. Under the lock.
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

// --- of messages.cpp, under the lock ---
// Bytes of private data. librdmacm gives the whole field, whatever of it was filled.
inline constexpr std::uint8_t kRequestData = 56, kAnswerData = 196, kRejectData = 148;
// Of enum ib_cm_rej_reason.
inline constexpr int kTimeout = 4, kNoSuchService = 8, kStale = 10, kByConsumer = 28, kVendorOption = 35;
// An event of the manager.
void tell(Identifier&, rdma_cm_event_type, int status = 0, std::span<const std::byte> data = {},
          std::uint8_t field = 0);
Identifier& make_identifier(EventChannel&, void* context, rdma_port_space);
// nullptr: it is gone.
Identifier* find(std::uint32_t identifier);
void say(Identifier&, Message);
void hear(const Message&);
// This end is gone or says no more; the other one hears of it.
void leave(Identifier&);
// --- of faults.cpp, under the lock ---
void enter_timewait(Identifier&);

}  // namespace rtrs::mock_hca
