// Runs cases against a server. In the meantime an independent session (the bystander) runs, which must not be
// disturbed.
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
  // MakeRecorder (may be empty) is called before each case. The recorder that it returns records this case
  // and is then destroyed.
  using MakeRecorder = std::function<std::shared_ptr<Recorder>(const Case&)>;

  ServerRunner(Endpoint&, const ServerSetup&, MakeRecorder = {});

  // Opens the bystander's session. Returns an empty string, or an error message; after an error no case can
  // be run.
  std::string start();
  // After start(): opens and closes the device of the setup once. Returns an error message if the server
  // answers with an errno, which is a configuration error. Malformed responses are left to the cases.
  std::string try_device();
  Result run(const Case&);

 private:
  // Returns an error message if the bystander was disturbed, or if a new client is not served; in the latter
  // case sets `gone`.
  std::string check_other_clients(bool& gone);
  void open_bystander();

  Endpoint& endpoint_;
  ServerTester tester_;
  MakeRecorder make_recorder_;
  std::unique_ptr<Path> bystander_;
};

}  // namespace rtrs::conformance
