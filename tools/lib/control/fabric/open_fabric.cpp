#include "backends/libfabric/ofi.hpp"
#include "tools/lib/control/fabric/opening.hpp"

namespace rtrs::tools {
namespace {

Opened open_libfabric(const FabricChoice& choice) {
  const auto opening = std::make_shared<Opening>();
  ofi::OfiOptions options;
  options.provider = choice.provider;
  options.undelivered_timeout_ms = undelivered_ms(choice);
  options.log = keep_error<ofi::LogLevel>(choice, opening);
  auto fabric = ofi::open_ofi_fabric(options);
  opening->under_way = false;
  if (fabric) return std::move(*fabric);
  return tl::unexpected("cannot use the libfabric provider '" + choice.provider +
                        "': " + why(opening->error, fabric.error()) + "; fi_info -l lists the providers");
}

}  // namespace

Opened open_fabric(const FabricChoice& choice) {
  if (choice.fabric == "tcp" || choice.fabric == "verbs") return open_tcp_or_verbs(choice);
  if (std::string wrong = foreign_option_error(choice); !wrong.empty())
    return tl::unexpected(std::move(wrong));
  if (choice.fabric != "libfabric")
    return tl::unexpected("unknown fabric '" + choice.fabric + "'; choose tcp, libfabric or verbs");
  return open_with_auth(choice, open_libfabric);
}

}  // namespace rtrs::tools
