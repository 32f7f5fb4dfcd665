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
  std::uint32_t max_qp_wr = 32768;
  int max_sge = 30;
  int max_cqe = 4194303;
  std::uint32_t max_inline = 512;        // bytes of a work request
  std::uint32_t max_message = 1U << 30;  // bytes
  bool windows_type_1 = true;
  bool windows_type_2b = true;
  // What ibv_post_send() does with a binding of a window of type 1, which ibv_bind_mw() is for.
  enum class Type1Chain : std::uint8_t { takes, refuses, fails } type_1_in_chain = Type1Chain::takes;
  // What lies in a completion queue of a queue pair is gone with it.
  bool destroy_cleans_cq = true;
  std::uint64_t gives_up_after = 500'000'000;  // ns
};

// Soft-RoCE of Linux 6.12, and what the drivers of rdma-core and of Linux 6.12 say of adapters.
Profile rxe();
Profile mlx5();
Profile irdma();    // windows of type 1 alone, 4,096 work requests
Profile bnxt_re();  // no windows
Profile hfi1();     // nothing inline

// New adapters of these profiles. Number i has the addresses 192.0.2.(i+1) and 2001:db8::(i+1). Everything of
// before has to be gone: what is not, is a problem of the next problems().
void reset(const std::vector<Profile>&);

// What went wrong since the last call, a line each; empty is good. With what the program should have ended by
// now and did not.
std::vector<std::string> problems();
// Objects that exist: domains, regions, windows, queues, queue pairs, channels, identifiers. Without the
// adapters' own.
std::size_t objects();

// What the program asked of an adapter since it was made. Each call that posts to the send queue writes to a
// doorbell of real hardware, whatever it posts; receives have one of their own, which many adapters read from
// memory.
struct Counts {
  std::uint64_t doorbells = 0;      // calls of ibv_post_send() and ibv_bind_mw()
  std::uint64_t work_requests = 0;  // that they posted
  std::uint64_t receive_calls = 0;  // of ibv_post_recv()
  std::uint64_t receives = 0;
  std::uint64_t completions = 0;  // that were read
  std::uint64_t polls = 0;        // calls of ibv_poll_cq()
  std::uint64_t arms = 0;         // calls of ibv_req_notify_cq()
};
Counts counts(std::size_t adapter);

// Registrations that exist and let the adapter write in any order.
std::size_t relaxed_registrations();

// Gives up peers that are gone. A thread does it each few milliseconds while `on`; it is off at first.
void tick();
void tick_by_itself(bool on);

// --- faults ---
// The adapter dies: IBV_EVENT_DEVICE_FATAL, then RDMA_CM_EVENT_DEVICE_REMOVAL to its identifiers.
void remove(std::size_t adapter);
// Of the queue pair that was made last.
void fail_last_queue_pair(ibv_event_type);
// The next `count` calls that make an object fail with ENOMEM, after `skip` that do not. False: none has
// failed since.
void fall_short(unsigned skip, unsigned count);
bool fell_short();

}  // namespace rtrs::mock_hca
