// RDMA adapters in memory: the functions of libibverbs and librdmacm that backends/verbs calls, defined in
// the test program that links this. Adapters reach each other as over one wire that loses nothing; which
// limits and habits an adapter has is its profile. What a driver, a device or a kernel would suffer from in
// silence (an event that is not acknowledged, a queue that is overrun, an object that is used or left behind
// after its end) is a problem, which the test asks for.
//
// Work requests are carried out as soon as they can be: when they are posted, or when what they wait for is
// there. Time matters only to a peer that is gone, which is given up after Profile::gives_up_after; tick()
// looks at it. All functions may be called from any thread.
#pragma once
#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rtrs::mock_hca {

struct Profile {
  std::string name;  // of the adapter
  std::uint32_t vendor = 0x02c9;
  std::uint32_t part = 4123;  // ConnectX-6
  std::uint32_t max_qp_wr = 32768;
  int max_sge = 30;
  int max_cqe = 4194303;
  std::uint32_t max_inline = 512;  // bytes of a work request
  // Where a send queue is counted in bytes: of all of it, rounded up to a power of two (0: it is not), of
  // what a work request has beside data, and of the units that it takes.
  std::uint32_t send_queue_bytes = 0, work_bytes = 0, work_unit = 64;
  std::uint32_t max_message = 1U << 30;  // bytes
  int vectors = 8;                       // interrupts of completions
  bool windows_type_1 = true;
  bool windows_type_2b = true;
  bool refuses_windows = false;                // although it says that it has them
  bool send_invalidate = true;                 // IBV_DEVICE_MEM_MGT_EXTENSIONS
  unsigned with_invalidate = IBV_WC_WITH_INV;  // what a completion that has one says
  bool thread_domains = false;                 // and parent domains
  // ibv_create_qp_ex() with operations that are posted by ibv_wr_*(); enum ibv_qp_create_send_ops_flags of
  // those that the library has. 0: not even the function is there.
  std::uint64_t calls = 0;
  // The library of bnxt_re since rdma-core 56: more is granted, and of what it has not the function is null.
  bool grants_any_call = false;
  // The library of soft-RoCE, up to rdma-core 63: ibv_wr_bind_mw() takes windows of type 1 too, data is
  // inline by the flag, and in two places it is miscounted. That of mlx5 makes each window one of type 2.
  bool calls_of_soft_roce = false;
  // What ibv_post_send() does with a binding of a window of type 1, which ibv_bind_mw() is for.
  enum class Type1Chain : std::uint8_t { takes, refuses, fails } type_1_in_chain = Type1Chain::takes;
  // What lies in a completion queue of a queue pair is gone with it, and when it is reset.
  bool destroy_cleans_cq = true;
  // Work of an adapter that was taken out completes as flushed; elsewhere nothing is heard of it any more.
  bool flushes_when_taken_out = false;
  // The number of a queue pair or window that is gone is given out again at once, and a request that comes
  // with one of a queue pair that the other side holds in timewait, until end_timewait(), is rejected as
  // stale.
  bool reuses_numbers = false;
  // Nothing keeps an order that nobody promised: work of different queue pairs, completions of sends and of
  // receives, asynchronous events and those of the manager come as chance has it, by reset()'s seed, and data
  // is told of (IBV_EVENT_COMM_EST) whether or not its queue pair may send. Work goes on when a queue is
  // read, or with tick().
  bool hostile = false;
  std::uint64_t gives_up_after = 500'000'000;  // ns
};

// Soft-RoCE of Linux 6.12, and what the drivers of rdma-core and of Linux 6.12 say of adapters.
Profile rxe();
Profile mlx5();
Profile irdma();    // windows of type 1 alone, 4,096 work requests
Profile bnxt_re();  // no windows
Profile hfi1();     // nothing inline

// Another one that keeps no order.
Profile hostile(Profile);

// New adapters of these profiles. Number i has the addresses 192.0.2.(i+1) and 2001:db8::(i+1). Everything of
// before has to be gone: what is not, is a problem of the next problems().
void reset(const std::vector<Profile>&, std::uint64_t seed = 1);

