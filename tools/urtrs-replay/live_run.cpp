#include "tools/urtrs-replay/live_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "backends/bindings/asio/path_syntax.hpp"
#include "backends/bindings/asio/session.hpp"
#include "backends/platform/system/identities.hpp"
#include "core/proto/reasons.hpp"

namespace rtrs::replay_tool {

namespace {

namespace wire_rnbd = wire::rnbd;

// Maximum time stamp that is taken from a trace, because times in a trace are not trusted.
constexpr Nanos kMaxTraceLength = seconds(30 * 86400);

// Memory of one request. The session uses it until the response has arrived.
struct Slot {
  std::array<std::byte, wire_rnbd::kOpenBytes> header{};
  std::size_t header_bytes = 0;
  std::vector<std::byte> data;
  bool done = false;
  Nanos done_at = 0;
  boost::system::error_code error;
};

class Player {
 public:
  Player(const workload::Workload& work, const LiveOptions& options, std::unique_ptr<Fabric> fabric,
         asio::SessionSettings settings)
      : work_(work), options_(options), session_(context_, std::move(fabric), std::move(settings)) {
    run_.answers.resize(work.requests.size());
    ids_.resize(work.devices.size());
  }

  // Opens the session. Returns an error message or "".
  std::string open(Nanos bound) {
    session_.async_open([this](const boost::system::error_code& error) {
      opening_.error = error;
      opening_.done = true;
    });
    if (!run_until(asio::steady_now() + bound, [this] { return opening_.done; }) || opening_.error)
      return failure_of_paths();
    return agree_on_version();
  }

  LiveRun play() {
    run_.max_io_size = session_.client().max_io_size();
    run_.queue_depth = static_cast<std::uint16_t>(session_.client().depth());
    const Nanos began = asio::steady_now();
    for (const workload::Moment& moment : work_.moments) {
      if (moment.answer)
        finish(moment.request);
      else
        ask(moment.request, began);
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) finish(i);
    return std::move(run_);
  }

  void close() {
    bool done = false;
    session_.async_close([&done](const boost::system::error_code&) { done = true; });
    run_until(asio::steady_now() + seconds(5), [&] { return done; });
  }

 private:
  template <class Done>
  bool run_until(Nanos end, Done done) {
    while (!done()) {
      const Nanos now = asio::steady_now();
      if (now >= end) return false;
      context_.restart();
      context_.run_one_for(std::chrono::nanoseconds(end - now));
    }
    return true;
  }

  std::string failure_of_paths() {
    std::string why;
    const auto paths = session_.client().paths();
    for (unsigned i = 0; i < paths.size(); ++i) {
      if (paths[i].state == PathState::absent) continue;
      const ReasonText words = words_of(paths[i].reason, paths[i].peer_errno);
      why += fmt::format(
          "{}path {}: {}", why.empty() ? "" : "; ", asio::to_text(session_.client().address(i)),
          *words.hint == '\0' ? "no answer yet" : fmt::format("{}; {}", words.sentence, words.hint));
    }
    return why.empty() ? "no path is connected" : why;
  }

  std::string agree_on_version() {
    Slot& slot = opening_;
    slot.done = false;
    slot.header_bytes = wire_rnbd::encode(wire_rnbd::SessInfo{}, slot.header);
    slot.data.resize(wire_rnbd::kSessInfoRspBytes);
    send(slot, Direction::read, true, 0);
    if (!run_until(asio::steady_now() + options_.patience, [&] { return slot.done; }))
      return "the server does not answer the first message of RNBD";
    if (slot.error) return "the server refuses the first message of RNBD: " + slot.error.message();
    const auto info = wire_rnbd::parse_sess_info_rsp(slot.data);
    return info && info.value.version == wire_rnbd::kProtoMajor
               ? ""
               : "the server sent an invalid response to the first message of RNBD";
  }

  void send(Slot& slot, Direction direction, bool service, std::uint16_t affinity) {
    IoRequest request;
    request.direction = direction;
    request.service = service;
    request.affinity = affinity;
    request.user_header = std::span(slot.header).first(slot.header_bytes);
    request.data = slot.data;
    session_.async_request(request, [&slot](const boost::system::error_code& error) {
      slot.error = error;
      slot.done_at = asio::steady_now();
      slot.done = true;
    });
  }

  // Builds the message of a request. Returns an error message or "".
  std::string prepare(const workload::Asked& asked, Slot& slot, wire_rnbd::Framing& framing) {
    const std::optional<std::uint32_t> id = ids_[asked.device];
    switch (asked.kind) {
      case workload::Asked::Kind::open: {
        wire_rnbd::Open open;
        open.access_mode = asked.mode;
        const std::string& name = options_.device.empty() ? work_.devices[asked.device] : options_.device;
        const auto field = wire::make_name(name);
        if (!field) return "its name is too long";
        open.device_name = field.value;
        slot.header_bytes = wire_rnbd::encode(open, slot.header);
        framing = wire_rnbd::kOpenFraming;
        break;
      }
      case workload::Asked::Kind::close:
        slot.header_bytes = wire_rnbd::encode(wire_rnbd::Close{*id}, slot.header);
        framing = wire_rnbd::kCloseFraming;
        break;
      case workload::Asked::Kind::io: {
        wire_rnbd::Io io = asked.io;
        io.device_id = *id;
        slot.header_bytes = wire_rnbd::encode(io, slot.header);
        framing = wire_rnbd::io_framing(io);
        break;
      }
    }
    if (slot.header_bytes == 0) return "it cannot be written as a message";
    if (framing.data_len > run_.max_io_size)
      return fmt::format("{} bytes exceed the maximum of {} of an IO", framing.data_len, run_.max_io_size);
    slot.data.resize(framing.data_len);
    if (framing.direction == Direction::write && !asked.data.empty()) {
      const std::size_t known = std::min(asked.data.size(), slot.data.size());
      std::memcpy(slot.data.data() + (slot.data.size() - known),
                  asked.data.data() + (asked.data.size() - known), known);
    }
    return {};
  }

