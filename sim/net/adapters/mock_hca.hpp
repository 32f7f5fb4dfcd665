// In-memory RDMA adapters: defines the functions of libibverbs and librdmacm that backends/verbs calls, in
// place of those libraries. All adapters are connected by one lossless wire. A Profile sets the limits and
// the behaviour of an adapter. Errors that a real driver, device or kernel would not report (an event that is
// not acknowledged, an overrun queue, an object that is leaked or used after it was destroyed) are recorded;
// problems() returns them.
//
// A work request is carried out as soon as possible: when it is posted, or when its condition is met. Time is
// used only for a peer that has disappeared: tick() fails its connections after Profile::gives_up_after. All
// functions are thread-safe.
#pragma once
#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rtrs::mock_hca {

struct Profile {
  std::string name;
  std::uint32_t vendor = 0x02c9;
  std::uint32_t part = 4123;  // vendor part number; default: ConnectX-6
  std::uint32_t max_qp_wr = 32768;
  int max_sge = 30;
  int max_cqe = 4194303;
  std::uint32_t max_inline = 512;  // maximum inline data of a work request, in bytes
  // For adapters that limit a send queue in bytes: size of the queue, rounded up to a power of two (0: no
  // such limit), bytes of a work request without data, and allocation unit.
  std::uint32_t send_queue_bytes = 0, work_bytes = 0, work_unit = 64;
  std::uint32_t max_message = 1U << 30;  // maximum size of a message, in bytes
  int vectors = 8;                       // number of completion vectors
  bool windows_type_1 = true;
  bool windows_type_2b = true;
  bool refuses_windows = false;                // window creation fails although the device claims windows
  bool send_invalidate = true;                 // IBV_DEVICE_MEM_MGT_EXTENSIONS
  unsigned with_invalidate = IBV_WC_WITH_INV;  // flag of a completion with invalidation
  bool thread_domains = false;                 // supports thread domains and parent domains
  // Operations that ibv_create_qp_ex() supports for posting with ibv_wr_*(), as enum
  // ibv_qp_create_send_ops_flags. 0: the library does not have that function.
  std::uint64_t calls = 0;
  // Grants unsupported operations and leaves their function pointers null, as the bnxt_re library has done
  // since rdma-core 56.
  bool grants_any_call = false;
  // Behaves as soft-RoCE's library up to rdma-core 63: ibv_wr_bind_mw() also accepts windows of type 1, data
  // is inline only if IBV_SEND_INLINE is set, and inline data is miscounted in two places. (The mlx5 library
  // treats each window as type 2.)
  bool calls_of_soft_roce = false;
  // Reaction of ibv_post_send() to a bind of a type 1 window, for which ibv_bind_mw() should be used.
  enum class Type1Chain : std::uint8_t { takes, refuses, fails } type_1_in_chain = Type1Chain::takes;
  // Destroying or resetting a queue pair removes its completions from the completion queue.
  bool destroy_cleans_cq = true;
  // Pending work of a removed adapter completes as flushed; if false, it never completes.
  bool flushes_when_taken_out = false;
  // Reuses the numbers of destroyed queue pairs and windows at once. A connect request with the number of a
  // queue pair that the other side holds in timewait is rejected as stale, until end_timewait().
  bool reuses_numbers = false;
  // Randomises every order that the specification leaves open, from the seed of reset(): work of different
  // queue pairs, completions of sends and receives, asynchronous events and connection manager events.
  // Also reports IBV_EVENT_COMM_EST whether or not the queue pair may send yet. Work progresses when a queue
  // is read, or with tick().
  bool hostile = false;
  std::uint64_t gives_up_after = 500'000'000;  // in ns
};

// Profiles of soft-RoCE in Linux 6.12 and of adapters, from their drivers in rdma-core and Linux 6.12.
Profile rxe();
Profile mlx5();
Profile irdma();    // windows of type 1 only, 4,096 work requests
Profile bnxt_re();  // no memory windows
Profile hfi1();     // no inline data

// Returns the profile with `hostile` set.
Profile hostile(Profile);

// Creates new adapters with these profiles. Adapter i has the addresses 192.0.2.(i+1) and 2001:db8::(i+1).
// Objects of earlier adapters must be destroyed; the next problems() lists those that are not.
void reset(const std::vector<Profile>&, std::uint64_t seed = 1);

// Returns the problems recorded since the last call, one line each, including objects that the program should
// have destroyed by now. Empty if there are none.
std::vector<std::string> problems();
// Returns the number of existing objects: domains, regions, windows, queues, queue pairs, channels,
// identifiers. Excludes those of the adapters.
std::size_t objects();
// Objects and memory that programs hold on one adapter.
struct Held {
  std::size_t contexts = 0;
  std::size_t windows = 0;
  std::size_t vectors = 0;  // completion vectors in use
  std::size_t regions = 0;
  std::uint64_t bytes = 0;   // registered memory; counts each registration of the same memory
  unsigned access = 0;       // union of the access flags of regions, windows and queue pairs
  std::size_t writable = 0;  // regions that peers may write to without a window
};
Held held(std::size_t adapter);
// Capabilities granted to the most recent queue pair.
ibv_qp_cap last_granted();

