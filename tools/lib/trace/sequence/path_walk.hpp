// Finds the path of each step, and the time spans of path states.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "tools/lib/trace/sequence/kept.hpp"
#include "tools/lib/trace/sequence/story.hpp"

namespace rtrs::tools::sequence {

class PathWalk {
 public:
  // Both must outlive this object.
  PathWalk(const Story& story, const Kept& kept);
  // Call for each step in order. Sets Step::path.
  void on(Step& step, std::size_t number);
  // Moves the spans that are needed to the story.
  void finish(Story& story);

 private:
  void close_span(Index path, Side side, Index at);
  void change(const Step& step, Side side, Index at);
  void forget(const Machine& owner, Index at);
  Index numbered(const Step& step, const Machine& owner, std::uint16_t number);

  const Story& story_;
  const Kept& kept_;
  std::map<std::tuple<Index, std::uint16_t, std::uint16_t>, Index>
      paths_;                                                 // by client's file, instance, number
  std::map<std::pair<Index, std::uint16_t>, Index> numbers_;  // paths by (machine, path number)
  std::map<std::pair<Index, Side>, Index> open_;              // open spans by (path, side)
  std::map<Index, PathSpan> spans_;
  Index next_ = 0;
};

}  // namespace rtrs::tools::sequence
