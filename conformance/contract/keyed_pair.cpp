#include "conformance/contract/keyed_pair.hpp"

#include <algorithm>
#include <array>

#include "backends/platform/tls/mac.hpp"
#include "core/keyed/toy_mac.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {

namespace {

CarriedData::Bytes copy_of(std::span<const std::byte> bytes) {
  return {bytes.begin(), bytes.end()};
}

CarriedData::Bytes con_req(std::uint64_t number) {
  wire::ConnReq message;
  message.cid_num = 2;
  message.recon_cnt = 1;
  message.first_conn = true;
  message.paths_uuid.bytes.fill(2);
  for (unsigned i = 0; i < 8; ++i) message.sess_uuid.bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
  CarriedData::Bytes bytes(wire::kConnReqBytes);
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  return bytes;
}

std::uint64_t number_of(std::span<const std::byte> request) {
  const auto parsed = wire::parse_conn_req(request);
  std::uint64_t number = 0;
  for (unsigned i = 0; i < 8; ++i) number |= std::uint64_t{parsed.value.sess_uuid.bytes[i]} << (8 * i);
  return parsed ? number : 0;
}

CarriedData::Bytes con_rsp(int error) {
  wire::ConnRsp message = error == 0 ? wire::ConnRsp{} : wire::make_reject(error);
  if (error == 0) message.queue_depth = 512, message.max_io_size = 126976, message.max_hdr_size = 4096;
  CarriedData::Bytes bytes(wire::kConnRspBytes);
  EXPECT_EQ(wire::encode(message, bytes), bytes.size());
  return bytes;
}

// True if `bytes` start with `front`: some fabrics pad private data with zeros.
bool begins_with(std::span<const std::byte> bytes, const CarriedData::Bytes& front) {
  return bytes.size() >= front.size() && std::equal(front.begin(), front.end(), bytes.begin());
}

keyed::MacFunction mac() {
  const keyed::MacFunction real = tls::hmac_sha256();
  return real != nullptr ? real : keyed::toy_mac;
}

keyed::SharedKey key() {
  keyed::SharedKey made{"alice", {}};
  made.secret.fill(std::byte{0x5a});
  return made;
}

std::unique_ptr<keyed::KeyedFabric> keyed_client(Fabric& inner) {
  auto made = std::make_unique<keyed::KeyedFabric>(inner);
  made->prove(mac(), key());
  return made;
}

std::unique_ptr<keyed::KeyedFabric> keyed_server(Fabric& inner) {
  auto made = std::make_unique<keyed::KeyedFabric>(inner);
  keyed::Secret secret{};
  secret.fill(std::byte{0x33});
  made->ask(mac(), secret, {key()}, keyed::Mode::require);
  return made;
}

}  // namespace

void CarrierFabric::connect(ConKey key, const PathAddress& to, const ConnectionParams& params,
                            std::span<const std::byte> private_data) {
  // Oversized private data is passed on, because the fabric must refuse it.
  if (private_data.size() > capabilities().connect_data) return inner_.connect(key, to, params, private_data);
  Asked one{++carried_.count, to, params, {}, {}};
  carried_.requests[one.number] = copy_of(private_data);
  one.request = con_req(one.number);
  const CarriedData::Bytes request = one.request;
  asked_[key.epoch] = std::move(one);
  inner_.connect(key, to, params, request);
}

void CarrierFabric::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                           std::span<const std::byte> private_data) {
  const std::uint64_t number = requests_[request];
  requests_.erase(request);
  if (private_data.size() > capabilities().accept_data)
    return inner_.accept(request, key, params, private_data);
  carried_.answers[number] = copy_of(private_data);
  inner_.accept(request, key, params, con_rsp(0));
}

void CarrierFabric::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  const std::uint64_t number = requests_[request];
  requests_.erase(request);
  carried_.answers[number] = copy_of(private_data);
  inner_.reject(request, con_rsp(wire::linux_errno::kEbusy));
}

