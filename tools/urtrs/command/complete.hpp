// Shell completion: finds the words that can come next on a command line of urtrs. Pure; `Names` supplies the
// names of existing objects.
#pragma once
#include <string>
#include <vector>

namespace rtrs::admin {

// Supplies names of existing objects. The lists are empty if no daemon can be reached.
class Names {
 public:
  virtual ~Names() = default;
  virtual std::vector<std::string> sessions() = 0;
  virtual std::vector<std::string> paths(const std::string& session) = 0;
  virtual std::vector<std::string> devices(const std::string& session) = 0;  // `session` empty: all sessions
  virtual std::vector<std::string> exports() = 0;
  virtual std::vector<std::string> sockets() = 0;
  virtual std::vector<std::string> rdma_devices() = 0;  // RDMA devices of this host
  // Names that urtrs-mapd reports.
  virtual std::vector<std::string> mapped_sessions() = 0;
  virtual std::vector<std::string> mapped_devices() = 0;
};

struct Completion {
  std::vector<std::string> words;  // words that start with the word under the cursor
  bool files = false;              // a file name is also possible
};

// `words` are the complete words before the cursor, without the program name. `current` is the part of the
// next word that was typed; it may be empty.
Completion complete(const std::vector<std::string>& words, const std::string& current, Names& names);

}  // namespace rtrs::admin
