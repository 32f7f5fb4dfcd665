// Reads the files of a recorder with a bounded size as one trace. FILE is the newest file, FILE.1 the one
// before it. "FILE.*" names all of them.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/lib/trace/command/follow.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::tools {

// Returns the traces that a command line names. Two or more files of one rotation become one name, FILE.*.
std::vector<std::string> trace_names(const std::vector<std::string>& given);
inline bool is_rotation(std::string_view name) {
  return name.ends_with(".*");
}
// Returns the files that the name of a rotation stands for, oldest first. Empty after printing an error:
// there is no such file, or one in the middle is missing.
std::vector<std::string> rotation_files(const std::string& name);

// Bytes of one trace with the records of all files. A file that does not continue the one before it ends the
// trace with an error; a damaged file ends it like a file that was cut. Prints both errors.
class RotationSource final : public trace::Source {
 public:
  // `files`: oldest first. `patience`: if not 0, waits for more bytes and more files of the rotation.
  explicit RotationSource(std::vector<std::string> files, Patience patience = {});
  ~RotationSource() override;
  std::ptrdiff_t read(void* to, std::size_t size) noexcept override;

 private:
  class Joined;
  std::unique_ptr<Joined> joined_;
};

}  // namespace rtrs::tools
