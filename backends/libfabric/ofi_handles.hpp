// Owning handles of libfabric objects.
#pragma once
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <memory>

#include "backends/libfabric/ofi_library.hpp"

namespace rtrs::ofi {

struct FidCloser {
  template <class Fid>
  void operator()(Fid* object) const noexcept {
    fi_close(&object->fid);
  }
};
struct InfoFreer {
  void operator()(fi_info* info) const noexcept { library().freeinfo(info); }
};

using FabricHandle = std::unique_ptr<fid_fabric, FidCloser>;
using DomainHandle = std::unique_ptr<fid_domain, FidCloser>;
using EventQueue = std::unique_ptr<fid_eq, FidCloser>;
using CompletionQueue = std::unique_ptr<fid_cq, FidCloser>;
using Endpoint = std::unique_ptr<fid_ep, FidCloser>;
using PassiveEndpoint = std::unique_ptr<fid_pep, FidCloser>;
using MemoryHandle = std::unique_ptr<fid_mr, FidCloser>;
using InfoHandle = std::unique_ptr<fi_info, InfoFreer>;

}  // namespace rtrs::ofi
