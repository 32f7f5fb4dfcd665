#include "conformance/adapters/counted_io.hpp"

#include <span>

namespace rtrs::conformance {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr unsigned kPatience = 2000;  // consecutive rounds without a completion before run() fails
constexpr std::array<std::byte, 24> kUserHeader{};

std::unique_ptr<verbs::VerbsFabric> open_on(const mock_hca::Profile& profile, const Load& load) {
  verbs::VerbsOptions options;
  options.device = profile.name;
  options.invalidation = load.keys == Keys::stay ? verbs::Invalidation::off : verbs::Invalidation::automatic;
  options.posting = load.posting;
  auto fabric = verbs::open_verbs_fabric(options);
  return fabric ? std::move(*fabric) : nullptr;
}

ServerConfig server_config(Keys keys) {
  ServerConfig config;
  config.queue_depth = 64;
  config.always_invalidate = keys == Keys::of_chunks;
  return config;
}

ClientOptions client_options(const Load& load) {
  ClientOptions options;
  options.protocol.offer_invalidation = load.keys == Keys::of_requests;
  options.protocol.con_num = static_cast<std::uint16_t>(load.io_connections + 1);
  if (load.as_kernel_client) options.protocol.extensions = wire::Extensions::none;
  options.session_name = "counted";
  options.session_uuid.bytes[0] = 1;
  for (unsigned path = 0; path < kMaxPaths; ++path) {
    wire::Uuid uuid{};
    uuid.bytes[1] = static_cast<std::uint8_t>(path + 1);
    options.path_uuids.push_back(uuid);
  }
  options.paths.push_back({"192.0.2.2", "192.0.2.1", 1234});
  return options;
}

}  // namespace

CountedIo::CountedIo(const Load& load, const std::array<mock_hca::Profile, 2>& both)
    : load_(load), data_(kBytes * load.in_flight) {
  mock_hca::reset({both[0], both[1]});
  far_ = open_on(both[kServer], load);
  near_ = open_on(both[kClient], load);
  if (far_ == nullptr || near_ == nullptr) return;
  server_ = std::make_unique<Server>(clamp_to(server_config(load.keys), far_->capabilities()), nullptr);
  client_ = std::make_unique<Client>(clamp_to(client_options(load), near_->capabilities()), nullptr);
  PathAddress address;
  address.destination = "192.0.2.1";
  if (server_->listen(*far_, now_, address) != Errc::ok || client_->open(*near_, now_) != Errc::ok) return;
  for (unsigned i = 0; i < kPatience && !client_->link_up(); ++i) turn();
  const auto region = near_->register_memory(data_);
  if (!client_->link_up() || !region) return;
  region_ = *region;
  ready_ = true;
  for (unsigned i = 0; i < load.in_flight; ++i) ready_ = submit() && ready_;
}

CountedIo::~CountedIo() = default;

bool CountedIo::submit() {
  IoRequest request;
  request.direction = load_.direction;
  request.user_header = kUserHeader;
  request.affinity = affinity_++;
  request.region = region_.id;
  request.region_offset = static_cast<std::uint32_t>(kBytes * (request.affinity % load_.in_flight));
  request.data = std::span(data_).subspan(request.region_offset, kBytes);
  return client_->submit(*near_, now_, request) == Errc::ok;
}

unsigned CountedIo::turn() {
  now_ += 1000;
  std::array<ServerEvent, 64> events;
  const std::size_t asked = server_->poll(*far_, now_, events);
  {
    const Server::ResponseBatch batch(*server_, *far_);
    for (const ServerEvent& event : std::span(events).first(asked))
      if (event.kind == ServerEvent::Kind::request) server_->respond(*far_, now_, event.id, 0);
  }
  std::array<IoCompletion, 64> done;
  const std::size_t count = client_->poll(*near_, now_, done);
  for (const IoCompletion& one : std::span(done).first(count)) failed_ |= one.result != Errc::ok;
  return static_cast<unsigned>(count);
}

bool CountedIo::run(unsigned requests) {
  unsigned quiet = 0;
  for (unsigned done = 0; done < requests;) {
    const unsigned now = turn();
    done += now;
    quiet = now == 0 ? quiet + 1 : 0;
    for (unsigned i = 0; i < now; ++i) failed_ |= !submit();
    if (failed_ || quiet > kPatience) return false;
  }
  return true;
}

}  // namespace rtrs::conformance
