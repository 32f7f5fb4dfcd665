// Reads and writes the state file, which contains the desired state. Every call blocks until the file system
// has finished.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rtrs::mapping {

// Returns the whole file. The error is a positive errno: ENOENT if the file does not exist; ELOOP, EISDIR or
// EINVAL if it is not a regular file; EFBIG if it is larger than kMaxStateBytes.
tl::expected<std::string, int> read_state(const std::string& file);

// Returns false if the text cannot be a state file, so the file belongs to another program. Returns true for
// a state file even if it was truncated, emptied or edited.
bool may_be_state(std::string_view text);

// The system calls with which write_state() replaces a file, in this order. A test can make each of them
// fail. Each function returns 0 or a positive errno.
class StateDisk {
 public:
  virtual ~StateDisk() = default;
  // Creates the file with mode 0600; replaces an existing file.
  virtual int create(const std::string& file) = 0;
  virtual int write(const std::string& text) = 0;  // writes to the created file
  virtual int sync() = 0;                          // syncs and closes the created file
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int sync_folder_of(const std::string& file) = 0;
  virtual void remove(const std::string& file) = 0;
};

// Replaces the file atomically: writes and syncs a new file in the same folder, then renames it. Returns 0 or
// a positive errno. After an error the file has its old content, with one exception: if only syncing the
// folder failed, the file has the new content, but a loss of power can restore the old one.
int write_state(const std::string& file, const std::string& text);
int write_state(const std::string& file, const std::string& text, StateDisk&);

// Renames the file to an unused name, "FILE.damaged" or "FILE.damaged-N", and returns this name. The error is
// a positive errno; EEXIST means that all these names are in use.
tl::expected<std::string, int> set_aside(const std::string& file);

}  // namespace rtrs::mapping
