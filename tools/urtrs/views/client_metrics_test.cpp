#include "tools/urtrs/views/client_metrics.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::admin::client_metrics_test {
namespace {

using nlohmann::json;

json one_client() {
  return json::parse(R"([{
    "version": "1", "fabric": "tcp", "uptime_s": 12.5, "stats": {"errors": 3, "permits_given_up": 2},
    "sessions": [{"name": "web1", "state": "reconnecting", "inflight": 4, "queued": 5, "paths": [
      {"path": 1, "pathname": "a@b", "state": "connected", "inflight": 6, "rtt_us": 250, "reads": 7,
       "read_bytes": 8, "writes": 9, "write_bytes": 10, "failovers": 11, "reconnects": 12,
       "failed_attempts": 13}]}],
    "devices": [{"session": "web1", "mapping_path": "disk", "state": "open", "size_bytes": 4096, "users": 14}]
  }])");
}

TEST(ClientMetrics, ValuesHaveTheDocumentedNamesAndUnits) {
  const std::string text = client_metrics_text(one_client());
  const std::string path = "{session=\"web1\",path=\"a@b\",index=\"1\"} ";
  const std::string device = "{session=\"web1\",mapping_path=\"disk\"} ";
  for (const std::string& line : {
           std::string("urtrs_client_info{session=\"web1\",version=\"1\",fabric=\"tcp\"} 1"),
           std::string("urtrs_client_up{session=\"web1\"} 0"),
           std::string("urtrs_client_inflight{session=\"web1\"} 4"),
           std::string("urtrs_client_queued{session=\"web1\"} 5"),
           std::string("urtrs_client_uptime_seconds{session=\"web1\"} 12.5"),
           std::string("urtrs_client_errors_total{session=\"web1\"} 3"),
           std::string("urtrs_client_permits_given_up{session=\"web1\"} 2"),
           "urtrs_client_path_up" + path + "1",
           "urtrs_client_path_inflight" + path + "6",
           "urtrs_client_path_heartbeat_seconds" + path + "0.00025",
           "urtrs_client_path_reads_total" + path + "7",
           "urtrs_client_path_read_bytes_total" + path + "8",
           "urtrs_client_path_writes_total" + path + "9",
           "urtrs_client_path_write_bytes_total" + path + "10",
           "urtrs_client_path_failovers_total" + path + "11",
           "urtrs_client_path_reconnects_total" + path + "12",
           "urtrs_client_path_failed_attempts_total" + path + "13",
           "urtrs_client_device_open" + device + "1",
           "urtrs_client_device_size_bytes" + device + "4096",
           "urtrs_client_device_users" + device + "14",
       })
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
}

TEST(ClientMetrics, ValuesOfAnotherTypeAreZero) {
  json shown = one_client();
  shown[0]["devices"] = "none";
  shown[0]["sessions"][0]["paths"][0]["reads"] = -1;
  shown[0]["sessions"][0]["paths"][0]["rtt_us"] = nullptr;
  const std::string text = client_metrics_text(shown);
  EXPECT_EQ(text.find("urtrs_client_device"), std::string::npos) << text;
  EXPECT_NE(text.find("index=\"1\"} 0\n# HELP urtrs_client_path_reads_total"), std::string::npos) << text;
  EXPECT_NE(text.find("urtrs_client_path_reads_total{session=\"web1\",path=\"a@b\",index=\"1\"} 0\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace rtrs::admin::client_metrics_test
