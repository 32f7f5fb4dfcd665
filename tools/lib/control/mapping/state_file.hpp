// The file of the wishes. Every call blocks, for as long as the file system takes.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rtrs::mapping {

// The whole file. The error is an errno: ENOENT where there is none; ELOOP, EISDIR and EINVAL for what is no
// regular file; EFBIG for one of more than kMostStateBytes.
tl::expected<std::string, int> read_state(const std::string& file);

// False: it is another program's, whatever became of it. One of ours that was cut off, emptied or changed by
// hand may be.
bool may_be_state(std::string_view text);

// The calls by which write_state() replaces a file, in this order. A test can make each one fail.
// Every one returns 0 or an errno.
class StateDisk {
 public:
  virtual ~StateDisk() = default;
  virtual int create(const std::string& file) = 0;  // with mode 0600; in place of what has this name
  virtual int write(const std::string& text) = 0;   // to the file that was created
  virtual int sync() = 0;                           // that file, then closes it
  virtual int rename(const std::string& from, const std::string& to) = 0;
  virtual int sync_folder_of(const std::string& file) = 0;
  virtual void remove(const std::string& file) = 0;
};

// Replaces it at once or not at all: written beside it and forced to storage before it takes the place. 0 or
// an errno. After an error the file is the old one; if the folder alone could not be forced to storage, it is
// the new one until the power fails.
int write_state(const std::string& file, const std::string& text);
int write_state(const std::string& file, const std::string& text, StateDisk&);

// Gives it another name, "FILE.damaged" or "FILE.damaged-N", which nothing has. The error is an errno;
// EEXIST: all of these names are taken.
tl::expected<std::string, int> set_aside(const std::string& file);

}  // namespace rtrs::mapping
