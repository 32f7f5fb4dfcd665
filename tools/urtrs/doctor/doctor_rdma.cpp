#include "tools/urtrs/doctor/doctor_rdma.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "tools/urtrs/doctor/rdma_lines.hpp"
#include "tools/urtrs/views/output.hpp"
#ifdef URTRS_HAS_VERBS
#include "tools/lib/control/rdma_probe/peer.hpp"
#include "tools/lib/control/rdma_probe/probe.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#endif

namespace rtrs::admin {

namespace {

int told(const probe::Lines& lines, const Options& options, int otherwise) {
  if (const int code = print(rdma_checks(lines), options); code != done) return code;
  if (const int number = interrupted(); number != 0) return 128 + number;
  return otherwise != done ? otherwise : any_failed(lines) ? failed : done;
}

}  // namespace

#ifdef URTRS_HAS_VERBS

namespace {

std::optional<std::uint16_t> port_of(const std::string& text, std::uint16_t least) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && at == end && port >= least ? std::optional(port) : std::nullopt;
}

}  // namespace

int doctor_rdma(const Command& command) {
  const Options& options = command.options;
  const bool for_programs = options.format == Format::json;
  const std::string address = command.arguments.empty() ? "" : command.arguments[0];
  const std::uint16_t least = options.rdma.listens ? 0 : 1;
  const auto given = options.map.parameters.find("port");
  const auto port =
      given == options.map.parameters.end() ? std::optional(probe::kPeerPort) : port_of(given->second, least);
  if (!port)
    return fail(
        Mistake{fmt::format("--port: expected {} to 65535, got \"{}\"", least, given->second), "", false},
        for_programs);
  using Log = tools::ProgressLine::Log;
  tools::ProgressLine line(for_programs ? Log::silent : Log::lines);
  probe::Pace pace;
  pace.stop = [] { return interrupted() != 0; };
  pace.progress = [&line](const std::string& text) {
    if (line.is_due()) line.show(text);
  };
  if (options.rdma.listens) {
    probe::Listening listening{.address = address, .port = *port};
    listening.ready = [&line](std::uint16_t own) {
      line.clear();
      std::fprintf(stderr, "urtrs: listening on port %u for 10 minutes; Ctrl-C ends it\n", own);
    };
    const probe::Lines lines = probe::listen_for_peers(listening, pace);
    line.clear();
    return told(lines, options, done);
  }
  if (!address.empty()) {
    probe::PeerWanted wanted{.address = address, .port = *port};
    if (options.rdma.rounds != 0) wanted.rounds = options.rdma.rounds;
    const probe::PeerLines peer = probe::probe_peer(wanted, pace);
    line.clear();
    return told(peer.lines, options, peer.silent ? timed_out : done);
  }
  probe::Wanted wanted{.device = options.rdma.device};
  if (options.rdma.rounds != 0) wanted.rounds = {.count = options.rdma.rounds, .all = true};
  const probe::Lines lines = probe::probe(*probe::this_system(), wanted, pace);
  line.clear();
  return told(lines, options, done);
}

#else

int doctor_rdma(const Command& command) {
  return told({{.check = "RDMA devices",
                .grade = probe::Line::Grade::failed,
                .what = "this build has no verbs",
                .remedy = "build it where libibverbs-dev and librdmacm-dev are installed"}},
              command.options, done);
}

#endif

}  // namespace rtrs::admin
