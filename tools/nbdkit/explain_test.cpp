#include "tools/nbdkit/explain.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "backends/asio/error.hpp"

namespace rtrs::nbdkit {
namespace {

Settings some_settings() {
  Settings settings;
  settings.paths = {"10.0.0.2", "10.0.1.2"};
  settings.device = "disk";
  settings.session = "me";
  return settings;
}

boost::system::error_code of_server(int error) {
  return {error, boost::system::generic_category()};
}

TEST(Explain, TheServersErrnoBecomesASentence) {
  const Settings settings = some_settings();
  EXPECT_EQ(explain_map_failure(settings, of_server(ENOENT), {}),
            "the server exports no device named 'disk' (No such file or directory): check device=, and the "
            "exports and dev_search_path of the server");
  EXPECT_NE(explain_map_failure(settings, of_server(EPERM), {}).find("another client writes to it"),
            std::string::npos);
  EXPECT_NE(explain_map_failure(settings, of_server(EROFS), {}).find("use access_mode=ro"),
            std::string::npos);
  EXPECT_NE(explain_map_failure(settings, of_server(EIO), {}).find("Input/output error"), std::string::npos);
}

TEST(Explain, ATimeoutSaysWhatHappenedOnEachPath) {
  const Settings settings = some_settings();
  std::vector<PathStatus> paths(2);
  paths[0].state = PathState::waiting;
  paths[0].reason = Reason::connect_refused;
  paths[1].state = PathState::connecting;
  EXPECT_EQ(explain_timeout(settings, paths),
            "no path came up within connect_timeout=15000ms: path 10.0.0.2: " +
                reason_words(Reason::connect_refused, 0) +
                " (nobody listens on port 1234 there: is the server running, is the port right?); path "
                "10.0.1.2: " +
                to_string(PathState::connecting));
  paths[1].state = PathState::connected;
  EXPECT_NE(explain_timeout(settings, paths).find("did not open 'disk'"), std::string::npos);
}

TEST(Explain, AReasonCarriesTheErrnoOfThePeer) {
  EXPECT_EQ(reason_words(Reason::rejected, ENOMEM),
            std::string(to_string(Reason::rejected)) + ": Cannot allocate memory");
}

}  // namespace
}  // namespace rtrs::nbdkit
