// Selects records of a trace without changing them. Used for traces whose state machines cannot be run again,
// for example traces made from captures.
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
  // Loads all readable records. The error says why the trace cannot be read.
  static tl::expected<RecordCut, std::string> load(trace::Source&);

  // Position and reason at which reading stopped; empty: the trace is complete.
  const std::string& damage() const { return damage_; }
  std::size_t records() const { return records_.size(); }  // number of readable records

  // Number of removable records: all except the begin and end records of machines. Those are removed together
  // with the last other record of their machine. The other functions take indexes of removable records.
  std::size_t size() const { return removable_.size(); }
  // Returns the number of the record's connection; Thinning::kNoGroup if it has none.
  std::uint32_t connection(std::uint32_t index) const { return records_[removable_[index]].connection; }
  // Returns the number of removable records, up to and including record `seq`, in a file that contains only
  // the records `kept`.
  std::size_t up_to(const std::vector<std::uint32_t>& kept, std::uint64_t seq) const;

  // Writes the records `kept` (ascending). Sets `records` to the number of written records. Returns 0 or a
  // positive errno.
  int write(const std::vector<std::uint32_t>& kept, const std::string& path, std::uint64_t& records) const;

 private:
  struct Kept {
    std::uint16_t event = 0;
    InstanceId instance = 0;
    Nanos time = 0;
    bool removable = false;
    std::uint32_t connection = 0;
    std::vector<trace::Value> values;  // byte values point into bytes_
  };
  // Returns the indexes in records_ of all records of a file that contains only `kept`.
  std::vector<std::uint32_t> selected(const std::vector<std::uint32_t>& kept) const;

  trace::Header header_;
  std::string damage_;
  std::deque<std::string> bytes_;
  std::vector<Kept> records_;
  std::vector<std::uint32_t> removable_;
};

}  // namespace rtrs::tools
