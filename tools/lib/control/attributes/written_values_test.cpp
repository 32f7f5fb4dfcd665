// Tests that writes have the same results as in Linux 6.12. The file linux-6.12.toml contains results that
// were recorded from a kernel.
#include "tools/lib/control/attributes/written_values.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "tools/lib/control/attributes/map_request.hpp"

namespace rtrs::attributes::written_values_test {
namespace {

constexpr const char* kEnough = "sessname=lab device_path=loop0 ";
constexpr unsigned kProcessors = 4;

template <class T>
int error_of(const tl::expected<T, int>& value) {
  return value ? 0 : value.error();
}

TEST(WrittenValues, AttemptsAreDecimalWithOneNewline) {
  for (const auto& [text, value] : std::vector<std::pair<std::string, int>>{
           {"+5\n", 5}, {"010\n", 10}, {"0", 0}, {"9999", 9999}, {"-1\n", -1}})
    EXPECT_EQ(parse_attempts(text).value_or(-2), value) << text;
  for (const char* text :
       {"", "\n", "x", "1x\n", " 5\n", "5 \n", "5\n\n", "-2", "10000", "0x10", "+-1", "-+1", "-"})
    EXPECT_EQ(error_of(parse_attempts(text)), EINVAL) << text;
  for (const char* text : {"2147483648\n", "-2147483649", "99999999999999999999", "99999999999999999999x"})
    EXPECT_EQ(error_of(parse_attempts(text)), ERANGE) << text;
  EXPECT_EQ(error_of(parse_attempts("-2147483648")), EINVAL) << "an int, and below -1";
}

TEST(WrittenValues, SectorsAreDecimalHexOrOctal) {
  for (const auto& [text, value] :
       std::vector<std::pair<std::string, std::uint64_t>>{{"131072\n", 131072},
                                                          {"0x20000\n", 131072},
                                                          {"0X1f", 31},
                                                          {"010", 8},
                                                          {"+7", 7},
                                                          {"0", 0},
                                                          {"18446744073709551615", ~0ULL}})
    EXPECT_EQ(parse_sectors(text).value_or(1), value) << text;
  for (const char* text : {"", "\n", "x", "1x\n", "-1", " 131072\n", "08", "0x", "0xg", "1\n\n", "++1"})
    EXPECT_EQ(error_of(parse_sectors(text)), EINVAL) << text;
  EXPECT_EQ(error_of(parse_sectors("18446744073709551616")), ERANGE);
}

TEST(WrittenValues, PolicyIsANumberAShortNameOrBeginsWithALongName) {
  for (const auto& [text, policy] : std::vector<std::pair<std::string, MultipathPolicy>>{
           {"0\n", MultipathPolicy::round_robin},
           {"1", MultipathPolicy::min_inflight},
           {"2\n", MultipathPolicy::min_latency},
           {"RR\n", MultipathPolicy::round_robin},
           {"mi", MultipathPolicy::min_inflight},
           {"Ml\n", MultipathPolicy::min_latency},
           {"Round-Robin\n", MultipathPolicy::round_robin},
           {"min-inflightXYZ\n", MultipathPolicy::min_inflight},
           {"min-latency\n\n", MultipathPolicy::min_latency}})
    EXPECT_EQ(parse_policy(text), policy) << text;
  for (const char* text :
       {"", "\n", "x", "3", "-1", "12", "0 ", " 0", "rrx", "rr ", "mi\n\n", "r", "round", "1\n\n"})
    EXPECT_EQ(parse_policy(text), std::nullopt) << text;
  EXPECT_EQ(policy_text(MultipathPolicy::round_robin), "round-robin (RR: 0)\n");
  EXPECT_EQ(policy_text(MultipathPolicy::min_latency), "min-latency (ML: 2)\n");
}

TEST(WrittenValues, AddressesHaveAKindAndAreNumeric) {
  const auto both = parse_addresses("ip:10.1.0.1,ip:fd00::2", 7, EINVAL);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->source, "10.1.0.1");
  EXPECT_EQ(both->destination, "fd00::2");
  EXPECT_EQ(both->port, 7);
  const auto scoped = parse_addresses("ip:fe80::1%Eth7@ip:fe80::2%Eth7", 7, EINVAL);
  ASSERT_TRUE(scoped);
  EXPECT_EQ(scoped->source, "fe80::1%Eth7");
  EXPECT_EQ(scoped->destination, "fe80::2%Eth7");
  EXPECT_EQ(error_of(parse_addresses("ip:fe80::2%", 7, EINVAL)), EINVAL);
  const auto gid = parse_addresses("gid:fe80::1@gid:fe80::2", 7, EINVAL);
  ASSERT_TRUE(gid);
  EXPECT_EQ(gid->source, "gid:fe80::1");
  EXPECT_EQ(gid->destination, "gid:fe80::2");
  for (const char* text :
       {"", "x", "ip:", "ip:10.1.0.300", "ip:10.1.0.1@", "@ip:10.1.0.2", "gid:1", "gid:10.1.0.1",
        "ip:storage1", "ip:10.1.0.1@ip:10.1.0.2@ip:10.1.0.2", "ip:10.1.0.2:7", "IP:10.1.0.2"})
    EXPECT_EQ(error_of(parse_addresses(text, 7, EINVAL)), EINVAL) << text;
  EXPECT_EQ(error_of(parse_addresses("ip:10.1.0.1@10.1.0.2", 7, EPROTONOSUPPORT)), EPROTONOSUPPORT);
  EXPECT_EQ(error_of(parse_addresses("10.1.0.1@ip:10.1.0.2", 7, EPROTONOSUPPORT)), EINVAL) << "bad source";
}

TEST(MapRequest, OptionsHaveAnyOrderAndTheLastOneApplies) {
  const auto one = parse_map_request(
      "  path=ip:10.1.0.2 dest_port=0x10 access_mode=rw  path=ip:10.1.0.1@ip:10.1.0.3 sessname=a "
      "sessname=lab access_mode=ro "
      "device_path=d/0 dest_port=020 nr_poll_queues=-1 \n",
      kProcessors);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->session, "lab");
  EXPECT_EQ(one->device, "d/0");
  EXPECT_EQ(one->mode, wire::rnbd::AccessMode::read_only);
  ASSERT_EQ(one->paths.size(), 2U);
  EXPECT_EQ(one->paths[0].port, 1234) << "dest_port applies to the paths after it";
  EXPECT_EQ(one->paths[1].port, 16);
  EXPECT_EQ(one->port, 16);
  EXPECT_EQ(one->poll_queues, -1);
}

