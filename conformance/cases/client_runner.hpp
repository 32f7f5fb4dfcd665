// Runs cases against a client that comes by itself.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "conformance/cases/client_tester.hpp"
#include "conformance/cases/result.hpp"

namespace rtrs::conformance {

class ClientRunner {
 public:
  using MakeRecorder = std::function<std::shared_ptr<Recorder>(const Case&)>;

  ClientRunner(Endpoint&, const ClientSetup&, MakeRecorder = {});

  // Waits for the client to come up. A sentence when it does not; then nothing can be run.
  std::string start();
  // Afterwards the client has to be served by an honest server as before.
  Result run(const Case&);

 private:
  Endpoint& endpoint_;
  ClientSetup setup_;
  ClientTester tester_;
  MakeRecorder make_recorder_;
};

}  // namespace rtrs::conformance
