// nbdkit plugin that passes each request to a single server thread and waits for the result. The server
// thread immediately executes the request in memory. nbdkit calls a plugin in one thread per request, so this
// measures the minimum cost of any plugin that waits for another thread or process. Used by
// `tools/dev/nbd-bench --floor`.
#define NBDKIT_API_VERSION 2
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#include <linux/futex.h>
#include <nbdkit-plugin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

namespace {

std::int64_t size_of_disk = 0;
std::unique_ptr<char[]> disk;

struct Request {
  char* to;
  const char* from;
  std::uint32_t count;
  Request* next = nullptr;
  std::atomic<int> done{0};
};
std::atomic<Request*> asked{nullptr};
std::atomic<int> calls{0};  // number of wake-ups of the server thread, which sleeps on this counter (futex)

void sleep_while(std::atomic<int>& word, int value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(std::atomic<int>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void serve() {
  for (;;) {
    const int seen = calls.load();
    Request* one = asked.exchange(nullptr);
    if (one == nullptr) {
      sleep_while(calls, seen);
      continue;
    }
    while (one != nullptr) {
      Request* const next = one->next;
      std::memcpy(one->to, one->from, one->count);
      one->done = 1;
      // The waiting thread may already have freed the request. This is safe, because waking an address on
      // which no thread waits has no effect.
      wake(one->done);
      one = next;
    }
  }
}

void hand_over(char* to, const char* from, std::uint32_t count) {
  Request mine{to, from, count};
  mine.next = asked.load();
  while (!asked.compare_exchange_weak(mine.next, &mine)) {
  }
  if (mine.next == nullptr) {
    ++calls;
    wake(calls);
  }
  while (mine.done == 0) sleep_while(mine.done, 0);
}

int config(const char* key, const char* value) {
  if (std::strcmp(key, "size") != 0) return nbdkit_error("unknown parameter %s", key), -1;
  size_of_disk = nbdkit_parse_size(value);
  return size_of_disk < 0 ? -1 : 0;
}
int after_fork() {
  disk = std::make_unique<char[]>(static_cast<std::size_t>(size_of_disk));
  std::thread(serve).detach();
  return 0;
}
void* open(int) {
  return NBDKIT_HANDLE_NOT_NEEDED;
}
std::int64_t get_size(void*) {
  return size_of_disk;
}
int can_multi_conn(void*) {
  return 1;
}
int pread(void*, void* to, std::uint32_t count, std::uint64_t offset, std::uint32_t) {
  hand_over(static_cast<char*>(to), disk.get() + offset, count);
  return 0;
}
int pwrite(void*, const void* from, std::uint32_t count, std::uint64_t offset, std::uint32_t) {
  hand_over(disk.get() + offset, static_cast<const char*>(from), count);
  return 0;
}

nbdkit_plugin make_plugin() {
  nbdkit_plugin made{};
  made.name = "handoff";
  made.config = config;
  made.after_fork = after_fork;
  made.open = open;
  made.get_size = get_size;
  made.can_multi_conn = can_multi_conn;
  made.pread = pread;
  made.pwrite = pwrite;
  return made;
}
nbdkit_plugin plugin = make_plugin();

}  // namespace

NBDKIT_REGISTER_PLUGIN(plugin)
