// Runs cases against a client that connects and reconnects without being asked.
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

  // Waits until the client has connected. Returns an empty string, or an error message; after an error no
  // case can be run.
  std::string start();
  // Runs one case. Afterwards the client must work with a correct server again.
  Result run(const Case&);

 private:
  Endpoint& endpoint_;
  ClientSetup setup_;
  ClientTester tester_;
  MakeRecorder make_recorder_;
};

}  // namespace rtrs::conformance
