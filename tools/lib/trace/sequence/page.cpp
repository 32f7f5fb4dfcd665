#include "tools/lib/trace/sequence/page.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/lib/text/json_text.hpp"
#include "tools/lib/trace/sequence/page_answer.hpp"
#include "tools/lib/trace/sequence/page_parts.hpp"

namespace rtrs::tools::sequence {

namespace {

using Json = nlohmann::json;

// Builds the JSON data of the page. Step indexes are those of the page: its ranges without the gaps.
class PageData {
 public:
  PageData(const Story& story, const PageContent& content) : story_(story), content_(content) {
    for (const Range& range : content.ranges)
      for (std::size_t at = range.from; at < range.to; ++at) shown_.push_back(static_cast<Index>(at));
  }

  Json all() {
    Json data;
    data["format"] = 1;
    data["before"] = content_.ranges.front().from;
    data["after"] = story_.steps.size() - content_.ranges.back().to;
    data["gaps"] = gaps();
    data["sameClock"] = story_.same_clock;
    Json groups = Json::array();
    for (unsigned group = 0; group < kGroups; ++group)
      groups.push_back(
          {{"name", to_string(static_cast<Group>(group))}, {"shown", (content_.groups >> group & 1U) != 0}});
    data["groups"] = groups;
    data["files"] = files();
    data["lanes"] = lanes();
    data["paths"] = paths();
    data["devices"] = story_.devices;
    data["requests"] = requests();  // comes first, because the other parts use its request numbers
    data["steps"] = steps();
    data["pathSpans"] = path_spans();
    data["storageSpans"] = storage_spans();
    if (content_.facts.summary != nullptr) data["answer"] = answer_json(story_, content_.facts);
    return data;
  }

 private:
  // Returns kNone for a step that the page does not have.
  Index inside(Index step) const {
    const auto found = std::lower_bound(shown_.begin(), shown_.end(), step);
    return found == shown_.end() || *found != step || step == kNone
               ? kNone
               : static_cast<Index>(found - shown_.begin());
  }
  // Clips [from, to] to the steps of the page. `to` is kNone if the range has no end. Returns false if none
  // is on the page.
  bool clip(Index from, Index to, Index& first, Index& last) const {
    const auto end = to == kNone ? shown_.end() : std::upper_bound(shown_.begin(), shown_.end(), to);
    first = static_cast<Index>(std::lower_bound(shown_.begin(), shown_.end(), from) - shown_.begin());
    last = static_cast<Index>(end - shown_.begin()) - 1;
    return first <= last;
  }

  // Steps that the page does not have, with the number of the step of the page that follows them.
  Json gaps() const {
    Json out = Json::array();
    std::size_t last = 0, at = 0;
    const auto add = [&](std::size_t end) {
      if (end != last)
        out.push_back({{"before", at},
                       {"steps", end - last},
                       {"from", story_.steps[last].at},
                       {"to", story_.steps[end - 1].at}});
    };
    for (const Range& range : content_.ranges) {
      add(range.from);
      at += range.to - range.from;
      last = range.to;
    }
    add(story_.steps.size());
    return out;
  }

  Json files() const {
    Json out = Json::array();
    for (const TraceFile& file : story_.files) {
      out.push_back({{"name", file.name},
                     {"tool", file.tool},
                     {"role", file.role},
                     {"backend", file.backend},
                     {"seed", file.seed},
                     {"options", file.options},
                     {"records", file.records},
                     {"beginningMissing", file.beginning_missing},
                     {"stopped", file.stopped},
                     {"clock", file.clock}});
    }
    return out;
  }

  Json lanes() const {
    constexpr const char* kKinds[] = {"client", "connection", "server", "storage"};
    Json out = Json::array();
    for (const Lane& lane : story_.lanes) {
      out.push_back({{"kind", kKinds[static_cast<unsigned>(lane.kind)]},
                     {"name", lane.name},
                     {"owner", lane.owner},
                     {"path", lane.path},
                     {"con", lane.con},
                     {"recorded", lane.recorded}});
    }
    return out;
  }

  Json paths() const {
    Json out = Json::array();
    for (const Path& path : story_.paths) {
      out.push_back({{"owner", path.owner},
                     {"number", path.number},
                     {"name", story_.clients[static_cast<std::size_t>(path.owner)].name + " path " +
                                  std::to_string(path.number)}});
    }
    return out;
  }

  Json intern(const std::string& text) {
    const auto [at, fresh] = strings_.try_emplace(text, strings_.size());
    if (fresh) table_.push_back(text);
    return at->second;
  }

