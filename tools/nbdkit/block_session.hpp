// A session with its block devices, for threads that block. Each thread starts its requests itself and polls
// the fabric while it waits for them (tools/nbdkit/shared_poller.hpp), so no request is handed to another
// thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/bindings/asio/remote_device.hpp"
#include "core/driver/block_client.hpp"
#include "core/record/recorder.hpp"
#include "tools/nbdkit/shared_poller.hpp"

namespace rtrs::nbdkit {

struct BlockSessionOptions {
  std::string session_name;
  std::vector<PathAddress> paths;
  ClientConfig protocol;
};

class BlockSession : private SharedPoller::Source {
 public:
  using Lock = SharedPoller::Lock;

  // The session calls these functions with its lock held, on the thread that polls, which may be any thread.
  // The functions must not call the session.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_event(const BlockEvent&) = 0;
    // Called when a request starts. The session passes the return value to on_io_end() as `begun`.
    virtual unsigned on_io_begin() = 0;
    virtual void on_io_end(unsigned begun, Nanos latency, bool failed) = 0;
  };

  BlockSession(std::unique_ptr<Fabric>, const BlockSessionOptions&, Listener&);
  // Precondition: no thread waits in io(). If the session is open, it ends without notifying the server.
  ~BlockSession() override;
  BlockSession(const BlockSession&) = delete;
  BlockSession& operator=(const BlockSession&) = delete;

  Recorder& recorder() noexcept { return recorder_; }

  // All functions below require the lock. Those with a Lock argument release the lock while they wait.
  Lock lock() { return Lock(poller_); }
  void wait_for_news(Lock& lock, Nanos until) { poller_.wait_for_news(lock, until); }

  // These functions do the same as in BlockClient (core/driver/block_client.hpp).
  Errc open();
  rnbd::MapOutcome map(std::string_view name, wire::rnbd::AccessMode);
  void unmap(rnbd::DeviceHandle);
  void remap(rnbd::DeviceHandle);
  bool resize(rnbd::DeviceHandle, std::uint64_t sectors);
  void close();
  // These functions do the same as in Client (core/driver/client.hpp).
  Errc add_path(const PathAddress&);
  Errc remove_path(unsigned path);
  Errc disconnect_path(unsigned path);
  Errc reconnect_path(unsigned path);
  unsigned recover();
  void set_policy(MultipathPolicy);
  void set_max_reconnect_attempts(std::int32_t);
  Errc reset_statistics(unsigned path, PathStatistics what) {
    return client_.session().reset_statistics(path, what);
  }
  bool closed() const noexcept { return client_.closed(); }
  const BlockClient& client() const noexcept { return client_; }
  const Client& session() const noexcept { return client_.session(); }
  // True if no path will attempt to connect again.
  bool hopeless() const noexcept;
  // Number of requests in flight.
  unsigned under_way() const noexcept { return under_way_; }

  // Executes a request and waits until it completes. Returns 0 or an errno. The data must stay valid during
  // the call.
  int io(rnbd::DeviceHandle, BlockRequest);

 private:
  struct Io : SharedPoller::Waiter {
    Nanos started = 0;
    unsigned begun = 0;
    int error = 0;
  };

  int wait_fd() const noexcept override { return fabric_->wait_fd(); }
  bool try_wait() override { return fabric_->try_wait(); }
  void step(Nanos now) override;
  Nanos next_deadline() override { return opened_ ? client_.next_deadline() : kNever; }
  void take_events();
  // Calls `act(session, now)`, then processes the events that the call has caused.
  template <class Act>
  auto steer(Act act);

  std::unique_ptr<Fabric> fabric_;
  Listener& listener_;
  Recorder recorder_;
  BlockClient client_;
  bool opened_ = false;
  unsigned under_way_ = 0;
  // Buffers of one step. They are members, because initialising them in each step would cost more than the
  // rest of an idle step.
  std::array<BlockCompletion, 64> completions_;
  BlockEvent event_;
  // The last member, so that the poller's thread ends before the members that it uses are destroyed.
  SharedPoller poller_;
};

}  // namespace rtrs::nbdkit
