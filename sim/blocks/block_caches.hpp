// Plays of block scenarios about what is durable: flushes, FUA, and what dies with the server's process or
// host.
#pragma once
#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

void durable_writes(BlockWorld&);
void durable_writes_by_flush(BlockWorld&);
void flush_and_failover(BlockWorld&);
void lost_with_the_host(BlockWorld&);
void told_by_fua_and_by_all_that_wait(BlockWorld&);
void nothing_lost(BlockWorld&);
void lost_under_way(BlockWorld&);
void memory_lost(BlockWorld&);
void lost_in_part(BlockWorld&);
void sync_fails(BlockWorld&);
void sync_of_another_fails(BlockWorld&);
void two_flushes_one_held(BlockWorld&);
void two_flushes_one_failure(BlockWorld&);
void syncs_of_two_processes_fail(BlockWorld&);
void anything_cached(BlockWorld&);

}  // namespace rtrs::sim
