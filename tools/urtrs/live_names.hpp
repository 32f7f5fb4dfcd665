// Supplies names of existing objects for complete.hpp. Calls each daemon only once and with a short time
// limit, because the user waits after pressing Tab.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/urtrs/command/complete.hpp"

namespace rtrs::admin {

class LiveNames : public Names {
 public:
  // `words` is the command line, in which --socket selects the daemon.
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
  bool client_ = false;  // true: asks clients instead of a server
  std::optional<nlohmann::json> shown_;
};

}  // namespace rtrs::admin
