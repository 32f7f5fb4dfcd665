#include "conformance/cases/server_tester.hpp"

#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {

wire::Uuid ServerTester::fresh_uuid() {
  wire::Uuid uuid;
  for (std::uint8_t& byte : uuid.bytes) byte = static_cast<std::uint8_t>(random_());
  return uuid;
}

Identity ServerTester::fresh_identity() {
  Identity made;
  made.session = fresh_uuid();
  made.path = fresh_uuid();
  made.name = fmt::format("conform-{:08x}-{}", setup_.seed & 0xffffffffU, ++sessions_);
  return made;
}

Path& ServerTester::path(Identity identity, std::uint16_t con_num, std::size_t target) {
  if (target >= setup_.targets.size())
    not_run("it needs a second address of the server: give --target twice");
  return paths_.emplace_back(endpoint_, deadlines(), setup_.targets[target], std::move(identity), con_num,
                             next_path_++);
}

Path& ServerTester::opened(std::uint16_t con_num) {
  Path& made = path(con_num);
  made.open();
  return made;
}

bool ServerTester::clean_up(std::uint32_t mark) {
  const bool all = endpoint_.forget_since(mark, deadlines().connect);
  paths_.clear();
  next_path_ = 1;
  return all;
}

}  // namespace rtrs::conformance
