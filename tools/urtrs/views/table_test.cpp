// Tests tables, CSV and JSON that are made from replies of a daemon.
#include "tools/urtrs/views/table.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "tools/urtrs/views/client_views.hpp"
#include "tools/urtrs/views/output.hpp"
#include "tools/urtrs/views/top.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin::table_test {
namespace {

using nlohmann::json;

json path(const char* source, const char* state, std::uint64_t read_bytes, std::uint64_t write_bytes) {
  return {{"path", 0},
          {"src_addr", source},
          {"dst_addr", "ip:10.0.0.2"},
          {"hca_name", "rxe0"},
          {"hca_port", 1U},
          {"peer", source},
          {"state", state},
          {"inflight", 3U},
          {"reads", 5U},
          {"read_bytes", read_bytes},
          {"writes", 7U},
          {"write_bytes", write_bytes},
          {"connections", 5U}};
}

json shown() {
  json two = {path("ip:10.0.0.1", "connected", 204800, 1024), path("ip:10.0.1.1", "closing", 0, 0)};
  return {{"sessions",
           {{{"session", 0}, {"name", "blya"}, {"state", "connected"}, {"paths", two}},
            {{"session", 1}, {"name", "x,\"y\""}, {"state", "half-open"}, {"paths", json::array()}}}},
          {"devices",
           {{{"session", "blya"},
             {"mapping_path", "disk0"},
             {"device", "/srv/a"},
             {"access_mode", "rw"},
             {"size_bytes", 1U << 20},
             {"handle", 1U}}}},
          {"exports",
           {{{"name", "disk0"}, {"source", "/srv/a"}, {"access", "ro"}, {"state", "served"}, {"why", ""}}}},
          {"stats", {{"requests", 12U}}}};
}

std::string text(const Table& table, Options options = {}) {
  const auto rendered = render(table, options, 1);
  return rendered ? *rendered : rendered.error().message;
}

TEST(Table, SessionsHavePathsAndTotals) {
  EXPECT_EQ(text(sessions(shown())),
            "Session name  State      PS        TX      RX  Inflight\n"
            "blya          connected  U_  200.000K  1.000K         6\n"
            "|- path 0  ip:10.0.0.1@ip:10.0.0.2  rxe0  connected  inflight 3\n"
            "`- path 0  ip:10.0.1.1@ip:10.0.0.2  rxe0  closing  inflight 3\n"
            "x,\"y\"         half-open             0       0         0\n"
            "total                        200.000K  1.000K         6\n");
}

TEST(Table, LostNbdServerIsShownWithTheExport) {
  EXPECT_EQ(text(exports(shown())).find("State"), std::string::npos);
  json lost = shown();
  lost["exports"][0]["state"] = "lost";
  lost["exports"][0]["why"] = "its NBD server is lost";
  EXPECT_NE(text(exports(lost)).find("/srv/a  ro      lost   its NBD server is lost"), std::string::npos)
      << text(exports(lost));
}

TEST(Table, SilentPathShowsTheDuration) {
  json silent = shown();
  silent["sessions"][0]["paths"][0]["silent_s"] = 12.4;
  EXPECT_NE(text(sessions(silent)).find("connected  silent for 12 s  inflight 3\n"), std::string::npos);
  Options options;
  options.fields = {"silent_s"};
  EXPECT_NE(text(paths(silent, {}), options).find("12.4"), std::string::npos);
}

TEST(Table, TreeTotalsAndHeadersCanBeOmitted) {
  Options options;
  options.tree = options.totals = options.headers = false;
  options.unit = 'B';
  options.fields = {"sessname", "tx_bytes"};
  EXPECT_EQ(text(sessions(shown()), options), "blya   204800\nx,\"y\"       0\n");
}

TEST(Table, CsvQuotesSpecialCharacters) {
  Options options;
  options.format = Format::csv;
  options.fields = {"sessname", "state"};
  EXPECT_EQ(text(sessions(shown()), options), "sessname,state\nblya,connected\n\"x,\"\"y\"\"\",half-open\n");
}

TEST(Table, JsonHasAllFieldsAndAnEmptyArrayForNoRows) {
  Options options;
  options.format = Format::json;
  const json all = json::parse(text(sessions(shown()), options));
  EXPECT_EQ(all["schema_version"], 1);
  ASSERT_EQ(all["sessions"].size(), 2U);
  EXPECT_EQ(all["sessions"][0]["act_path_cnt"], 1);
  EXPECT_EQ(all["sessions"][0]["tx_bytes"], 204800);
  const json none = json::parse(text(sessions({{"sessions", json::array()}}), options));
  EXPECT_EQ(none["sessions"], json::array());
}

TEST(Table, PostingIsShownAndEmptyIfUnknown) {
  json told = shown();
  told["sessions"][0]["paths"][0]["posting"] = "wr";
  Options options;
  options.fields = {"posting"};
  options.headers = options.totals = false;
  EXPECT_EQ(text(paths(told, {}), options), "wr\n\n");
  EXPECT_EQ(text(client_paths(told, {}), options), "wr\n\n");
  options.fields = {};
  options.format = Format::json;
  for (const Table& table : {paths(told, {}), client_paths(told, {})}) {
    const json all = json::parse(text(table, options));
    EXPECT_EQ(all["paths"][0]["posting"], "wr");
    EXPECT_EQ(all["paths"][1]["posting"], "") << "from an older daemon";
  }
}

TEST(Table, EveryViewShowsTheValuesOfTheServer) {
  EXPECT_NE(text(paths(shown(), "blya")).find("ip:10.0.1.1"), std::string::npos);
  EXPECT_EQ(paths(shown(), "other").rows.size(), 0U);
  EXPECT_NE(text(devices(shown(), {})).find("1.000M"), std::string::npos);
  EXPECT_NE(text(exports(shown())).find("/srv/a  ro"), std::string::npos);
  EXPECT_NE(text(statistics(shown())).find("requests     12"), std::string::npos);
}

TEST(Table, ShowPrintsOneRowAsLines) {
  const std::string one = show(devices(shown(), {}), "mapping_path", "disk0", {});
  EXPECT_NE(one.find("Access mode    rw\n"), std::string::npos) << one;
  EXPECT_EQ(show(devices(shown(), {}), "mapping_path", "disk1", {}), "");
}

TEST(Table, FieldsAreChosenAndChecked) {
  const Table table = paths(shown(), {});
  const auto names = [&table](const std::vector<std::string>& wanted) {
    std::string all;
    const auto chosen = choose(table.fields, wanted);
    if (!chosen) return chosen.error().message + "|" + chosen.error().hint;
    for (const Field& field : *chosen) all += std::string(field.name) + " ";
    return all;
  };
  EXPECT_EQ(names({"state", "reads"}), "state reads ");
  EXPECT_EQ(names({"+reads", "-hca_name", "-path", "-pathname", "-tx_bytes", "-rx_bytes"}),
            "sessname state reads ");
  EXPECT_EQ(names({"stat"}), "unknown field \"stat\"|did you mean \"state\"?");
  EXPECT_EQ(choose(table.fields, {"all"})->size(), table.fields.size());
  EXPECT_FALSE(choose(table.fields, {"state", "-state"}));
}

TEST(Table, ControlCharactersInNamesAreEscaped) {
  json evil = shown();
  evil["sessions"][0]["name"] = "a\x1b[2J\nb";
  const std::string shown_text = text(sessions(evil));
  EXPECT_EQ(shown_text.find('\x1b'), std::string::npos);
  EXPECT_NE(shown_text.find("a\\x1b[2J\\x0ab"), std::string::npos) << shown_text;
}

TEST(Table, ControlCharactersAreEscapedInCsvAndLines) {
  EXPECT_EQ(printable("a\x1b[2J\x7f"), "a\\x1b[2J\\x7f");
  EXPECT_EQ(printable("\u009b|\u202e|\u2066|\u00e4|\u20ac"),
            "\\xc2\\x9b|\\xe2\\x80\\xae|\\xe2\\x81\\xa6|\u00e4|\u20ac");
  json evil = shown();
  evil["sessions"][0]["name"] = "a\x1b[2J";
  Options options;
  options.format = Format::csv;
  EXPECT_EQ(text(sessions(evil), options).find('\x1b'), std::string::npos);
  EXPECT_EQ(show(sessions(evil), "sessname", "a\x1b[2J", {}).find('\x1b'), std::string::npos);
}

TEST(Table, BytesAreFormattedWithUnits) {
  EXPECT_EQ(bytes_text(0, '\0'), "0");
  EXPECT_EQ(bytes_text(1023, '\0'), "1023");
  EXPECT_EQ(bytes_text(1024, '\0'), "1.000K");
  EXPECT_EQ(bytes_text(1536 * 1024, '\0'), "1.500M");
  EXPECT_EQ(bytes_text(1536 * 1024, 'K'), "1536.000K");
  EXPECT_EQ(bytes_text(~std::uint64_t{0}, '\0'), "16.000E");
  EXPECT_EQ(bytes_text(1536, 'B'), "1536");
}

TEST(Rates, AreComputedFromTwoReplies) {
  json later = shown();
  later["sessions"][0]["paths"][0]["reads"] = 105;
  later["sessions"][0]["paths"][0]["read_bytes"] = 204800 + 4096 * 100;
  const Table table = rates(shown(), later, 2);
  EXPECT_EQ(table.rows[0].values["read_iops"], 50);
  EXPECT_EQ(table.rows[0].values["read_bytes_s"], 204800);
  EXPECT_EQ(table.rows[0].values["write_iops"], 0);
}

TEST(Rates, PercentilesCoverOnlyRequestsBetweenTwoReplies) {
  json before = shown();
  json& was = before["sessions"][0]["paths"][0]["service_time"];
  was["read"]["buckets"] = json::parse("[[1048576, 1000]]");
  was["write"]["buckets"] = json::parse("[]");
  json later = before;
  json& is = later["sessions"][0]["paths"][0]["service_time"];
  is["read"]["buckets"] = json::parse("[[16384, 99], [1048576, 1001]]");
  is["write"]["buckets"] = json::parse("[[65536, 1]]");
  const json values = rates(before, later, 1).rows[0].values;
  EXPECT_NEAR(values["read_p50_us"].get<double>(), 16.4, 1.1);
  EXPECT_NEAR(values["read_p99_us"].get<double>(), 16.4, 1.1);
  EXPECT_NEAR(values["write_p50_us"].get<double>(), 65.5, 4.1);
  EXPECT_NEAR(values["p99_us"].get<double>(), 65.5, 4.1);
  // The daemon was restarted and counts from 0 again.
  EXPECT_NEAR(rates(later, before, 1).rows[0].values["read_p50_us"].get<double>(), 1048.6, 66);
}

TEST(Rates, InvalidBucketsAreIgnored) {
  json later = shown();
  later["sessions"][0]["paths"][0]["service_time"]["read"]["buckets"] =
      json::parse("[1, [2], [\"a\", 3], [-1, 4], [18446744073709551615, 1]]");
  EXPECT_EQ(rates(shown(), later, 1).rows[0].values["write_p50_us"], 0);
}

TEST(Rates, ResetCountersStartAtZero) {
  json later = shown();
  later["sessions"][0]["paths"][0]["reads"] = 2;
  EXPECT_EQ(rates(shown(), later, 1).rows[0].values["read_iops"], 2);
}

// The columns must fit for typical values: two IPv4 addresses and a session name of eleven letters.
TEST(Rates, FitTheColumnsOfATerminal) {
  json before = shown();
  before["sessions"][0]["name"] = "storage-web";
  before["sessions"][0]["paths"][0]["src_addr"] = "ip:192.168.100.1";
  before["sessions"][0]["paths"][0]["dst_addr"] = "ip:192.168.100.2";
  const Table table = rates(before, before, 1);
  Options options;
  for (const std::size_t columns : {80U, 100U, 200U}) {
    options.width = columns;
    const std::string text = *render(table, options, 1);
    const bool wide = text.find("State") != std::string::npos;
    EXPECT_EQ(wide, columns == 200) << text;
    for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      EXPECT_LE(end - at, columns) << text;
    }
    EXPECT_NE(text.find("p99"), std::string::npos) << text;
  }
  options.fields = {"+read_p50_us"};
  options.width = 80;
  EXPECT_NE(render(table, options, 1)->find("State"), std::string::npos);
}

TEST(ExitCodes, TimeoutRefusalAndMissingDaemonAreDistinguished) {
  const auto code = [](int error, const char* message) {
    testing::internal::CaptureStderr();
    const int answer = fail(rpc::Error{rpc::Code::failed, message, "", error}, false);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "urtrs: " + std::string(message) + "\n");
    return answer;
  };
  EXPECT_EQ(code(ETIMEDOUT, "no answer in time"), timed_out);
  EXPECT_EQ(code(ECONNREFUSED, "cannot reach the control socket"), no_daemon);
  EXPECT_EQ(code(ENOENT, "no such file"), failed);
  EXPECT_EQ(code(EBUSY, "in use"), failed);
}

}  // namespace
}  // namespace rtrs::admin::table_test