TEST(MapRequest, InvalidOptionsAreRefused) {
  for (const char* wrong :
       {"more=1", "x", "access_mode=zz", "access_mode=", "dest_port=70000", "dest_port=-1", "dest_port=x",
        "dest_port=1x", "dest_port=99999999999", "nr_poll_queues=5", "nr_poll_queues=-2",
        "path=ip:10.1.0.300", "path=x:1@ip:10.1.0.2", "sessname="})
    EXPECT_EQ(error_of(parse_map_request(std::string(kEnough) + wrong, kProcessors)), EINVAL) << wrong;
  for (const char* text : {"", "\n", "sessname=a\n", "device_path=loop2\n"})
    EXPECT_EQ(error_of(parse_map_request(text, kProcessors)), EINVAL) << text;
  for (const char* wrong : {"path=10.1.0.2", "path=x:10.1.0.2"})
    EXPECT_EQ(error_of(parse_map_request(std::string(kEnough) + wrong, kProcessors)), EPROTONOSUPPORT)
        << wrong;
  EXPECT_TRUE(parse_map_request(std::string(kEnough) + "nr_poll_queues=4 dest_port=65535", kProcessors));
}

TEST(MapRequest, LongNamesAreTruncatedAndPathsLimited) {
  const std::string longest(255, 'a');
  const auto cut = parse_map_request("sessname=" + longest + " device_path=" + longest, kProcessors);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->session, std::string(254, 'a'));
  EXPECT_EQ(cut->device, std::string(254, 'a'));
  EXPECT_EQ(error_of(parse_map_request("device_path=x sessname=" + longest + "a", kProcessors)), EINVAL);
  EXPECT_EQ(error_of(parse_map_request("sessname=x device_path=" + longest + "a", kProcessors)), EINVAL);
  std::string text = kEnough;
  for (unsigned i = 0; i < kMaxMapPaths; ++i) text += " path=ip:10.1.0." + std::to_string(i + 1);
  EXPECT_TRUE(parse_map_request(text, kProcessors));
  EXPECT_EQ(error_of(parse_map_request(text + " path=ip:10.1.0.9", kProcessors)), ENOMEM);
}

TEST(MapRequest, NewSessionNeedsDistinctPathsAndAName) {
  const auto problem = [](const std::string& text) {
    const auto request = parse_map_request(text, kProcessors);
    return request ? new_session_problem(*request) : -1;
  };
  EXPECT_EQ(problem("sessname=lab device_path=d"), ENXIO);
  EXPECT_EQ(problem("sessname=lab device_path=d path=ip:10.1.0.2"), 0);
  EXPECT_EQ(problem("sessname=a/b device_path=d path=ip:10.1.0.2"), EINVAL);
  EXPECT_EQ(problem("sessname=a.b device_path=d path=ip:10.1.0.2"), EINVAL);
  EXPECT_EQ(problem("sessname=lab device_path=d path=ip:fd00::2 path=ip:10.1.0.2 path=ip:FD00:0::2"), EEXIST);
  EXPECT_EQ(problem("sessname=lab device_path=d path=ip:10.1.0.2 dest_port=7 path=ip:10.1.0.2"), 0);
}

}  // namespace
}  // namespace rtrs::attributes::written_values_test
