// The server restarts with a different queue depth before the session is established.
#include <deque>
#include <string>

#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

// Returns a changed copy of the bytes, stored permanently, because events do not own them.
std::string_view with_number(std::string_view bytes, std::size_t at, char low) {
  static std::deque<std::string> kept;
  std::string& copy = kept.emplace_back(bytes);
  copy[at] = low;
  return copy;
}

}  // namespace

Story restarted_wire_story() {
  Story story = wire_story();
  Event request = story.at(Kind::WireCm, 0), answer = story.at(Kind::WireCm, 1);
  // An earlier attempt with recon_cnt 0 and queue depth 4.
  request.key.epoch = answer.key.epoch = 77;
  request.bytes = with_number(request.bytes, 10, 0);
  answer.bytes = with_number(answer.bytes, 6, 4);
  Event end = answer;
  end.bytes = {};
  end.cm = CmKind::closed;
  story.events().insert(story.events().begin(), {request, answer, end});
  return story;
}

const std::vector<Spoiled>& restarted_wire_cases() {
  static const std::vector<Spoiled> cases = {
      {Rule::con_rsp_depth, "while an attempt with the former depth goes on",
       [](Story& s) { s.drop(Kind::WireCm, 2); }},
  };
  return cases;
}

}  // namespace rtrs::spec
