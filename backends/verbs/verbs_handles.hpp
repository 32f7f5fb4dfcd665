// RAII owners of libibverbs and librdmacm objects.
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <memory>

namespace rtrs::verbs {

template <auto Close>
struct Closer {
  template <class T>
  void operator()(T* object) const noexcept {
    Close(object);
  }
};

using ContextHandle = std::unique_ptr<ibv_context, Closer<ibv_close_device>>;
using DomainHandle = std::unique_ptr<ibv_pd, Closer<ibv_dealloc_pd>>;
using ChannelHandle = std::unique_ptr<ibv_comp_channel, Closer<ibv_destroy_comp_channel>>;
using QueueHandle = std::unique_ptr<ibv_cq, Closer<ibv_destroy_cq>>;
using QpHandle = std::unique_ptr<ibv_qp, Closer<ibv_destroy_qp>>;
using MemoryHandle = std::unique_ptr<ibv_mr, Closer<ibv_dereg_mr>>;
using EventChannelHandle = std::unique_ptr<rdma_event_channel, Closer<rdma_destroy_event_channel>>;
using IdHandle = std::unique_ptr<rdma_cm_id, Closer<rdma_destroy_id>>;

struct WindowCloser {
  void operator()(ibv_mw* window) const noexcept { ibv_dealloc_mw(window); }
};
struct ThreadDomainCloser {
  void operator()(ibv_td* domain) const noexcept { ibv_dealloc_td(domain); }
};
using ThreadDomainHandle = std::unique_ptr<ibv_td, ThreadDomainCloser>;
using WindowHandle = std::unique_ptr<ibv_mw, WindowCloser>;

}  // namespace rtrs::verbs
