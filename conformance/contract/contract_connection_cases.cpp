// Setup and end of connections.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {
namespace {

using Kind = SeenEvent::Kind;

TEST_P(FabricContract, connect_and_accept_carry_private_data) {
  const ConKey client_key = fresh_key();
  const ConKey server_key = fresh_key();
  client().fabric().connect(client_key, pair().server_address(), params(), bytes_of("may I"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  EXPECT_EQ(unpadded(request.text), "may I");
  EXPECT_EQ(client().count(Kind::connected), 0u);
  server().fabric().accept(request.request, server_key, params(), bytes_of("you may"));
  EXPECT_EQ(unpadded(expect(client(), Kind::connected, client_key).text), "you may");
  EXPECT_NE(client().fabric().describe(client_key), client().fabric().describe(server_key));
  close_link({.client = client_key, .server = server_key});
}

TEST_P(FabricContract, private_data_may_be_empty) {
  const ConKey client_key = fresh_key();
  const ConKey server_key = fresh_key();
  client().fabric().connect(client_key, pair().server_address(), params(), {});
  const SeenEvent request = expect(server(), Kind::connect_requested);
  EXPECT_EQ(unpadded(request.text), "");
  server().fabric().accept(request.request, server_key, params(), {});
  EXPECT_EQ(unpadded(expect(client(), Kind::connected, client_key).text), "");
  close_link({.client = client_key, .server = server_key});
}

TEST_P(FabricContract, private_data_of_maximum_length_arrives_whole) {
  const std::string question(capabilities().connect_data, 'q');
  const std::string answer(capabilities().accept_data, 'a');
  const ConKey client_key = fresh_key();
  const ConKey server_key = fresh_key();
  client().fabric().connect(client_key, pair().server_address(), params(), bytes_of(question));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  // Some fabrics pad private data to their maximum length.
  EXPECT_EQ(request.text.substr(0, question.size()), question);
  server().fabric().accept(request.request, server_key, params(), bytes_of(answer));
  EXPECT_EQ(expect(client(), Kind::connected, client_key).text.substr(0, answer.size()), answer);
  close_link({.client = client_key, .server = server_key});
}

TEST_P(FabricContract, a_connect_with_too_much_private_data_fails_and_sends_nothing) {
  const std::string too_much(capabilities().connect_data + 1u, 'x');
  const ConKey key = fresh_key();
  client().fabric().connect(key, pair().server_address(), params(), bytes_of(too_much));
  expect(client(), Kind::connect_failed, key);
  client().fabric().disconnect(key);
  expect(client(), Kind::connection_closed, key);
  run_until_quiet();
  EXPECT_EQ(server().count(Kind::connect_requested), 0u);
}

TEST_P(FabricContract, an_accept_with_too_much_private_data_ends_the_attempt_at_both_sides) {
  const std::string too_much(capabilities().accept_data + 1u, 'x');
  const Link link{.client = fresh_key(), .server = fresh_key()};
  client().fabric().connect(link.client, pair().server_address(), params(), bytes_of("hello"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  server().fabric().accept(request.request, link.server, params(), bytes_of(too_much));
  expect(server(), Kind::connection_lost, link.server);
  expect(client(), Kind::connect_failed, link.client);
  close_link(link);
}

TEST_P(FabricContract, a_reject_carries_private_data_and_differs_from_a_refusal) {
  const std::string why(std::min<std::size_t>(capabilities().reject_data, 12), 'r');
  const ConKey key = fresh_key();
  client().fabric().connect(key, pair().server_address(), params(), bytes_of("hello"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  server().fabric().reject(request.request, bytes_of(why));
  const SeenEvent failed = expect(client(), Kind::connect_failed, key);
  EXPECT_EQ(failed.reason, Reason::rejected);
  EXPECT_EQ(failed.text.substr(0, why.size()), why);
  client().fabric().disconnect(key);
  expect(client(), Kind::connection_closed, key);
}

TEST_P(FabricContract, a_connect_without_a_listener_is_refused) {
  const ConKey key = fresh_key();
  client().fabric().connect(key, pair().unused_address(), params(), bytes_of("hello"));
  EXPECT_EQ(expect(client(), Kind::connect_failed, key).reason, Reason::connect_refused);
  run_until_quiet();
  EXPECT_EQ(client().count(Kind::connection_closed), 0u) << "closed before disconnect()";
  client().fabric().disconnect(key);
  expect(client(), Kind::connection_closed, key);
}

TEST_P(FabricContract, each_connection_ends_with_exactly_one_closed_event) {
  const Link link = open_link();
  post_one(client(), empty_imm(link.client, 1));
  post_one(server(), empty_imm(link.server, 2));
  server().fabric().disconnect(link.server);
  client().fabric().disconnect(link.client);
  client().fabric().disconnect(link.client);
  run_until_quiet();
  EXPECT_EQ(client().count(Kind::connection_closed, link.client), 1u);
  EXPECT_EQ(server().count(Kind::connection_closed, link.server), 1u);
  for (Side* side : {&client(), &server()}) {
    ASSERT_FALSE(side->events().empty());
    EXPECT_EQ(side->events().back().kind, Kind::connection_closed);
    EXPECT_LE(side->count(Kind::connection_lost), 1u);
  }
}

TEST_P(FabricContract, closed_comes_only_after_disconnect) {
  const Link link = open_link();
  server().fabric().disconnect(link.server);
  expect(client(), Kind::connection_lost, link.client);
  run_until_quiet();
  EXPECT_EQ(client().count(Kind::connection_closed, link.client), 0u);
  EXPECT_EQ(client().count(Kind::connection_lost, link.client), 0u) << "lost twice";
  client().fabric().disconnect(link.client);
  expect(client(), Kind::connection_closed, link.client);
  expect(server(), Kind::connection_closed, link.server);
}

TEST_P(FabricContract, a_connect_can_be_cancelled) {
  const ConKey key = fresh_key();
  client().fabric().connect(key, pair().server_address(), params(), bytes_of("hello"));
  client().fabric().disconnect(key);
  expect(client(), Kind::connection_closed, key);
  run_until_quiet();
  EXPECT_EQ(client().count(Kind::connected), 0u);
  EXPECT_EQ(client().count(Kind::connect_failed), 0u);
  // If the server already got the request, accepting it must be harmless.
  SeenEvent request;
  if (!server().take(Kind::connect_requested, request)) return;
  const ConKey server_key = fresh_key();
  server().fabric().accept(request.request, server_key, params(), bytes_of("welcome"));
  expect(server(), Kind::connection_lost, server_key);
  server().fabric().disconnect(server_key);
  expect(server(), Kind::connection_closed, server_key);
}

TEST_P(FabricContract, a_connect_can_be_cancelled_between_request_and_accept) {
  const Link link{.client = fresh_key(), .server = fresh_key()};
  client().fabric().connect(link.client, pair().server_address(), params(), bytes_of("hello"));
  const SeenEvent request = expect(server(), Kind::connect_requested);
  client().fabric().disconnect(link.client);
  expect(client(), Kind::connection_closed, link.client);
  server().fabric().accept(request.request, link.server, params(), bytes_of("welcome"));
  expect(server(), Kind::connection_lost, link.server);
  server().fabric().disconnect(link.server);
  expect(server(), Kind::connection_closed, link.server);
  EXPECT_EQ(client().count(Kind::connected), 0u);
}

TEST_P(FabricContract, death_of_the_peer_is_reported_on_all_its_connections) {
  const Link first = open_link();
  const Link second = open_link();
  kill_server_now();
  expect(client(), Kind::connection_lost, first.client);
  expect(client(), Kind::connection_lost, second.client);
  for (const ConKey key : {first.client, second.client}) {
    client().fabric().disconnect(key);
    expect(client(), Kind::connection_closed, key);
  }
}

TEST_P(FabricContract, one_client_disconnects_and_the_others_continue) {
  std::vector<Link> links;
  for (int i = 0; i < 24; ++i) links.push_back(open_link());
  client().fabric().disconnect(links[7].client);
  server().fabric().disconnect(links[7].server);
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (i != 7) post_one(client(), empty_imm(links[i].client, static_cast<std::uint32_t>(i)));
  }
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (i == 7) continue;
    EXPECT_EQ(expect(server(), Kind::imm_received, links[i].server).imm, i);
  }
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (i != 7) close_link(links[i]);
  }
}

TEST_P(FabricContract, requests_carry_a_digest_of_the_addresses_without_ports) {
  std::set<std::uint32_t> pairs;
  std::set<std::uint32_t> requests;
  for (int i = 0; i < 3; ++i) {
    const ConKey key = fresh_key();
    client().fabric().connect(key, pair().server_address(), params(), bytes_of("hello"));
    const SeenEvent request = expect(server(), Kind::connect_requested);
    pairs.insert(request.address_pair);
    requests.insert(request.request);
    server().fabric().reject(request.request, bytes_of("no"));
    expect(client(), Kind::connect_failed, key);
    client().fabric().disconnect(key);
    expect(client(), Kind::connection_closed, key);
  }
  EXPECT_EQ(pairs.size(), 1u);
  EXPECT_EQ(requests.size(), 3u);
}

}  // namespace
}  // namespace rtrs::conformance
