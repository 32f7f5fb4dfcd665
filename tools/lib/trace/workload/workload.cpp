#include "tools/lib/trace/workload/workload.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/proto/errc.hpp"
#include "core/rnbd/client_events.hpp"
#include "core/wire/linux_errno.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"

namespace rtrs::workload {

namespace {

using wire::rnbd::Opcode;

// Looks a field up by name, because another trace version may order fields differently or lack some.
const trace::Value* field(const trace::Record& record, std::string_view name) {
  const auto& fields = record.event->fields;
  for (std::size_t i = 0; i < fields.size() && i < record.values.size(); ++i)
    if (fields[i].name == name) return &record.values[i];
  return nullptr;
}
std::uint64_t number(const trace::Record& record, std::string_view name) {
  const trace::Value* const value = field(record, name);
  return value == nullptr ? 0 : value->number;
}
wire::Bytes bytes(const trace::Record& record, std::string_view name) {
  const trace::Value* const value = field(record, name);
  if (value == nullptr) return {};
  return {reinterpret_cast<const std::byte*>(value->bytes.data()), value->bytes.size()};
}

class Reading {
 public:
  // Returns an empty string, or the reason why reading must stop.
  std::string take(const trace::Record& record) {
    const std::string_view event = record.event->name;
    if (event == "BeginClient") return begin(client_, record, "clients");
    if (event == "BeginClientDevices") return begin(devices_, record, "clients of block devices");
    if (devices_ && record.instance == *devices_) {
      if (event == "SendMessage") return sent_message(record), std::string();
      if (event == "MessageDone") return message_done(record);
      if (event == "IoDone") io_done(record);
      if (event == "IoJudged") io_judged(record);
    }
    if (!client_ || record.instance != *client_) return {};
    if (event == "Connected") return connected(record), std::string();
    if (event == "Submitted") return submitted(record), std::string();
    if (event == "PostRequest") posts_[post_of(record)] = number(record, "permit");
    if (event == "WireSent") return wire_sent(record);
    if (event == "Complete") completed(record);
    return {};
  }

  tl::expected<Workload, std::string> end() {
    const auto refuse = [](const char* why) { return tl::unexpected(std::string(why)); };
    if (!client_) return refuse("it is not the trace of a client");
    if (work_.requests.empty() && work_.unsent == 0)
      return refuse("no device was opened and no IO was requested");
    if (work_.requests.empty() && has_notes_) return refuse("it has no IO of block devices");
    if (!has_notes_)
      return refuse("it has no messages of the wire; record it with trace_detail=wire or payload");
    drop_tries();
    return std::move(work_);
  }

 private:
  using Post = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // path, connection, immediate
  static Post post_of(const trace::Record& record) {
    return {number(record, "key.path"), number(record, "key.con"), number(record, "imm")};
  }

  // A submitted IO that has no response yet. The map key is the permit.
  struct Open {
    std::uint64_t record = 0;
    Nanos at = 0;
    std::uint16_t affinity = 0;
    std::optional<std::size_t> request;  // set when the IO is sent
  };

  static std::string begin(std::optional<InstanceId>& machine, const trace::Record& record,
                           const char* what) {
    if (machine) return std::string("it has several ") + what + "; record each client in a separate trace";
    machine = record.instance;
    return {};
  }

  std::size_t add(Asked asked) {
    work_.requests.push_back(std::move(asked));
    work_.moments.push_back({work_.requests.size() - 1, false});
    return work_.requests.size() - 1;
  }
  void answer(std::size_t request, Nanos at, std::uint64_t peer_errno) {
    Asked& asked = work_.requests[request];
    asked.answered = true;
    asked.answered_at = at;
    asked.peer_errno = static_cast<std::uint16_t>(peer_errno);
    work_.moments.push_back({request, true});
  }

  void connected(const trace::Record& record) {
    if (work_.queue_depth != 0) return;
    work_.max_io_size = static_cast<std::uint32_t>(number(record, "max_io_size"));
    work_.queue_depth = static_cast<std::uint16_t>(number(record, "queue_depth"));
  }

  void sent_message(const trace::Record& record) {
    const wire::Bytes header = bytes(record, "header");
    Asked asked;
    asked.record = record.seq;
    asked.at = record.time;
    if (const auto open = wire::rnbd::parse_open(header)) {
      asked.kind = Asked::Kind::open;
      asked.mode = open.value.access_mode;
      const std::string name(open.value.device_name.view());
      auto& names = work_.devices;
      asked.device = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      if (asked.device == names.size()) names.push_back(name);
      // After a reconnect a client opens its devices again. These OPENs are not part of the workload.
      if (std::exchange(is_open_[asked.device], true)) {
        again_[number(record, "token")] = asked.device;
        return;
      }
    } else if (const auto close = wire::rnbd::parse_close(header)) {
      const auto known = ids_.find(close.value.device_id);
      if (known == ids_.end() || !std::exchange(is_open_[known->second], false)) return;
      asked.kind = Asked::Kind::close;
      asked.device = known->second;
    } else {
      return;
    }
    messages_[number(record, "token")] = add(std::move(asked));
  }

