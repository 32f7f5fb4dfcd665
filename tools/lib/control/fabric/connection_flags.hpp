// Adds options to a command line, according to rows of options::all_options().
#pragma once
#include <initializer_list>
#include <string_view>

#include "backends/options/connection.hpp"

namespace CLI {
class App;
}

namespace rtrs::tools {

struct ConnectionFlag {
  // Name of the row, such as rdma_tos for --rdma-tos; "rdma_*" stands for all rows that begin with rdma_.
  std::string_view name;
  std::string_view initial = {};  // the program's default, if it differs from the row's
  std::string_view older = {};    // name in earlier releases, e.g. "--heartbeat"; empty: none
};
// `target` must outlive the parsing of the command line.
void add_connection_flags(CLI::App&, options::Connection target, std::initializer_list<ConnectionFlag>);

}  // namespace rtrs::tools
