// Implementation behind the handles of urtrs.h: a BlockClient with its fabric, the pending calls, and the
// event loop.
#pragma once
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/bindings/c/settings.hpp"
#include "backends/bindings/c/urtrs.h"
#include "core/driver/block_client.hpp"

struct urtrs_device {
  urtrs_session* session = nullptr;
  rtrs::rnbd::DeviceHandle handle = 0;
  std::string name;
  rtrs::rnbd::Geometry geometry{};  // geometry from the last successful open
  int refused = 0;                  // negative errno of the last rejected OPEN; 0: none
  bool opening = true;              // the callback of the open has not been queued yet
  rtrs::Nanos give_up_at = 0;       // time at which a pending open fails
  urtrs_callback opened = nullptr;
  void* user = nullptr;
};

struct urtrs_session {
  // Buffer of a blocking call with a timeout; kept until the request completes, even if the call timed out.
  using Memory = std::shared_ptr<std::byte[]>;
  struct Request {
    urtrs_callback callback = nullptr;  // null: no callback
    void* user = nullptr;
    Memory memory;
    bool busy = false;
  };
  struct Due {
    urtrs_callback callback;
    void* user;
    int error;
  };
  // State of a blocking call.
  struct Waiter {
    bool done = false;
    int error = 0;
    static void on_done(void* waiter, int error) noexcept {
      static_cast<Waiter*>(waiter)->done = true;
      static_cast<Waiter*>(waiter)->error = error;
    }
  };

  urtrs_session();
  ~urtrs_session();
  urtrs_session(const urtrs_session&) = delete;
  urtrs_session& operator=(const urtrs_session&) = delete;

  int open();
  int close(int timeout_ms);
  int add_path(const std::string& source, const std::string& destination, std::uint16_t port);
  int map(std::string_view device, unsigned flags, urtrs_callback, void* user, urtrs_device*& into);
  void forget(urtrs_device&);
  // `into`: receives the slot of the request. The request keeps `memory` until it completes.
  int submit(const urtrs_device&, rtrs::BlockRequest, urtrs_callback, void* user, Memory = {},
             std::uint32_t* into = nullptr);

  // Runs one turn: processes all events, then runs the callbacks. Returns the number of callbacks, or
  // -ENOMEM.
  int poll() noexcept;
  rtrs::Nanos sleep_until() noexcept;
  // Returns 0 or -EINTR.
  int sleep(rtrs::Nanos until) noexcept;
  // Runs turns until `done` returns true; returns 0 or -ETIMEDOUT.
  int wait(int timeout_ms, const std::function<bool()>& done);

  // Stores the message and returns the error.
  int fail(int error, std::string sentence);
  // Stores the message of a failed call, "WHAT: text of the error". If no path is connected, adds the error
  // of each path. Returns the error.
  int fail_with_words(int error, const std::string& what);
  // Returns 0, or the error if blocking calls are not allowed: inside a callback, or in a forked process.
  int refuse_wait();
  bool is_of_this_process() const noexcept;
  // True if the session was closed and everything in flight has completed.
  bool is_over() const noexcept { return client && client->closed() && client->under_way() == 0; }

  rtrs::c::Settings settings;
  rtrs::BlockClientOptions options;
  std::unique_ptr<rtrs::Fabric> fabric;
  std::optional<rtrs::BlockClient> client;  // set by a successful open
  std::vector<std::unique_ptr<urtrs_device>> devices;
  std::vector<Request> requests;  // indexed by user_data
  std::vector<std::uint32_t> free_requests;
  std::uint32_t under_way = 0;
  bool in_callback = false;
  bool close_begun = false;
  unsigned forks = 0;  // value of forks_of_process when the session was created
  std::string message;
  urtrs_path_callback on_path = nullptr;
  void* on_path_user = nullptr;

 private:
  void make_room(std::size_t for_requests);
  void take_turn();
  void take_events();
  void on_device_changed(const rtrs::rnbd::DeviceChanged&);
  void give_up_opens(rtrs::Nanos now);
  bool is_hopeless() const noexcept;
  void end_open(urtrs_device&, int error);
  bool has_path() const noexcept;
  std::string why_no_path() const;
  void finish(std::uint32_t slot, int error);
  int call_due() noexcept;
  int run_callbacks() noexcept;

  std::array<rtrs::BlockCompletion, 64> completions_;
  rtrs::BlockEvent event_;
  // Has room for all requests and devices, so that a turn never allocates.
  std::vector<Due> due_;
  std::vector<Due> running_;
  std::array<bool, rtrs::kMaxPaths> changed_paths_{};
};

namespace rtrs::c {

// Converts exceptions to errors, because no exception may leave the library.
template <class Call>
int guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (...) {
    return -EIO;
  }
}

// Copies `filled` to a structure of `size` bytes. A program built with a later header has a larger structure;
// members that this library does not know are set to 0.
template <class Struct>
int fill(Struct* into, const Struct& filled, std::size_t size) noexcept {
  if (into == nullptr || size == 0) return -EINVAL;
  std::memset(static_cast<void*>(into), 0, size);
  std::memcpy(static_cast<void*>(into), &filled, std::min(size, sizeof filled));
  return 0;
}

// Runs a function of the C interface on a session. Clears the session's message first, so that afterwards the
// message belongs to this call and is empty on success.
template <class Call>
int answered(urtrs_session& session, Call&& call) noexcept {
  const int answer = guarded([&] {
    session.message.clear();
    if (!session.is_of_this_process())
      return session.fail(-EBADF, "the session is of another process: fork(2)");
    return call();
  });
  if (answer >= 0 || !session.message.empty()) return answer;
  return guarded([&] { return session.fail(answer, urtrs_strerror(answer)); });
}

}  // namespace rtrs::c
