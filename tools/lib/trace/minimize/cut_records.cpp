#include "tools/lib/trace/minimize/cut_records.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/record/writer.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"
#include "tools/lib/trace/minimize/thin_out.hpp"

namespace rtrs::tools {

namespace {

using Numbers = std::vector<std::uint32_t>;
using Place = std::array<std::uint64_t, 4>;  // instance, path, connection, epoch

// Sets `place` from the connection key in the fields of the record. If the record has no key, sets only the
// instance and returns false.
bool place_of(const trace::Record& record, Place& place) {
  place = {record.instance, 0, 0, 0};
  bool any = false;
  for (std::size_t at = 0; at < record.values.size(); ++at) {
    const std::string& name = record.event->fields[at].name;
    const std::size_t part = name == "key.path" ? 1 : name == "key.con" ? 2 : name == "key.epoch" ? 3 : 0;
    if (part == 0) continue;
    place[part] = record.values[at].number;
    any = true;
  }
  return any;
}

}  // namespace

tl::expected<RecordCut, std::string> RecordCut::load(trace::Source& source) {
  RecordCut cut;
  trace::Reader reader(source);
  if (reader.open() != trace::Reader::Status::ok) return tl::make_unexpected(reader.stop().reason);
  cut.header_ = reader.header();
  std::map<Place, std::uint32_t> connections;
  trace::Record record;
  trace::Reader::Status status;
  while ((status = reader.next(record)) == trace::Reader::Status::ok) {
    Kept kept;
    kept.event = record.event->id;
    kept.instance = record.instance;
    kept.time = record.time;
    kept.removable = record.event->category != trace::EventClass::control ||
                     record.event->id == trace::kKindOf<trace::StateHash>;
    Place place;
    kept.connection = Thinning::kNoGroup;
    if (place_of(record, place))
      kept.connection =
          connections.try_emplace(place, static_cast<std::uint32_t>(connections.size())).first->second;
    for (const trace::Value& value : record.values) {
      kept.values.push_back(value);
      if (value.bytes.empty()) continue;
      cut.bytes_.emplace_back(value.bytes);
      kept.values.back().bytes = cut.bytes_.back();
    }
    if (kept.removable) cut.removable_.push_back(static_cast<std::uint32_t>(cut.records_.size()));
    cut.records_.push_back(std::move(kept));
  }
  if (status == trace::Reader::Status::damaged) cut.damage_ = damage_text(reader);
  if (!cut.damage_.empty() && cut.records_.empty())
    return tl::make_unexpected(cut.damage_ + "; no record of it can be read");
  return cut;
}

Numbers RecordCut::selected(const Numbers& kept) const {
  std::set<InstanceId> living;
  std::set<std::uint32_t> chosen;
  for (const std::uint32_t index : kept) {
    chosen.insert(removable_[index]);
    living.insert(records_[removable_[index]].instance);
  }
  Numbers all;
  for (std::uint32_t at = 0; at < records_.size(); ++at) {
    const Kept& record = records_[at];
    if (record.removable ? chosen.contains(at) : living.contains(record.instance)) all.push_back(at);
  }
  return all;
}

std::size_t RecordCut::up_to(const Numbers& kept, std::uint64_t seq) const {
  std::size_t count = 0;
  std::uint64_t number = 0;
  for (const std::uint32_t at : selected(kept)) {
    if (number++ > seq) break;
    if (records_[at].removable) ++count;
  }
  return count;
}

int RecordCut::write(const Numbers& kept, const std::string& path, std::uint64_t& records) const {
  int error = 0;
  auto sink = trace::FdSink::create(path.c_str(), error);
  if (!sink) return error;
  trace::Writer writer(std::move(sink));
  trace::Header header = header_;
  header.origin.options.emplace_back("made_by=urtrs-replay min");
  error = writer.start(header);
  for (const std::uint32_t at : selected(kept)) {
    if (error != 0) break;
    const Kept& record = records_[at];
    error =
        writer.append_values(*header_.schema.find(record.event), record.instance, record.time, record.values);
  }
  records = writer.records();
  const int ended = writer.finish();
  return error != 0 ? error : ended;
}

}  // namespace rtrs::tools
