// Some of the records of a trace, as they are: for traces that no machine can be run again on, such as those
// made of a capture.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::tools {

class RecordCut {
 public:
  // The error says why the trace cannot be read.
  static tl::expected<RecordCut, std::string> load(trace::Source&);

  // Where and why the trace can be read no further; empty: it is whole.
  const std::string& damage() const { return damage_; }
  std::size_t records() const { return records_.size(); }  // all that can be read

  // Records that may be left out: all but the beginnings and ends of machines, which go when nothing of the
  // machine is left. By their index among them.
  std::size_t size() const { return removable_.size(); }
  // Records of one connection have the same number.
  std::uint32_t connection(std::uint32_t index) const { return records_[removable_[index]].connection; }
  // How many of the removable ones are in front of record `seq` of a file that has only `kept`, it counted.
  std::size_t up_to(const std::vector<std::uint32_t>& kept, std::uint64_t seq) const;

  // Writes those that are kept, ascending. A positive errno on failure.
  int write(const std::vector<std::uint32_t>& kept, const std::string& path, std::uint64_t& records) const;

 private:
  struct Kept {
    std::uint16_t event = 0;
    InstanceId instance = 0;
    Nanos time = 0;
    bool removable = false;
    std::uint32_t connection = 0;
    std::vector<trace::Value> values;  // their bytes are in bytes_
  };
  // Numbers of the records that a file with `kept` has.
  std::vector<std::uint32_t> selected(const std::vector<std::uint32_t>& kept) const;

  trace::Header header_;
  std::string damage_;
  std::deque<std::string> bytes_;
  std::vector<Kept> records_;
  std::vector<std::uint32_t> removable_;
};

}  // namespace rtrs::tools