  std::string message_done(const trace::Record& record) {
    const std::uint64_t token = number(record, "token");
    const auto response = wire::rnbd::parse_open_rsp(bytes(record, "response"));
    if (const auto again = again_.find(token); again != again_.end()) {
      if (response) ids_[response.value.device_id] = again->second;
      again_.erase(again);
      return {};
    }
    const auto found = messages_.find(token);
    if (found == messages_.end()) return {};
    const std::size_t request = found->second;
    messages_.erase(found);
    Asked& asked = work_.requests[request];
    const std::uint64_t peer_errno = number(record, "peer_errno");
    const bool opens = asked.kind == Asked::Kind::open;
    if (opens && (number(record, "delivered") == 0 || peer_errno != 0)) is_open_[asked.device] = false;
    if (number(record, "delivered") == 0) return {};
    if (opens && peer_errno == 0) {
      if (!response) return "the answer to the opening of a device cannot be read";
      asked.opened = response.value;
      ids_[response.value.device_id] = asked.device;
    }
    answer(request, record.time, peer_errno);
    return {};
  }

  void submitted(const trace::Record& record) {
    if (number(record, "service") != 0) {
      io_.erase(number(record, "permit"));
      return;
    }
    io_[number(record, "permit")] = {record.seq, record.time,
                                     static_cast<std::uint16_t>(number(record, "affinity")), std::nullopt};
  }

  std::string wire_sent(const trace::Record& record) {
    const auto post = posts_.find(post_of(record));
    if (post == posts_.end()) return {};
    const auto open = io_.find(post->second);
    posts_.erase(post);
    has_notes_ = true;
    // The post carries no IO, or sends the IO again.
    if (open == io_.end() || open->second.request) return {};
    const wire::Bytes head = bytes(record, "head");
    const wire::Bytes header = trace::user_header_of(head);
    const auto io = wire::rnbd::parse_io(header);
    if (!io) return {};
    const auto device = ids_.find(io.value.device_id);
    if (device == ids_.end())
      return "it has IO of a device whose opening is not in it; record from the beginning of the session";
    Asked asked;
    asked.record = open->second.record;
    asked.at = open->second.at;
    asked.device = device->second;
    asked.io = io.value;
    asked.affinity = open->second.affinity;
    if (io.value.opcode == Opcode::write)
      asked.data.assign(reinterpret_cast<const char*>(head.data()),
                        static_cast<std::size_t>(header.data() - head.data()));
    open->second.request = add(std::move(asked));
    return {};
  }

  void completed(const trace::Record& record) {
    const auto open = io_.find(number(record, "permit"));
    if (open == io_.end()) return;
    const auto result = static_cast<Errc>(number(record, "result"));
    if (!open->second.request)
      ++work_.unsent;
    else if (result == Errc::ok || result == Errc::peer_error)
      answer(*open->second.request, record.time, number(record, "peer_errno"));
    if (open->second.request && number(record, "peer_errno") == wire::linux_errno::kEnotconn)
      not_open_.push_back(*open->second.request);
    io_.erase(open);
  }

  // A server that was restarted answers ENOTCONN. If the client opens the device again and repeats the IO,
  // the answer belongs to the restart, and only the repeated IO to the workload. The device machine is given
  // the answers in the order of the completions.
  void io_done(const trace::Record& record) {
    judged_.reset();
    if (number(record, "peer_errno") != wire::linux_errno::kEnotconn || not_open_.empty()) return;
    judged_ = not_open_.front();
    not_open_.pop_front();
  }
  void io_judged(const trace::Record& record) {
    const auto disposition = static_cast<rnbd::Disposition>(number(record, "disposition"));
    if (judged_ && disposition == rnbd::Disposition::retry_after_remap) tries_.insert(*judged_);
    judged_.reset();
  }
  void drop_tries() {
    if (tries_.empty()) return;
    std::vector<std::size_t> place(work_.requests.size());
    std::size_t kept = 0;
    for (std::size_t at = 0; at < work_.requests.size(); ++at) {
      place[at] = kept;
      if (tries_.contains(at)) continue;
      if (kept != at) work_.requests[kept] = std::move(work_.requests[at]);
      ++kept;
    }
    work_.requests.resize(kept);
    std::erase_if(work_.moments, [this](const Moment& one) { return tries_.contains(one.request); });
    for (Moment& moment : work_.moments) moment.request = place[moment.request];
  }

  std::optional<InstanceId> client_;
  std::optional<InstanceId> devices_;
  bool has_notes_ = false;
  Workload work_;
  std::map<std::size_t, bool> is_open_;            // indexed by device: true if the device is open
  std::map<std::uint32_t, std::size_t> ids_;       // index of the device, by the device id of the server
  std::map<std::uint64_t, std::size_t> messages_;  // index of the request, by token of the pending message
  std::map<std::uint64_t, std::size_t>
      again_;  // index of the device, by the token of the pending reopen after a reconnect
  std::map<std::uint64_t, Open> io_;
  std::deque<std::size_t> not_open_;  // requests that a server answered with ENOTCONN, not judged yet
  std::optional<std::size_t> judged_;
  std::set<std::size_t> tries_;          // requests that the client repeated
  std::map<Post, std::uint64_t> posts_;  // permits whose wire record has not been read yet
};

}  // namespace

bool changes_blocks(const Asked& asked) {
  return asked.kind == Asked::Kind::io && asked.io.opcode != Opcode::read && asked.io.opcode != Opcode::flush;
}

tl::expected<Workload, std::string> read_workload(trace::Reader& reader) {
  Reading reading;
  trace::Record record;
  while (reader.next(record) == trace::Reader::Status::ok)
    if (std::string why = reading.take(record); !why.empty()) return tl::unexpected(std::move(why));
  return reading.end();
}

}  // namespace rtrs::workload
