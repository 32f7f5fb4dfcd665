// Why a session has no connection, as its nbdkit tells it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rtrs::mapd {

struct Trouble {
  std::string why;   // a sentence; empty: none that is known
  std::string hint;  // may be empty
};

// Of the answer to client.show; nothing where a path is connected, or none has been tried. Throws
// nlohmann::json::exception.
Trouble trouble_of(const nlohmann::json& shown);

// What somebody can do whose device met this errno while it was mapped, unmapped or opened again: `doing` is
// "mapping", "unmapping" or "opening again". Empty: nothing that is known.
std::string hint_of(int error, std::string_view doing);

}  // namespace rtrs::mapd
