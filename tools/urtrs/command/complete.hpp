// Shell completion: which words can come next on a command line of urtrs. Pure; `Names` supplies the names of
// existing objects.
#pragma once
#include <string>
#include <vector>

namespace rtrs::admin {

// Names of existing objects; empty if no daemon can be reached.
class Names {
 public:
  virtual ~Names() = default;
  virtual std::vector<std::string> sessions() = 0;
  virtual std::vector<std::string> paths(const std::string& session) = 0;
  virtual std::vector<std::string> devices(const std::string& session) = 0;  // empty: all sessions
  virtual std::vector<std::string> exports() = 0;
  virtual std::vector<std::string> sockets() = 0;
  virtual std::vector<std::string> rdma_devices() = 0;  // RDMA devices of this host
  // Names from urtrs-mapd.
  virtual std::vector<std::string> mapped_sessions() = 0;
  virtual std::vector<std::string> mapped_devices() = 0;
};

struct Completion {
  std::vector<std::string> words;  // words that start with the word under the cursor
  bool files = false;              // file names are also possible
};

// `words`: complete words before the cursor, without the program name. `current`: typed part of the next
// word; may be empty.
Completion complete(const std::vector<std::string>& words, const std::string& current, Names& names);

}  // namespace rtrs::admin
