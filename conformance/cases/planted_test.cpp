// Proves that cases can fail: for each group of rules, a peer breaks one rule, and the case for this rule
// must detect it.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "conformance/cases/client_runner.hpp"
#include "conformance/cases/rule_breaking_fabric.hpp"
#include "conformance/cases/server_runner.hpp"
#include "conformance/cases/sim_bench.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::conformance::planted_test {
namespace {

using Bytes = RuleBreakingFabric::Bytes;
using wire::ImmType;

const Case& find(Role role, const std::string& number) {
  for (const Case* one : cases(role))
    if (one->number() == number) return *one;
  throw std::runtime_error("no case " + number);
}

bool is_answer(const WorkRequest& work) {
  const ImmType type = wire::imm_type(work.imm);
  return (work.op == WorkRequest::Op::write_imm || work.op == WorkRequest::Op::send_imm) &&
         (type == ImmType::io_rsp || type == ImmType::io_rsp_w_inv);
}
void answer_with(WorkRequest& work, int error) {
  if (is_answer(work)) work.imm = wire::encode_io_rsp(ImmType::io_rsp, work.imm & wire::kMsgIdMask, error);
}
int error_of(const WorkRequest& work) {
  return is_answer(work) ? wire::decode_io_rsp(work.imm).error : 0;
}

struct Plant {
  const char* name;
  const char* number;  // number of the case that must fail
  void (*lie)(RuleBreakingFabric&);
  void (*configure)(ServerConfig&);
};
void PrintTo(const Plant& plant, std::ostream* out) {
  *out << plant.name;
}

class PlantedServerTest : public testing::TestWithParam<Plant> {};

TEST_P(PlantedServerTest, IsFound) {
  SimBench bench;
  RuleBreakingFabric fabric(bench.peer_fabric);
  SimServer server(bench, fabric, [](ServerConfig& config) {
    if (GetParam().configure != nullptr) GetParam().configure(config);
  });
  const ServerSetup setup = server.setup();
  Endpoint endpoint(bench.tester_fabric, bench);
  ServerRunner runner(endpoint, setup);
  ASSERT_EQ(runner.start(), "");
  if (GetParam().lie != nullptr) GetParam().lie(fabric);
  const Result result = runner.run(find(Role::server, GetParam().number));
  EXPECT_EQ(result.outcome, Outcome::failed);
  EXPECT_NE(result.detail, "");
}

void never_disconnect(RuleBreakingFabric& fabric) {
  fabric.never_disconnects = true;
}
void hide_errors(RuleBreakingFabric& fabric) {
  fabric.change_work = [](WorkRequest& work) { return answer_with(work, 0), 1U; };
}
void hide_enotconn(RuleBreakingFabric& fabric) {
  fabric.change_work = [](WorkRequest& work) {
    if (error_of(work) == 107) answer_with(work, 0);
    return 1U;
  };
}
// Behaves as Linux did before a fix: builds the response in the chunk and sets only two of its fields, so
// that old bytes of the chunk are sent.
void send_stale_bytes(RuleBreakingFabric& fabric) {
  fabric.change_work = [&fabric](WorkRequest& work) {
    const LocalPart& part = work.parts[0];
    if (work.part_count == 0 || part.length != wire::rnbd::kSessInfoRspBytes) return 1U;
    const auto data = fabric.bytes(part.region).subspan(part.offset, part.length);
    for (std::size_t i = 5; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 + 11);
    return 1U;
  };
}
// A request, parsed from its chunk.
struct ParsedRequest {
  ConKey key;
  std::uint32_t chunk = 0, off = 0;  // chunk number, and offset of the header
  std::uint32_t usr_len = 0, desc_len = 0, desc_key = 0;
  std::uint64_t desc_addr = 0;
};
// Returns the request that arrived if is_bad() returns true for this request. Searches all regions, because
// each session has its own region of chunks.
std::optional<ParsedRequest> bad_request(RuleBreakingFabric& fabric, const FabricEvent& event,
                                         bool (*is_bad)(const ParsedRequest&)) {
  const auto* arrived = std::get_if<event::ImmReceived>(&event);
  if (arrived == nullptr || wire::imm_type(arrived->imm) != ImmType::io_req) return std::nullopt;
  const auto at = wire::decode_io_req(SimServer::kDepth, arrived->imm);
  for (const RegionId region : fabric.regions_of(std::size_t{SimServer::kDepth} * SimServer::kChunk)) {
    const auto chunk = fabric.bytes(region).subspan(std::size_t{at.buf_id} * SimServer::kChunk);
    const auto header = chunk.subspan(at.off, wire::kMaxIoHeaderBytes);
    const ParsedRequest request{arrived->key,
                                at.buf_id,
                                at.off,
                                wire::load_le16(header, 2),
                                wire::load_le32(header, 20),
                                wire::load_le32(header, 16),
                                wire::load_le64(header, 8)};
    if (is_bad(request)) return request;
  }
  return std::nullopt;
}
void answer(RuleBreakingFabric& fabric, const ParsedRequest& request, int error) {
  WorkRequest response;
  response.key = request.key;
  response.op = WorkRequest::Op::write_imm;
  response.imm = wire::encode_io_rsp(ImmType::io_rsp, request.chunk, error);
  EXPECT_EQ(fabric.post(std::span(&response, 1)), 1U);
}
// Behaves as Linux did before a fix: if the user header is longer than its offset allows, reads it from
// before the chunk and answers the request.
void answer_header_before_chunk(RuleBreakingFabric& fabric) {
  fabric.drop_event = [&fabric](const FabricEvent& event) {
    const auto request =
        bad_request(fabric, event, [](const ParsedRequest& one) { return one.usr_len > one.off; });
    if (!request) return false;
    answer(fabric, *request, 22);
    return true;
  };
}
// Behaves as Linux did before a fix: a read sends as many bytes as its descriptor requests, beyond the
// chunk's end. The bytes come from a separate region, because the server releases its chunks while the write
// is in flight.
void send_beyond_chunk(RuleBreakingFabric& fabric) {
  const auto leaked = fabric.allocate(SimServer::kChunk + 1);
  ASSERT_TRUE(leaked);
  fabric.drop_event = [&fabric, region = leaked->id](const FabricEvent& event) {
    const auto request = bad_request(
        fabric, event, [](const ParsedRequest& one) { return one.desc_len == SimServer::kChunk + 1; });
    if (!request) return false;
    WorkRequest data;
    data.key = request->key;
    data.op = WorkRequest::Op::write;
    data.rkey = request->desc_key;
    data.remote_addr = request->desc_addr;
    data.parts[0] = {region, 0, request->desc_len};
    data.part_count = 1;
    EXPECT_EQ(fabric.post(std::span(&data, 1)), 1U);
    answer(fabric, *request, 0);
    return true;
  };
}
// Changes the type byte. The bystander session still works, because it checks only the version.
void accept_reserved(RuleBreakingFabric& fabric) {
  fabric.change_accept = [](Bytes& bytes) { bytes[40] = std::byte{1}; };
}

constexpr Plant kServerPlants[] = {
    {"takes_any_magic", "C012",
     [](RuleBreakingFabric& fabric) {
       fabric.change_received = [](Bytes& m) { wire::store_le16(m, 2, wire::kMagic); };
     },
     nullptr},
    {"takes_any_version", "C014",
     [](RuleBreakingFabric& fabric) {
       fabric.change_received = [](Bytes& m) { wire::store_le16(m, 4, wire::kVersion); };
     },
     nullptr},
    {"leaves_garbage_in_accepts", "C003", accept_reserved, nullptr},
    {"grants_what_nobody_asked_for", "C004",
     [](RuleBreakingFabric& fabric) {
       fabric.change_accept = [](Bytes& m) { wire::store_le32(m, 16, 0x100); };
     },
     nullptr},
    {"rejects_with_zero", "C024",
     [](RuleBreakingFabric& fabric) { fabric.change_reject = [](Bytes& m) { wire::store_le16(m, 4, 0); }; },
     nullptr},
    {"rejects_with_another_errno", "C020",
     [](RuleBreakingFabric& fabric) {
       fabric.change_reject = [](Bytes& m) { wire::store_le16(m, 4, 0xff98); };
     },
     nullptr},
    {"forgets_which_cid_is_there", "C030",
     [](RuleBreakingFabric& fabric) {
       fabric.change_reject = [](Bytes& m) { wire::store_le16(m, 4, 0xfff0); };
     },
     nullptr},
    {"keeps_half_open_paths", "C038", nullptr,
     [](ServerConfig& config) { config.handshake_timeout = seconds(3600); }},
    {"keeps_a_path_whose_connection_is_lost", "C040", never_disconnect, nullptr},
    {"keeps_a_path_after_a_short_info", "C103", never_disconnect, nullptr},
    {"keeps_a_path_whose_info_came_too_early", "C113", never_disconnect, nullptr},
    {"answers_info_with_another_type", "C101",
     [](RuleBreakingFabric& fabric) { fabric.change_message = [](Bytes& m) { m[0] = std::byte{9}; }; },
     nullptr},
    {"leaves_garbage_in_info", "C102",
     [](RuleBreakingFabric& fabric) { fabric.change_message = [](Bytes& m) { m[4] = std::byte{9}; }; },
     nullptr},
    {"answers_twice", "C205",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) { return is_answer(work) ? 2U : 1U; };
     },
     nullptr},
    {"never_answers", "C202",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) { return is_answer(work) ? 0U : 1U; };
     },
     nullptr},
    {"answers_for_another_chunk", "C201",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) { return work.imm += is_answer(work) ? 1U : 0U, 1U; };
     },
     nullptr},
    {"writes_no_data", "C204",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) { return work.op == WorkRequest::Op::write ? 0U : 1U; };
     },
     nullptr},
    {"brings_no_data_with_the_answer", "C461",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) {
         if (is_answer(work)) work.part_count = 0;
         return 1U;
       };
     },
     nullptr},
    {"keeps_a_path_after_a_bad_type", "C224", never_disconnect, nullptr},
    {"keeps_a_path_after_a_bad_descriptor", "C232", never_disconnect, nullptr},
    {"judges_what_is_before_the_chunk", "C246", answer_header_before_chunk, nullptr},
    {"sends_what_is_behind_the_chunk", "C247", send_beyond_chunk, nullptr},
    {"leaves_what_the_chunk_held_in_its_answer", "C248", send_stale_bytes, nullptr},
    {"acknowledges_no_heartbeat", "C301",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) {
         return wire::imm_type(work.imm) == ImmType::hb_ack ? 0U : 1U;
       };
     },
     nullptr},
    {"never_gives_up", "C307", nullptr, [](ServerConfig& config) { config.heartbeat.missed_max = 1000; }},
    {"gives_up_early", "C307", nullptr, [](ServerConfig& config) { config.heartbeat.missed_max = 2; }},
    {"gives_up_who_acknowledges", "C308",
     [](RuleBreakingFabric& fabric) {
       fabric.drop_event = [](const FabricEvent& event) {
         const auto* received = std::get_if<event::ImmReceived>(&event);
         return received != nullptr && wire::imm_type(received->imm) == ImmType::hb_ack;
       };
     },
     nullptr},
    {"carries_out_what_it_does_not_know", "C408", hide_errors, nullptr},
    {"opens_what_is_not_there", "C414", hide_errors, nullptr},
    {"lets_a_second_writer_in", "C422", hide_errors, nullptr},
    {"reads_behind_the_end", "C443", hide_errors, nullptr},
    {"forgets_what_is_open", "C448", hide_enotconn, nullptr},
    {"writes_behind_the_end", "C474", hide_errors, nullptr},
    {"writes_what_is_read_only", "C481", hide_errors, nullptr},
};

