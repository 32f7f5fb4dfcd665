// Adds the records of one file to a story. Takes depth, connections and requests from snapshots, and computes
// the actions that a ring dump only counts.
#pragma once
#include <optional>

#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/replay/dump_rerun.hpp"
#include "tools/lib/trace/replay/snapshots.hpp"
#include "tools/lib/trace/sequence/explain.hpp"

namespace rtrs::tools::sequence {

class StoryRecords {
 public:
  // As for Explainer. `header` must outlive this object.
  StoryRecords(Story& story, StepBuffer& steps, Index file, const trace::Header& header, bool lean);
  // Call for each record before the first call of add(). Finds the first snapshots: the records before them
  // need depth and generations too.
  void look_ahead(const trace::Record& record);
  void add(const trace::Record& record);

 private:
  // Passes the state of a complete snapshot to the explainer.
  void resume(const trace::Record& record, bool ahead);

  const trace::Header& header_;
  trace::Compatibility compatibility_;
  trace::SnapshotParts parts_;
  std::optional<trace::DumpRerun> rerun_;  // for a ring dump
  Explainer explainer_;
};

}  // namespace rtrs::tools::sequence