// What went wrong since the last call, a line each; empty is good. With what the program should have ended by
// now and did not.
std::vector<std::string> problems();
// Objects that exist: domains, regions, windows, queues, queue pairs, channels, identifiers. Without the
// adapters' own.
std::size_t objects();
// Of one adapter.
struct Held {
  std::size_t contexts = 0;  // of programs that opened it
  std::size_t windows = 0;
  std::size_t vectors = 0;  // that completion queues are spread over
  std::size_t regions = 0;
  std::uint64_t bytes = 0;   // registered, each time that they are
  unsigned access = 0;       // all that its regions, windows and queue pairs allow
  std::size_t writable = 0;  // regions that peers may write to without a window
};
Held held(std::size_t adapter);
// What the queue pair that was made last was granted.
ibv_qp_cap last_granted();

// What the program asked of an adapter since it was made. Each call that posts to the send queue writes to a
// doorbell of real hardware, whatever it posts; receives have one of their own, which many adapters read from
// memory.
struct Counts {
  std::uint64_t doorbells = 0;      // calls of ibv_post_send(), ibv_bind_mw() and ibv_wr_complete()
  std::uint64_t batches = 0;        // of these, ibv_wr_complete()
  std::uint64_t work_requests = 0;  // that they posted
  std::uint64_t receive_calls = 0;  // of ibv_post_recv()
  std::uint64_t receives = 0;
  std::uint64_t completions = 0;  // that were read
  std::uint64_t polls = 0;        // calls of ibv_poll_cq()
  std::uint64_t arms = 0;         // calls of ibv_req_notify_cq()
};
Counts counts(std::size_t adapter);

// Queue pairs that exist and take ibv_wr_*().
std::size_t queue_pairs_with_calls();
// Queue pairs that exist and are one thread's.
std::size_t queue_pairs_of_threads();

// Registrations that exist and let the adapter write in any order.
std::size_t relaxed_registrations();

// Gives up peers that are gone. A thread does it each few milliseconds while `on`; it is off at first.
void tick();
void tick_by_itself(bool on);

// Of each end of the connections that are up.
struct Wire {
  std::uint8_t ack_timeout, retries, tos;
  std::uint8_t min_rnr_timer = 12;
  std::uint8_t rnr_retries = 7;  // that its peer was asked for; 7: for ever
  bool operator==(const Wire&) const = default;
};
std::vector<Wire> wires();

// --- faults ---
// The adapter is taken out. What was opened of it answers EIO to everything from now on; giving an object
// back leaks it, unless RDMAV_ALLOW_DISASSOC_DESTROY was set when the library was used first after reset().
// Told by IBV_EVENT_DEVICE_FATAL, by RDMA_CM_EVENT_DEVICE_REMOVAL to its identifiers, by both, or by nothing.
enum class Told : std::uint8_t { fatal, removal, fatal_first, removal_first, nobody };
void take_out(std::size_t adapter, Told = Told::fatal_first);
void put_back(std::size_t adapter);
// A bond: the addresses of one adapter are another's from now on. RDMA_CM_EVENT_ADDR_CHANGE to the
// identifiers that have them.
void fail_over(std::size_t from, std::size_t to);
// The host behind the other end has another hardware address: RDMA_CM_EVENT_UNREACHABLE to each identifier
// that is connected to the adapter.
void change_neighbour(std::size_t adapter);
// IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE. All connections go over port 1: nothing gets through while it
// is down.
void set_port(std::size_t adapter, bool up, int port = 1);
void change_gids(std::size_t adapter);
// Of the queue pair that was made last.
void fail_last_queue_pair(ibv_event_type);
// The same without its end.
void tell_of_last_queue_pair(ibv_event_type);
// IBV_EVENT_CQ_ERR of its queue, which reports nothing more.
void overrun_last_queue();
// The last word of connecting (RTU) of the next connection is lost: the accepting side is not told.
void lose_next_rtu();
// Whoever waits for it still gives up: RDMA_CM_EVENT_UNREACHABLE, and a rejection to the other side.
void give_up_handshakes();
// The next requests to connect find an older connection of their queue pair.
void reject_as_stale(unsigned count);
// What was announced for the next connections is taken back, and timewait ends.
void calm();
// Of all connections: RDMA_CM_EVENT_TIMEWAIT_EXIT. Only where a profile reuses numbers, otherwise it is over
// at once.
void end_timewait();
// The next `count` calls that make an object fail with ENOMEM, after `skip` that do not. False: none has
// failed since.
void fall_short(unsigned skip, unsigned count);
bool fell_short();
// The next ibv_wr_complete() answers so, and nothing of what it would have posted is.
void refuse_next_batch(int error);
// The library of the adapter has no ibv_wr_*() any more.
void forget_calls(std::size_t adapter);

}  // namespace rtrs::mock_hca
