#include "conformance/bench/raw_pingpong.hpp"

#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <vector>

namespace rtrs::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Process-lifetime objects: the program ends with the run.
struct Raw {
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_eq* events = nullptr;
  fid_cq* queue = nullptr;
  fid_ep* endpoint = nullptr;
  fid_mr* region = nullptr;
  std::vector<char> memory;
  std::string error;

  bool check(long result, const char* what) {
    if (result < 0) error = std::string(what) + ": " + fi_strerror(static_cast<int>(-result));
    return result >= 0;
  }
  bool open(const RawOptions&, bool server);
  bool make_endpoint(fi_info*);
  bool wait_event(std::uint32_t wanted, fi_eq_cm_entry&);
  bool post(const char* from, std::size_t size, std::uint64_t imm) {
    ssize_t result = 0;
    while ((result = fi_writedata(endpoint, from, size, nullptr, imm, 0, 0, 1, nullptr)) == -FI_EAGAIN) {
    }
    return check(result, "fi_writedata");
  }
};

bool Raw::open(const RawOptions& options, bool server) {
  fi_info* hints = fi_allocinfo();
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->fabric_attr->prov_name = strdup(options.provider.c_str());
  const std::string port = std::to_string(options.port);
  const int found =
      fi_getinfo(FI_VERSION(1, 17), options.host.c_str(), port.c_str(), server ? FI_SOURCE : 0, hints, &info);
  fi_freeinfo(hints);
  if (!check(found, "fi_getinfo") || !check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric"))
    return false;
  fi_eq_attr eq{};
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_DATA;
  cq.wait_obj = FI_WAIT_NONE;
  cq.size = 4096;
  memory.resize(std::max<std::size_t>(options.size, 1) * options.depth);
  return check(fi_eq_open(fabric, &eq, &events, nullptr), "fi_eq_open") &&
         check(fi_domain(fabric, info, &domain, nullptr), "fi_domain") &&
         check(fi_cq_open(domain, &cq, &queue, nullptr), "fi_cq_open") &&
         check(fi_mr_reg(domain, memory.data(), memory.size(), FI_REMOTE_WRITE, 0, 1, 0, &region, nullptr),
               "fi_mr_reg");
}

bool Raw::make_endpoint(fi_info* from) {
  return check(fi_endpoint(domain, from, &endpoint, nullptr), "fi_endpoint") &&
         check(fi_ep_bind(endpoint, &events->fid, 0), "fi_ep_bind") &&
         check(fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
               "fi_ep_bind") &&
         check(fi_enable(endpoint), "fi_enable");
}

bool Raw::wait_event(std::uint32_t wanted, fi_eq_cm_entry& entry) {
  for (;;) {
    std::uint32_t event = 0;
    const ssize_t size = fi_eq_read(events, &event, &entry, sizeof entry, 0);
    if (size == -FI_EAGAIN) continue;
    if (size < 0) return check(size, "connecting");
    if (event == wanted) return true;
  }
}

RawResult failed(const Raw& raw) {
  RawResult result;
  result.error = raw.error;
  return result;
}

void pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

RawResult run_raw_client(const RawOptions& options) {
  Raw raw;
  fi_eq_cm_entry entry{};
  if (!raw.open(options, false) || !raw.make_endpoint(raw.info) ||
      !raw.check(fi_connect(raw.endpoint, raw.info->dest_addr, nullptr, 0), "fi_connect") ||
      !raw.wait_event(FI_CONNECTED, entry)) {
    return failed(raw);
  }
  std::vector<Clock::time_point> posted(options.depth);
  std::vector<float> latencies;
  latencies.reserve(8'000'000);
  const auto post = [&](std::uint64_t slot) {
    posted[slot] = Clock::now();
    return raw.post(raw.memory.data() + slot * options.size, options.size, slot);
  };
  for (std::uint32_t slot = 0; slot < options.depth; ++slot) {
    if (!post(slot)) return failed(raw);
  }
  const auto begin = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(options.seconds / 10));
  const auto end =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));
  std::array<fi_cq_data_entry, 16> done;
  auto now = Clock::now();
  while (now < end) {
    const ssize_t count = fi_cq_read(raw.queue, done.data(), done.size());
    if (count < 0 && count != -FI_EAGAIN) {
      raw.check(count, "fi_cq_read");
      return failed(raw);
    }
    for (ssize_t i = 0; i < count; ++i) {
      const std::uint64_t slot = done[static_cast<std::size_t>(i)].data;
      now = Clock::now();
      if (now >= begin) {
        latencies.push_back(std::chrono::duration<float, std::micro>(now - posted[slot]).count());
      }
      if (!post(slot)) return failed(raw);
    }
  }
  RawResult result;
  result.ok = !latencies.empty();
  if (!result.ok) result.error = "no answer";
  if (!result.ok) return result;
  std::sort(latencies.begin(), latencies.end());
  result.count = latencies.size();
  result.p50_us = latencies[latencies.size() / 2];
  result.p99_us = latencies[latencies.size() * 99 / 100];
  result.iops = static_cast<double>(latencies.size()) / options.seconds;
  return result;
}

