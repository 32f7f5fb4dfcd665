#include "tools/lib/control/mapping/mapping_facts.hpp"

namespace rtrs::mapping {

using namespace tools::field;

namespace {

constexpr tools::Fact<MappedDevice> kFacts[] = {
    RTRS_FACT(text("sessname", "Session name", "name of the session").shown().was("/session"), at.session),
    RTRS_FACT(text("server_sessname", "Name at server", "the session's name at its server").was("/name"),
              at.server_name),
    RTRS_FACT(text("mapping_path", "Mapping path", "as the server knows it").shown().was("/device"),
              at.device),
    RTRS_FACT(text("state", "State",
                   "mapped, mapping, unmapping, or waiting: for the server, or for the next attempt")
                  .shown()
                  .of("mapped|mapping|unmapping|waiting"),
              at.state),
    RTRS_FACT(text("access_mode", "Access mode", "ro, rw or migration").shown().of("ro|rw|migration"),
              to_string(at.mode)),
    RTRS_FACT(size("size_bytes", "Size", "when it was opened last").shown(), at.size_bytes),
    RTRS_FACT(plain("users", "Users", "NBD connections that use it").shown(), at.users),
    RTRS_FACT(text("uri", "URI", "for NBD clients").shown(), at.uri),
    RTRS_FACT(text("socket", "Socket", "of nbdkit"), at.socket),
    RTRS_FACT(plain("errno", "Errno", "of the last refusal"), at.error),
    RTRS_FACT(text("sentence", "Meaning", "why there is no connection, or the server rejects it"),
              at.sentence),
};

}  // namespace

std::span<const tools::Fact<MappedDevice>> mapped_device_facts() {
  return kFacts;
}

}  // namespace rtrs::mapping
