// Fault classes that strike inside the network, with some probability at each opportunity.
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

// Each factor turns a weight of 1..100 into a probability per million.
const FaultKind qp_error_at_step_fault{nullptr,
                                       [](Rates& r, std::uint32_t weight) { r.qp_error = weight * 20; }};
const FaultKind request_lost_or_late_fault{
    nullptr, [](Rates& r, std::uint32_t weight) { r.request_lost = r.request_late = weight * 3000; }};
const FaultKind reply_lost_or_late_fault{
    nullptr, [](Rates& r, std::uint32_t weight) { r.reply_lost = r.reply_late = weight * 3000; }};
const FaultKind reject_lost_or_late_fault{
    nullptr, [](Rates& r, std::uint32_t weight) { r.reject_lost = r.reject_late = weight * 3000; }};
const FaultKind disconnect_lost_or_late_fault{
    nullptr, [](Rates& r, std::uint32_t weight) { r.disconnect_lost = r.disconnect_late = weight * 5000; }};
const FaultKind info_cut_fault{nullptr, [](Rates& r, std::uint32_t weight) { r.info_cut = weight * 2000; }};
const FaultKind torn_writes_fault{nullptr, [](Rates& r, std::uint32_t weight) {
                                    r.torn_write = r.rnr_placement = r.source_read_early = weight * 2000;
                                    r.late_placement = weight * 5000;
                                    r.receive_late = weight * 600;
                                  }};
const FaultKind ghosts_fault{nullptr, [](Rates& r, std::uint32_t weight) { r.ghost_delay = weight * 7000; }};
const FaultKind slow_drain_fault{nullptr,
                                 [](Rates& r, std::uint32_t weight) { r.slow_drain = weight * 7000; }};
const FaultKind resource_short_fault{
    nullptr, [](Rates& r, std::uint32_t weight) { r.resource_short = weight * 3000; }};
const FaultKind resolve_failed_fault{
    nullptr, [](Rates& r, std::uint32_t weight) { r.resolve_failed = weight * 5000; }};
const FaultKind accept_failed_fault{nullptr,
                                    [](Rates& r, std::uint32_t weight) { r.accept_failed = weight * 5000; }};
const FaultKind post_short_fault{nullptr,
                                 [](Rates& r, std::uint32_t weight) { r.post_short = weight * 3000; }};

}  // namespace rtrs::sim