  void ask(std::size_t number, Nanos began) {
    const workload::Asked& asked = work_.requests[number];
    if (given_up_ || (!options_.changes && workload::changes_blocks(asked))) return;
    if (options_.as_recorded) {
      const Nanos first = work_.requests.front().at;
      run_until(began + std::min(asked.at > first ? asked.at - first : 0, kMaxTraceLength),
                [] { return false; });
    }
    // Keeps at most queue_depth requests in flight; the recorded server may have allowed more.
    while (!given_up_ && in_flight_.size() >= run_.queue_depth) finish(in_flight_.front());
    if (given_up_) return;
    if (slots_.size() <= number) slots_.resize(number + 1);
    LiveAnswer& answer = run_.answers[number];
    if (asked.kind != workload::Asked::Kind::open && !ids_[asked.device]) {
      ++run_.without_device;
      return;
    }
    answer.asked = true;
    auto slot = std::make_unique<Slot>();
    wire_rnbd::Framing framing;
    answer.told.failure = prepare(asked, *slot, framing);
    if (!answer.told.failure.empty()) return;
    answer.took = asio::steady_now();
    slots_[number] = std::move(slot);
    in_flight_.push_back(number);
    send(*slots_[number], framing.direction, framing.service_connection, asked.affinity);
    if (options_.progress) options_.progress(number + 1);
  }

  // Waits for the response to request `number`, unless the request was not sent.
  void finish(std::size_t number) {
    if (number >= slots_.size() || !slots_[number] || number == given_up_) return;
    Slot& slot = *slots_[number];
    LiveAnswer& answer = run_.answers[number];
    if (given_up_ && !slot.done) {  // the run has ended at a time limit, so the result is unknown
      answer.asked = false;
      return;
    }
    if (!run_until(asio::steady_now() + options_.patience, [&] { return slot.done; })) {
      answer.told.failure = "no answer";
      answer.took = 0;
      given_up_ = number;
      return;
    }
    answer.took = slot.done_at - answer.took;
    read_answer(work_.requests[number], slot, answer.told);
    in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), number));
    slots_[number].reset();
  }

  void read_answer(const workload::Asked& asked, const Slot& slot, workload::Told& told) {
    const bool by_server = !slot.error || slot.error.category() == boost::system::generic_category();
    if (!by_server) {
      told.failure = slot.error.message();
      return;
    }
    told.answered = true;
    told.peer_errno = static_cast<std::uint16_t>(slot.error.value());
    if (asked.kind == workload::Asked::Kind::close && !slot.error) ids_[asked.device].reset();
    if (asked.kind != workload::Asked::Kind::open || slot.error) return;
    const auto response = wire_rnbd::parse_open_rsp(slot.data);
    if (!response) {
      told.answered = false;
      told.failure = "the answer cannot be read";
      return;
    }
    told.opened = response.value;
    ids_[asked.device] = response.value.device_id;
  }

  const workload::Workload& work_;
  const LiveOptions& options_;
  LiveRun run_;
  std::vector<std::optional<std::uint32_t>> ids_;  // device ids that the live server assigned, by device
  std::vector<std::unique_ptr<Slot>> slots_;       // indexed by request; null: the request is not in flight
  std::vector<std::size_t> in_flight_;
  Slot opening_;                         // memory of the request that opens the session
  std::optional<std::size_t> given_up_;  // request without a response; no more requests are sent
  boost::asio::io_context context_{1};
  asio::Session session_;  // declared last, so that it is destroyed before the slots
};

}  // namespace

tl::expected<LiveRun, std::string> run_live(const workload::Workload& work, const plugin::Settings& settings,
                                            const LiveOptions& options) {
  tools::FabricChoice choice = settings.fabric;
  choice.client = true;
  choice.undelivered_timeout = dead_peer_time(settings.protocol.heartbeat);
  auto fabric = tools::open_tcp_or_verbs(choice);
  if (!fabric) return tl::unexpected(tools::with_underscores(std::move(fabric.error())));
  asio::SessionSettings how;
  how.client.protocol = settings.protocol;
  how.client.session_name = settings.session;
  for (const std::string& path : settings.paths)
    if (const auto address = asio::parse_path(path, settings.port)) how.client.paths.push_back(*address);
  draw_identities(how.client);
  Player player(work, options, std::move(*fabric), std::move(how));
  if (std::string why = player.open(settings.connect_timeout); !why.empty())
    return tl::unexpected(std::move(why));
  LiveRun run = player.play();
  player.close();
  return run;
}

}  // namespace rtrs::replay_tool
