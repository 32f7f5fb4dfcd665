// Tests of the metrics page: names, labels, values, and peer names that must be escaped in labels.
#include "tools/urtrsd/control/metrics.hpp"

#include <gtest/gtest.h>

namespace rtrs::daemon::metrics_test {
namespace {

MetricsInput input(const std::string& session) {
  MetricsInput input;
  ServerSessionStatus one;
  one.name = session;
  one.opened = true;
  ServerPathStatus path;
  path.state = PathState::connected;
  path.peer = "10.0.0.1:5 > 10.0.0.2:1234";
  path.in_service = 3;
  path.traffic.add(Direction::read, 4096);
  one.paths = {path};
  input.model.sessions = {one};
  input.model.devices = {{"/srv/a", {{session, 1, wire::rnbd::AccessMode::read_write, "disk0", 1048576}}}};
  input.transport.requests = 12;
  input.transport.responses = 11;
  input.transport.error_responses = 4;
  input.transport.dropped_responses = 1;
  input.transport.lost_by[static_cast<std::size_t>(Reason::heartbeat_lost)] = 2;
  input.transport.rejected_by[static_cast<std::size_t>(Reason::too_many_sessions)] = 5;
  input.version = "1.2.3";
  input.fabric = "libfabric/tcp";
  return input;
}

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, PathsDevicesAndCountersHaveSamples) {
  const std::string text = metrics_text(input("web1"));
  const std::string labels = "{session=\"web1\",path=\"ip:10.0.0.1@ip:10.0.0.2\",index=\"0\"}";
  EXPECT_TRUE(has(text, "urtrs_path_up" + labels + " 1")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_inflight" + labels + " 3")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_reads_total" + labels + " 1")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_read_bytes_total" + labels + " 4096")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_writes_total" + labels + " 0")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_write_bytes_total" + labels + " 0")) << text;
  EXPECT_TRUE(has(text, "urtrs_requests_total 12")) << text;
  EXPECT_TRUE(has(text, "urtrs_responses_total 11")) << text;
  EXPECT_TRUE(has(text, "urtrs_error_responses_total 4")) << text;
  EXPECT_TRUE(has(text, "urtrs_dropped_responses_total 1")) << text;
  EXPECT_TRUE(has(text, "urtrs_build_info{version=\"1.2.3\",fabric=\"libfabric/tcp\"} 1")) << text;
  EXPECT_TRUE(has(text,
                  "urtrs_device_size_bytes{session=\"web1\",mapping_path=\"disk0\",device=\"/srv/a\","
                  "access_mode=\"rw\"} 1048576"))
      << text;
}

TEST(Metrics, CertificateExpiryIsATimestamp) {
  MetricsInput some = input("web1");
  some.expiries = {{"/etc/a.pem", "certificate", 1'796'000'000}};
  const std::string text = metrics_text(some);
  EXPECT_TRUE(
      has(text, "urtrs_tls_expiry_timestamp_seconds{file=\"/etc/a.pem\",what=\"certificate\"} 1796000000"))
      << text;
}

TEST(Metrics, ClientsRejectedByTheFabricAreCounted) {
  MetricsInput some = input("web1");
  EXPECT_EQ(metrics_text(some).find("urtrs_tcp"), std::string::npos) << "another fabric";
  some.tcp = tcp::TcpStats{.terminated = 3,
                           .closed_handshakes = 4,
                           .dropped_clients = 5,
                           .refused = 6,
                           .slow_readers = 7,
                           .large_packets_lost = 12,
                           .tls_connections = 9,
                           .tls_resumed = 8,
                           .tls_in_kernel = 2,
                           .tls_refused = 11};
  some.tcp->faults[1] = 20;
  some.tcp->faults[7] = 1;
  const std::string text = metrics_text(some);
  for (const char* line :
       {"urtrs_tcp_refused_total{why=\"no_request_in_time\"} 4",
        "urtrs_tcp_refused_total{why=\"no_descriptor\"} 5", "urtrs_tcp_refused_total{why=\"limit\"} 6",
        "urtrs_tcp_refused_total{why=\"tls\"} 11", "urtrs_tcp_faults_total 21",
        "urtrs_tcp_terminated_total 3", "urtrs_tcp_slow_readers_total 7",
        "urtrs_tcp_large_packets_lost_total 12", "urtrs_tls_connections_total 9", "urtrs_tls_resumed_total 8",
        "urtrs_tls_in_kernel_total 2"})
    EXPECT_TRUE(has(text, line)) << line << "\n" << text;
}

TEST(Metrics, ServiceTimesAreHistogramsForEachPathAndDirection) {
  ServiceTimes times;
  for (const Nanos time : {32'767U, 32'768U, 1'000'000U}) times.of(Direction::write).record(time);
  MetricsInput some = input("web1");
  some.model.sessions[0].paths[0].times = &times;
  const std::string text = metrics_text(some);
  const std::string labels =
      "{session=\"web1\",path=\"ip:10.0.0.1@ip:10.0.0.2\",index=\"0\",direction=\"write\"";
  EXPECT_TRUE(has(text, "urtrs_path_service_seconds_count" + labels + "} 3")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_service_seconds_sum" + labels + "} 0.001065535")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_service_seconds_bucket" + labels + ",le=\"3.2768e-05\"} 1")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_service_seconds_bucket" + labels + ",le=\"0.000524288\"} 2")) << text;
  EXPECT_TRUE(has(text, "urtrs_path_service_seconds_bucket" + labels + ",le=\"+Inf\"} 3")) << text;
}

TEST(Metrics, LossesAndRejectionsHaveARowForEachReason) {
  const std::string text = metrics_text(input("web1"));
  EXPECT_TRUE(has(text, "urtrs_paths_lost_total{reason=\"heartbeat_lost\"} 2")) << text;
  EXPECT_TRUE(has(text, "urtrs_paths_lost_total{reason=\"peer_closed\"} 0")) << text;
  EXPECT_TRUE(has(text, "urtrs_connects_rejected_total{reason=\"too_many_sessions\"} 5")) << text;
  EXPECT_FALSE(has(text, "urtrs_paths_lost_total{reason=\"none\"} 0")) << text;
}

TEST(Metrics, EachFamilyIsDescribedOnce) {
  MetricsInput two = input("web1");
  two.model.sessions.push_back(two.model.sessions[0]);
  two.model.sessions[1].name = "web2";
  const std::string text = metrics_text(two);
  const std::string type = "# TYPE urtrs_path_up gauge";
  EXPECT_EQ(text.find(type), text.rfind(type));
  EXPECT_NE(text.find(type), std::string::npos);
}

TEST(Metrics, PeerNamesCannotAddALine) {
  const std::string text = metrics_text(input("a\"} 1\nevil 7\n\xff\x80"));
  EXPECT_EQ(text.find("\nevil"), std::string::npos) << text;
  EXPECT_EQ(text.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace rtrs::daemon::metrics_test