INSTANTIATE_TEST_SUITE_P(Rules, PlantedServerTest, testing::ValuesIn(kServerPlants),
                         [](const auto& one) { return std::string(one.param.name); });

// After the server has stopped serving, every further case must report that.
TEST(DeadServerTest, ServerThatServesNoClientFailsEveryCase) {
  SimBench bench;
  RuleBreakingFabric fabric(bench.peer_fabric);
  SimServer server(bench, fabric, {});
  const ServerSetup setup = server.setup();
  Endpoint endpoint(bench.tester_fabric, bench);
  ServerRunner runner(endpoint, setup);
  ASSERT_EQ(runner.start(), "");
  fabric.change_work = [](WorkRequest&) { return 0U; };
  for (const char* number : {"C001", "C201", "C440"}) {
    EXPECT_EQ(runner.run(find(Role::server, number)).outcome, Outcome::failed) << number;
  }
}

struct ClientPlant {
  const char* name;
  const char* number;
  void (*lie)(RuleBreakingFabric&);
  void (*configure)(ClientConfig&);
};
void PrintTo(const ClientPlant& plant, std::ostream* out) {
  *out << plant.name;
}

class PlantedClientTest : public testing::TestWithParam<ClientPlant> {};

TEST_P(PlantedClientTest, IsFound) {
  SimBench bench;
  ASSERT_EQ(bench.tester_fabric.listen(PathAddress{"", "n0.p0", 1234}), Errc::ok);
  RuleBreakingFabric fabric(bench.peer_fabric);
  if (GetParam().lie != nullptr) GetParam().lie(fabric);
  Endpoint endpoint(bench.tester_fabric, bench);
  const SimClient client(bench, fabric, [](ClientConfig& config) {
    if (GetParam().configure != nullptr) GetParam().configure(config);
  });
  ClientRunner runner(endpoint, ClientSetup{});
  runner.start();
  const Result result = runner.run(find(Role::client, GetParam().number));
  EXPECT_EQ(result.outcome, Outcome::failed);
  EXPECT_NE(result.detail, "");
}

