// Why a session has no connection, as its nbdkit tells it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace rtrs::mapd {

struct Trouble {
  std::string why;   // a sentence; empty: none that is known
  std::string hint;  // may be empty
};

// Of the answer to client.show; nothing where a path is connected, or none has been tried. Throws
// nlohmann::json::exception.
Trouble trouble_of(const nlohmann::json& shown);

}  // namespace rtrs::mapd