void CarrierFabric::post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  if (const auto asked = asked_.find(key.epoch); asked != asked_.end())
    asked->second.receives.emplace_back(count, bytes_each);
  inner_.post_receive(inside(key), count, bytes_each);
}

std::size_t CarrierFabric::post(std::span<const WorkRequest> work) noexcept {
  std::vector<WorkRequest> below(work.begin(), work.end());
  for (WorkRequest& one : below) one.key = inside(one.key);
  return inner_.post(below);
}

std::size_t CarrierFabric::poll(Nanos now, std::span<FabricEvent> events) noexcept {
  const std::size_t count = inner_.poll(now, events);
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count; ++at)
    if (passes(events[at])) events[kept++] = events[at];
  return kept;
}

bool CarrierFabric::passes(FabricEvent& event) {
  if (auto* const requested = std::get_if<event::ConnectRequested>(&event)) return judged(*requested);
  bool of_first = false;  // the event belongs to the challenged connection
  std::visit(
      [&](auto& one) {
        if constexpr (requires { one.key; }) {
          of_first = (one.key.epoch & kSecond) == 0 && second_.count(one.key.epoch) != 0;
          one.key.epoch &= ~kSecond;
        }
      },
      event);
  if (of_first) {
    EXPECT_TRUE(std::holds_alternative<event::ConnectionClosed>(event));
    return false;
  }
  if (auto* const connected = std::get_if<event::Connected>(&event)) {
    const auto asked = asked_.extract(connected->key.epoch);
    EXPECT_TRUE(asked && begins_with(connected->private_data, con_rsp(0))) << "as without keys";
    if (asked) connected->private_data = carried_.answers[asked.mapped().number];
  }
  if (auto* const failed = std::get_if<event::ConnectFailed>(&event)) return answered(*failed);
  return true;
}

bool CarrierFabric::judged(event::ConnectRequested& request) {
  if (request.refusal != Reason::none) {
    EXPECT_EQ(request.refusal, Reason::challenged);
    inner_.reject(request.request, con_rsp(wire::linux_errno::kEacces));
    return false;
  }
  const std::uint64_t number = number_of(request.private_data);
  EXPECT_TRUE(begins_with(request.private_data, con_req(number))) << "as without keys";
  EXPECT_EQ(request.identity, keyed::digest_of(mac(), "alice"));
  EXPECT_EQ(inner_.identity_of_request(request.request), "alice");
  requests_[request.request] = number;
  request.private_data = carried_.requests[number];
  return true;
}

bool CarrierFabric::answered(event::ConnectFailed& failed) {
  const auto found = asked_.find(failed.key.epoch);
  if (found == asked_.end()) return true;
  if (failed.reason == Reason::challenged && second_.count(failed.key.epoch) == 0) {
    const Asked& again = found->second;
    inner_.disconnect(failed.key);
    second_.insert(failed.key.epoch);
    ++carried_.challenges;
    const ConKey key = inside(failed.key);
    inner_.connect(key, again.to, again.params, again.request);
    for (const auto& [count, bytes_each] : again.receives) inner_.post_receive(key, count, bytes_each);
    return false;
  }
  const auto answer = carried_.answers.find(found->second.number);
  if (failed.reason == Reason::rejected && answer != carried_.answers.end())
    failed.private_data = answer->second;
  asked_.erase(found);
  return true;
}

KeyedPair::KeyedPair(std::unique_ptr<FabricPair> inner)
    : inner_(std::move(inner)),
      client_(std::make_unique<CarrierFabric>(keyed_client(inner_->client()), carried_)),
      server_(std::make_unique<CarrierFabric>(keyed_server(inner_->server()), carried_)) {}

// If any connection was answered, at least one challenge must have taken place.
KeyedPair::~KeyedPair() {
  EXPECT_TRUE(carried_.answers.empty() || carried_.challenges != 0);
}

}  // namespace rtrs::conformance
