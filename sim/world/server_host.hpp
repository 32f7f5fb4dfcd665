// Polls the server and simulates the storage behind it.
#pragma once
#include <span>
#include <string_view>

#include "sim/world/books.hpp"
#include "sim/world/cluster.hpp"
#include "sim/world/watch.hpp"

namespace rtrs::sim {

class ServerHost : private Part, private ServerUser {
 public:
  ServerHost(Cluster& cluster, Books& books, Watch& watch) : Part(cluster), books_(books), watch_(watch) {}

  // Returns false if the poll did nothing.
  bool poll();
  void storage_due();
  Nanos disks_time() const noexcept;
  void disks_due();

 private:
  void take_news();
  void path_event(const PathEvent&);
  void session_opened(std::uint16_t session, std::string_view name) override;
  void session_closed(std::uint16_t session) override;
  void raw_request(const ServerEvent&) override;
  void block_request(const block::StartStorage&) override;
  void begin_storage(const StorageModel::Op&);
  void served_unidentified(const StorageModel::Op&);
  bool belongs_to(const block::StartStorage&, std::uint32_t io) const;
  std::uint32_t request_of(const block::StartStorage&) const;
  void spoil(const StorageModel::Op&);
  void effect(const StorageModel::Op&);
  void refuse(const StorageModel::Op&, std::uint16_t error);
  bool is_written_by(std::span<const std::byte> data, std::uint64_t lba, std::uint32_t io) const;

  Books& books_;
  Watch& watch_;
  std::uint32_t last_answered_ = 0;
};

}  // namespace rtrs::sim
