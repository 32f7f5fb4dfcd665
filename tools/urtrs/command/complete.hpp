// Which words can come next on a command line of urtrs: for the completion of shells. Pure; names of what
// runs come from `Names`.
#pragma once
#include <string>
#include <vector>

namespace rtrs::admin {

// What a daemon has now; nothing where none can be asked.
class Names {
 public:
  virtual ~Names() = default;
  virtual std::vector<std::string> sessions() = 0;
  virtual std::vector<std::string> paths(const std::string& session) = 0;
  virtual std::vector<std::string> devices(const std::string& session) = 0;  // empty: of all
  virtual std::vector<std::string> exports() = 0;
  virtual std::vector<std::string> sockets() = 0;
  virtual std::vector<std::string> rdma_devices() = 0;  // of this host
  // Of urtrs-mapd.
  virtual std::vector<std::string> mapped_sessions() = 0;
  virtual std::vector<std::string> mapped_devices() = 0;
};

struct Completion {
  std::vector<std::string> words;  // each begins with the word under the cursor
  bool files = false;              // names of files do, too
};

// `words`: those in front of the cursor, without the name of the program; `current`: what is typed of the
// next, may be empty.
Completion complete(const std::vector<std::string>& words, const std::string& current, Names& names);

}  // namespace rtrs::admin
