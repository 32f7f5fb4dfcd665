// Texts for verbs and connection manager constants, so that a program on in-memory adapters needs no library.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

extern "C" {

const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
      return "work request flushed";
    case IBV_WC_MW_BIND_ERR:
      return "memory window bind error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retries exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "receiver-not-ready retries exceeded";
    default:
      return "another status";
  }
}

const char* ibv_event_type_str(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return "completion queue error";
    case IBV_EVENT_QP_FATAL:
      return "queue pair fatal error";
    case IBV_EVENT_QP_REQ_ERR:
      return "queue pair request error";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "queue pair access error";
    case IBV_EVENT_COMM_EST:
      return "communication established";
    case IBV_EVENT_DEVICE_FATAL:
      return "device fatal error";
    case IBV_EVENT_PORT_ACTIVE:
      return "port active";
    case IBV_EVENT_PORT_ERR:
      return "port error";
    default:
      return "another event";
  }
}

const char* rdma_event_str(rdma_cm_event_type type) {
  switch (type) {
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "connect error";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "unreachable";
    case RDMA_CM_EVENT_REJECTED:
      return "rejected";
    case RDMA_CM_EVENT_ESTABLISHED:
      return "established";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "disconnected";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "device removal";
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return "address change";
    default:
      return "another event of the manager";
  }
}

}  // extern "C"