  // Writes one array per property of a step instead of one object per step, so that a page of 5,000 steps is
  // smaller than 1 MB.
  Json steps() {
    Json out;
    constexpr const char* kColumns[] = {"file",  "record", "time",  "at",    "lane",   "wire",
                                        "shape", "group",  "tone",  "lost",  "path",   "io",
                                        "peer",  "key",    "event", "title", "fields", "mark"};
    for (const char* column : kColumns) out[column] = Json::array();
    for (const Index at : shown_) {
      const Step& step = story_.steps[static_cast<std::size_t>(at)];
      Json wire = kNone, key = "";
      if (step.connection != kNone) {
        const Connection& connection = story_.connections[static_cast<std::size_t>(step.connection)];
        wire = connection.lane;
        key = std::to_string(connection.key.path) + '.' + std::to_string(connection.key.con) + '.' +
              std::to_string(connection.key.epoch);
      }
      out["file"].push_back(step.file);
      out["record"].push_back(step.record);
      out["time"].push_back(step.time);
      out["at"].push_back(step.at);
      out["lane"].push_back(story_.lane_of(step));
      out["wire"].push_back(wire);
      out["shape"].push_back(static_cast<unsigned>(step.shape));
      out["group"].push_back(static_cast<unsigned>(step.group));
      out["tone"].push_back(static_cast<unsigned>(step.tone));
      out["lost"].push_back(step.lost ? 1 : 0);
      out["path"].push_back(step.path);
      out["io"].push_back(request_number(step.io));
      out["peer"].push_back(inside(step.peer));
      out["key"].push_back(intern(key.get<std::string>()));
      out["event"].push_back(intern(step.event));
      out["title"].push_back(intern(step.title));
      out["fields"].push_back(intern(step.fields));
      out["mark"].push_back(step.mark);
    }
    out["strings"] = table_;
    return out;
  }

  // Writes the requests of which the page has at least one step between their ends.
  Json requests() {
    Json out = Json::array();
    numbers_.assign(story_.requests.size(), kNone);
    for (std::size_t io = 0; io < story_.requests.size(); ++io) {
      const Request& request = story_.requests[io];
      Index first = 0, last = 0;
      if (!clip(request.first, request.last, first, last)) continue;
      numbers_[io] = static_cast<Index>(out.size());
      const bool cut = inside(request.first) == kNone;
      const bool open = inside(request.last) == kNone;
      const std::int64_t took = request.last == kNone ? -1 : request.last_at - request.first_at;
      out.push_back(
          Json::array({first, last, open ? 1 : 0, request.write ? 1 : 0, request.failed_over ? 1 : 0,
                       request.failed ? 1 : 0, request.bytes, request.permit, client_of(request.machine),
                       cut ? 1 : 0, took, request.device}));
    }
    return out;
  }
  Index request_number(Index io) const {
    return io == kNone ? kNone : numbers_[static_cast<std::size_t>(io)];
  }

  // Returns the client of a state machine; kNone for a server.
  Index client_of(Index machine) const {
    const Machine& one = story_.machines[static_cast<std::size_t>(machine)];
    for (std::size_t i = 0; i < story_.clients.size(); ++i) {
      if (story_.clients[i].file == one.file && story_.clients[i].instance == one.instance)
        return static_cast<Index>(i);
    }
    return kNone;
  }

  Json path_spans() const {
    Json out = Json::array();
    for (const PathSpan& span : story_.path_spans) {
      Index first = 0, last = 0;
      if (clip(span.from, span.to, first, last))
        out.push_back(Json::array(
            {span.path, span.side == Side::client ? 0 : 1, span.state, span.reason, first, last}));
    }
    return out;
  }
  Json storage_spans() const {
    Json out = Json::array();
    for (const StorageSpan& span : story_.storage_spans) {
      Index first = 0, last = 0;
      if (clip(span.from, span.to, first, last))
        out.push_back(Json::array({request_number(span.io), first, last, span.to == kNone ? 1 : 0}));
    }
    return out;
  }

  const Story& story_;
  const PageContent& content_;
  std::vector<Index> shown_;  // steps of the page
  std::map<std::string, std::size_t> strings_;
  std::vector<std::string> table_;
  std::vector<Index> numbers_;  // number of each request on the page; kNone: not on the page
};

void replace(std::string& text, std::string_view what, std::string_view with) {
  const auto at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), with);
}

}  // namespace

std::string story_json(const Story& story, const PageContent& content) {
  // json_text() accepts invalid UTF-8, which names and fields from a trace may contain.
  return tools::json_text(PageData(story, content).all());
}

std::string story_page(const Story& story, const PageContent& content) {
  std::string json = story_json(story, content);
  // Escapes '<', so that no data can end the <script> element.
  for (auto at = json.find('<'); at != std::string::npos; at = json.find('<', at + 6))
    json.replace(at, 1, "\\u003c");
  std::string page(page_parts::html());
  replace(page, "/*STYLE*/", page_parts::style());
  replace(page, "/*SCRIPT*/", page_parts::script());
  replace(page, "/*DATA*/", json);
  return page;
}

}  // namespace rtrs::tools::sequence
