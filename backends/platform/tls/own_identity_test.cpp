#include "backends/platform/tls/own_identity.hpp"

#include <gtest/gtest.h>

#include <string>

#include "backends/platform/tls/test_credentials.hpp"

namespace rtrs::tls::own_identity_test {
namespace {

TEST(OwnIdentity, KeysGiveTheChosenOrTheOnlyIdentity) {
  const TestCredentials files;
  const std::string one = files.keys({"web1"}).keys;
  EXPECT_EQ(identity_of_keys(one, ""), "web1");
  EXPECT_EQ(identity_of_keys(one, "web2"), "web2");
  EXPECT_EQ(identity_of_keys(files.folder() + "/nothing", ""), "");
  EXPECT_EQ(identity_of_keys(files.keys({"web1", "web2"}).keys, ""), "") << "the client has to choose";
}

TEST(OwnIdentity, CertificateGivesItsOnlyCommonName) {
  TestCredentials files;
  const auto identity = [&files](const std::vector<std::string>& names, bool by_intermediate) {
    Wanted wanted;
    wanted.names = names;
    wanted.by_intermediate = by_intermediate;
    return identity_of_certificate(files.issue(wanted).cert);
  };
  EXPECT_EQ(identity({"web1.example.org"}, false), "web1.example.org");
  EXPECT_EQ(identity({"web1"}, true), "web1") << "the first certificate of the file is the client's own";
  EXPECT_EQ(identity({"web1", "web2"}, false), "");
  EXPECT_EQ(identity({"not an identity"}, false), "");
}

TEST(OwnIdentity, InvalidCertificateGivesNoIdentity) {
  const TestCredentials files;
  EXPECT_EQ(identity_of_certificate(files.folder() + "/nothing"), "");
  EXPECT_EQ(identity_of_certificate(files.folder()), "");
  EXPECT_EQ(identity_of_certificate(files.write("text", "no certificate")), "");
}

}  // namespace
}  // namespace rtrs::tls::own_identity_test
