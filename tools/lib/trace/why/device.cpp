#include "tools/lib/trace/why/device.hpp"

#include <algorithm>
#include <iterator>

#include "tools/lib/trace/why/path.hpp"

namespace rtrs::tools::why {

namespace {

using Device = DeviceLog::Device;

const Device* find(const DeviceLog& log, std::uint64_t number, std::optional<Index> file) {
  for (const bool client : {true, false})
    for (const Device& one : log.devices())
      if (one.client == client && (!file || one.file == *file) &&
          std::find(one.numbers.begin(), one.numbers.end(), number) != one.numbers.end())
        return &one;
  return nullptr;
}

// Returns the notes of the device at both sides, in the order of the common time.
std::vector<DeviceNote> notes_of(const Facts& facts, const DeviceLog& log, const Device& device) {
  std::vector<DeviceNote> notes;
  for (const Device& one : log.devices())
    if (&one == &device || (one.name == device.name && one.client != device.client))
      notes.insert(notes.end(), one.notes.begin(), one.notes.end());
  std::stable_sort(notes.begin(), notes.end(), [&](const DeviceNote& a, const DeviceNote& b) {
    return facts.common(a.ref.file, a.ref.time) < facts.common(b.ref.file, b.ref.time);
  });
  return notes;
}

// Adds the notes. Equal notes become one sentence with the first and the last record.
void say_notes(const std::vector<DeviceNote>& notes, std::size_t from, Answer& answer) {
  std::vector<std::pair<DeviceNote, unsigned>> groups;
  std::vector<Ref> last;
  for (std::size_t at = from; at < notes.size(); ++at) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& one) { return one.first.text == notes[at].text; });
    if (same == groups.end()) {
      groups.emplace_back(notes[at], 1U);
      last.push_back(notes[at].ref);
    } else {
      ++same->second;
      last[static_cast<std::size_t>(same - groups.begin())] = notes[at].ref;
    }
  }
  for (std::size_t at = 0; at < groups.size(); ++at) {
    const auto& [note, times] = groups[at];
    std::vector<Ref> records{note.ref};
    if (times > 1) records.push_back(last[at]);
    answer.say(note.text + (times > 1 ? ", " + std::to_string(times) + " times" : ""), std::move(records));
  }
}

// Says which path was lost since the device was opened, if the trouble began with the session.
void say_session(const Facts& facts, std::int64_t opened, std::int64_t until, Answer& answer) {
  Index lost = kNone;
  for (const Loss& one : losses_of(facts))
    if (const std::int64_t at = facts.at(one.at); at >= opened && at <= until) lost = one.at;
  if (lost == kNone) return;
  answer.say("before, " + facts.side_name(facts.step(lost)) + " had lost " +
                 facts.path_name(facts.step(lost).path) + ": " + facts.reason(lost),
             {facts.ref(lost)});
  say_end(facts, lost, answer, 1);
}

}  // namespace

std::string device_name(const Device& device) {
  const std::string number = device.numbers.empty() ? "" : std::to_string(device.numbers.back()) + ' ';
  return number.empty() ? "device \"" + device.name + '"' : "device " + number + "(\"" + device.name + "\")";
}

Answer why_device(const Facts& facts, const DeviceLog& log, std::uint64_t number, std::optional<Index> file) {
  const Device* const device = find(log, number, file);
  return device == nullptr ? Answer{} : why_device(facts, log, *device);
}

Answer why_device(const Facts& facts, const DeviceLog& log, const Device& device) {
  const std::vector<DeviceNote> notes = notes_of(facts, log, device);
  Answer answer;
  answer.subject = Subject::device;
  const std::string name = device_name(device);
  const auto first =
      std::find_if(notes.begin(), notes.end(), [](const DeviceNote& one) { return one.trouble; });
  if (first == notes.end()) {
    answer.title = name + " had no error and was never closed by the server";
    for (const DeviceNote& note : notes)
      if (note.open) answer.say(note.text, {note.ref});
    answer.shorten();
    return answer;
  }
  const auto at = [&](const DeviceNote& note) { return facts.common(note.ref.file, note.ref.time); };
  const auto is_open = [](const DeviceNote& one) { return one.open; };
  const auto opened = std::find_if(std::make_reverse_iterator(first), notes.rend(), is_open);
  const bool closed = std::any_of(first, notes.end(), [](const DeviceNote& one) {
    return one.text.starts_with("at the client the device is closed");
  });
  const bool open_at_end = std::find_if(first, notes.end(), is_open) != notes.end();
  answer.title = name + ": " + first->text;
  if (closed && !open_at_end) answer.title += "; it was not opened again";
  say_notes(notes, static_cast<std::size_t>(first - notes.begin()), answer);
  const bool of_session = first->text.starts_with("no path") || first->text.starts_with("a new session") ||
                          first->text.find("ENOTCONN") != std::string::npos;
  Answer session;
  if (of_session) say_session(facts, opened == notes.rend() ? 0 : at(*opened), at(*first), session);
  if (session.sentences.empty()) answer.sentences.front().cause = true;
  answer.sentences.insert(answer.sentences.begin() + 1, session.sentences.begin(), session.sentences.end());
  answer.unknown = session.unknown;
  if (!facts.has(Side::server))
    answer.unknown.push_back("what the server's storage answered: there is no trace of the server");
  if (!facts.has(Side::client))
    answer.unknown.push_back("what the client did with the device: there is no trace of the client");
  answer.shorten();
  return answer;
}

}  // namespace rtrs::tools::why
