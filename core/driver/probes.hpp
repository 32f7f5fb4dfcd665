// Static probes for bpftrace, perf and gdb under the names of Linux's tracepoints (docs/management.md lists
// them). A disabled probe is one nop; use arguments that are already computed at the probe, so that it costs
// little else. Without sys/sdt.h there are no probes.
#pragma once
#ifdef URTRS_HAS_USDT
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#define RTRS_PROBE(provider, name, ...) STAP_PROBEV(provider, name, __VA_ARGS__)
#else
#define RTRS_PROBE(provider, name, ...) ::rtrs::no_probe(__VA_ARGS__)
#endif

namespace rtrs {
template <class... Arguments>
constexpr void no_probe(const Arguments&...) noexcept {}
}  // namespace rtrs
