// The requests of all clients, and the oracles that follow each request from its submission to its result.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/oracles/data_integrity.hpp"
#include "sim/oracles/exactly_once.hpp"
#include "sim/oracles/io_book.hpp"
#include "sim/oracles/slot_exclusivity.hpp"
#include "sim/world/cluster.hpp"

namespace rtrs::sim {

struct Books {
  explicit Books(Cluster& cluster)
      : once(cluster.judge),
        slots(cluster.judge),
        integrity(cluster.judge, cluster.options.seed),
        spoiled(cluster.scenario.storage.sectors, false) {}

  IoBook book;
  ExactlyOnce once;
  SlotExclusivity slots;
  DataIntegrity integrity;
  // True once a run without a fence has failed a request without a response. From then on a request may reuse
  // a chunk while storage still accesses it.
  bool chunks_given_up = false;
  // Sectors that storage wrote from a chunk that already belonged to another request.
  std::vector<bool> spoiled;
  std::uint64_t deliveries = 0, completions = 0, errors = 0;
  std::vector<std::uint32_t> open_ios;  // requests in flight of all clients
};

}  // namespace rtrs::sim
