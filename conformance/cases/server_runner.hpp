// Runs cases against a server, beside a session that has nothing to do with them and must not notice.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conformance/cases/case.hpp"
#include "conformance/cases/result.hpp"
#include "conformance/cases/server_tester.hpp"

namespace rtrs::conformance {

class ServerRunner {
 public:
  // `make_recorder` may be empty: called before each case; what it returns records the case and ends with it.
  using MakeRecorder = std::function<std::shared_ptr<Recorder>(const Case&)>;

  ServerRunner(Endpoint&, const ServerSetup&, MakeRecorder = {});

  // Opens the bystander's session. A sentence when the server cannot be reached; then nothing can be run.
  std::string start();
  // After start(): opens and closes the device of the setup once. A sentence when the server answers with an
  // errno, which is a mistake of the operator; what is wrong with the answers themselves is for the cases.
  std::string try_device();
  Result run(const Case&);

 private:
  // A sentence when the bystander was disturbed, or a new client is not served any more, which `gone` says.
  std::string look_around(bool& gone);
  void open_bystander();

  Endpoint& endpoint_;
  ServerTester tester_;
  MakeRecorder make_recorder_;
  std::unique_ptr<Path> bystander_;
};

}  // namespace rtrs::conformance