constexpr ClientPlant kClientPlants[] = {
    {"leaves_garbage_in_requests", "C504",
     [](RuleBreakingFabric& fabric) { fabric.change_connect = [](Bytes& m) { m[50] = std::byte{1}; }; },
     nullptr},
    {"says_not_the_first", "C505",
     [](RuleBreakingFabric& fabric) { fabric.change_connect = [](Bytes& m) { m[44] = std::byte{0}; }; },
     nullptr},
    {"leaves_garbage_in_info", "C507",
     [](RuleBreakingFabric& fabric) { fabric.change_message = [](Bytes& m) { m.back() = std::byte{1}; }; },
     nullptr},
    {"never_counts_attempts", "C510",
     [](RuleBreakingFabric& fabric) { fabric.change_connect = [](Bytes& m) { wire::store_le16(m, 10, 1); }; },
     nullptr},
    {"keeps_a_path_whose_connection_is_lost", "C511",
     [](RuleBreakingFabric& fabric) { fabric.never_disconnects = true; }, nullptr},
    {"takes_any_accept", "C520",
     [](RuleBreakingFabric& fabric) {
       fabric.change_received = [](Bytes& m) { wire::store_le16(m, 0, wire::kMagic); };
     },
     nullptr},
    {"asks_twice_on_one_chunk", "C550",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) {
         return work.op == WorkRequest::Op::write_imm && wire::imm_type(work.imm) == ImmType::io_req ? 2U
                                                                                                     : 1U;
       };
     },
     nullptr},
    {"waits_for_a_key_with_every_answer", "C556",
     [](RuleBreakingFabric& fabric) {
       fabric.change_received = [](Bytes& m) {
         wire::store_le32(m, 16,
                          wire::load_le32(m, 16) & ~wire::granting_flags(wire::Extensions::data_with_answer));
       };
     },
     nullptr},
    {"acknowledges_no_heartbeat", "C560",
     [](RuleBreakingFabric& fabric) {
       fabric.change_work = [](WorkRequest& work) {
         return wire::imm_type(work.imm) == ImmType::hb_ack ? 0U : 1U;
       };
     },
     nullptr},
    {"never_gives_up", "C564", nullptr, [](ClientConfig& config) { config.heartbeat.missed_max = 1000; }},
    {"gives_up_early", "C564", nullptr, [](ClientConfig& config) { config.heartbeat.missed_max = 2; }},
    {"never_comes_back", "C524", nullptr, [](ClientConfig& config) { config.max_reconnect_attempts = 0; }},
};

INSTANTIATE_TEST_SUITE_P(Rules, PlantedClientTest, testing::ValuesIn(kClientPlants),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace rtrs::conformance::planted_test