// Counts the program's calls to an adapter since the adapter was created. On real hardware each call
// that posts to the send queue writes a doorbell, however many work requests it posts. Receives have a
// separate doorbell, which many adapters read from memory.
struct Counts {
  std::uint64_t doorbells = 0;      // calls of ibv_post_send(), ibv_bind_mw() and ibv_wr_complete()
  std::uint64_t batches = 0;        // of these, calls of ibv_wr_complete()
  std::uint64_t work_requests = 0;  // work requests posted by these calls
  std::uint64_t receive_calls = 0;  // calls of ibv_post_recv()
  std::uint64_t receives = 0;
  std::uint64_t completions = 0;  // read by the program
  std::uint64_t polls = 0;        // calls of ibv_poll_cq()
  std::uint64_t arms = 0;         // calls of ibv_req_notify_cq()
};
Counts counts(std::size_t adapter);

// Number of existing queue pairs that support ibv_wr_*().
std::size_t queue_pairs_with_calls();
// Number of existing queue pairs in a thread domain.
std::size_t queue_pairs_of_threads();

// Number of existing registrations with relaxed ordering.
std::size_t relaxed_registrations();

// tick() fails connections whose peer has disappeared. After tick_by_itself(true), a thread calls tick()
// every few milliseconds; initially no thread does.
void tick();
void tick_by_itself(bool on);

// Transport settings of each end of the established connections.
struct Wire {
  std::uint8_t ack_timeout, retries, tos;
  std::uint8_t min_rnr_timer = 12;
  std::uint8_t rnr_retries = 7;  // number requested from the peer; 7 means unlimited
  bool operator==(const Wire&) const = default;
};
std::vector<Wire> wires();

// --- faults ---
// Removes the adapter. All later calls on its open objects fail with EIO. Destroying an object leaks it,
// unless RDMAV_ALLOW_DISASSOC_DESTROY was set at the first use of the library after reset(). Programs are
// notified by IBV_EVENT_DEVICE_FATAL, by RDMA_CM_EVENT_DEVICE_REMOVAL to the identifiers, by both, or not at
// all.
enum class Told : std::uint8_t { fatal, removal, fatal_first, removal_first, nobody };
void take_out(std::size_t adapter, Told = Told::fatal_first);
void put_back(std::size_t adapter);
// Fail-over of a bond: the addresses of adapter `from` move to adapter `to`. Identifiers with these addresses
// get RDMA_CM_EVENT_ADDR_CHANGE.
void fail_over(std::size_t from, std::size_t to);
// The remote host changes its hardware address: each identifier that is connected to the adapter gets
// RDMA_CM_EVENT_UNREACHABLE.
void change_neighbour(std::size_t adapter);
// Raises IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE. All connections use port 1: while it is down, nothing
// is delivered.
void set_port(std::size_t adapter, bool up, int port = 1);
void change_gids(std::size_t adapter);
// Puts the most recent queue pair into the error state, with this event.
void fail_last_queue_pair(ibv_event_type);
// Raises the event for the most recent queue pair without changing its state.
void raise_on_last_queue_pair(ibv_event_type);
// Raises IBV_EVENT_CQ_ERR for the completion queue of the most recent queue pair, which then reports nothing
// more.
void overrun_last_queue();
// Loses the RTU of the next connection, which is the last message of the handshake: the accepting side gets
// no event.
void lose_next_rtu();
// Ends the wait of all sides that still wait for an RTU: each gets RDMA_CM_EVENT_UNREACHABLE, and its peer
// gets a reject.
void give_up_handshakes();
// Rejects the next `count` connect requests as stale.
void reject_as_stale(unsigned count);
// Cancels the faults set for the next connections, and ends timewait.
void calm();
// Raises RDMA_CM_EVENT_TIMEWAIT_EXIT for all connections. Needed only if a profile reuses numbers; otherwise
// timewait ends at once.
void end_timewait();
// Makes `count` calls that create an object fail with ENOMEM, after `skip` calls that succeed.
// creation_failed() returns true if one has failed since.
void fail_creations(unsigned skip, unsigned count);
bool creation_failed();
// Makes the next ibv_wr_complete() return `error` and post nothing.
void refuse_next_batch(int error);
// Removes ibv_wr_*() from the adapter's library.
void forget_calls(std::size_t adapter);

}  // namespace rtrs::mock_hca
