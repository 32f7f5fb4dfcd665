// Names of what runs, for complete.hpp. Asks a daemon once, and not for long: somebody has pressed a key.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/urtrs/command/complete.hpp"

namespace rtrs::admin {

class LiveNames : public Names {
 public:
  // `words`: of the command line; --socket among them names the daemon.
  explicit LiveNames(const std::vector<std::string>& words);
  std::vector<std::string> sessions() override;
  std::vector<std::string> paths(const std::string& session) override;
  std::vector<std::string> devices(const std::string& session) override;
  std::vector<std::string> exports() override;
  std::vector<std::string> sockets() override;
  std::vector<std::string> rdma_devices() override;
  std::vector<std::string> mapped_sessions() override;
  std::vector<std::string> mapped_devices() override;

 private:
  const nlohmann::json& shown();
  nlohmann::json of_clients() const;
  nlohmann::json of_mapd() const;
  std::string socket_;
  bool client_ = false;  // names of clients, not of a server
  std::optional<nlohmann::json> shown_;
};

}  // namespace rtrs::admin