RawResult run_raw_server(const RawOptions& options, void (*listening)(std::uint16_t, void*), void* context) {
  Raw raw;
  fid_pep* passive = nullptr;
  fi_eq_cm_entry entry{};
  sockaddr_in name{};
  std::size_t length = sizeof name;
  if (!raw.open(options, true) ||
      !raw.check(fi_passive_ep(raw.fabric, raw.info, &passive, nullptr), "fi_passive_ep") ||
      !raw.check(fi_pep_bind(passive, &raw.events->fid, 0), "fi_pep_bind") ||
      !raw.check(fi_listen(passive), "fi_listen") ||
      !raw.check(fi_getname(&passive->fid, &name, &length), "fi_getname")) {
    return failed(raw);
  }
  listening(ntohs(name.sin_port), context);
  if (!raw.wait_event(FI_CONNREQ, entry) || !raw.make_endpoint(entry.info) ||
      !raw.check(fi_accept(raw.endpoint, nullptr, 0), "fi_accept") || !raw.wait_event(FI_CONNECTED, entry)) {
    return failed(raw);
  }
  RawResult result;
  result.ok = true;
  std::array<fi_cq_data_entry, 16> arrived;
  for (unsigned idle = 0;;) {
    const ssize_t count = fi_cq_read(raw.queue, arrived.data(), arrived.size());
    if (count < 0 && count != -FI_EAGAIN) return result;
    for (ssize_t i = 0; i < count; ++i) raw.post(nullptr, 0, arrived[static_cast<std::size_t>(i)].data);
    if (count > 0) result.count += static_cast<std::uint64_t>(count);
    if (count > 0 || ++idle % 4096 != 0) continue;
    std::uint32_t event = 0;
    if (fi_eq_read(raw.events, &event, &entry, sizeof entry, 0) != -FI_EAGAIN) return result;
  }
}

RawResult run_raw_pingpong(const RawOptions& options) {
  int pipe_fds[2];
  RawResult result;
  if (::pipe(pipe_fds) != 0) {
    result.error = "pipe";
    return result;
  }
  const unsigned cpus = static_cast<unsigned>(std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN)));
  const pid_t server = ::fork();
  if (server == 0) {
    pin(cpus - 1);
    RawOptions own = options;
    own.port = 0;
    run_raw_server(
        own,
        [](std::uint16_t port, void* fd) {
          [[maybe_unused]] const ssize_t written = ::write(*static_cast<int*>(fd), &port, sizeof port);
        },
        &pipe_fds[1]);
    ::_exit(0);
  }
  RawOptions own = options;
  ::close(pipe_fds[1]);
  if (server < 0 || ::read(pipe_fds[0], &own.port, sizeof own.port) != sizeof own.port) {
    result.error = "the server did not start";
  } else {
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    pin(0);
    result = run_raw_client(own);
    sched_setaffinity(0, sizeof before, &before);
  }
  ::close(pipe_fds[0]);
  if (server > 0) {
    ::kill(server, SIGKILL);
    ::waitpid(server, nullptr, 0);
  }
  return result;
}

}  // namespace rtrs::bench
