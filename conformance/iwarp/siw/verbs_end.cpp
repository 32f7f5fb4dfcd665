// End on an iWARP adapter. Uses only librdmacm and libibverbs, no code of urtrs.
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "conformance/iwarp/siw/end.hpp"

namespace rtrs::siw {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kSendDepth = 256;
constexpr std::uint64_t kReceiveMark = std::uint64_t{1}
                                       << 32;  // bit of a work request id that marks a receive
constexpr int kResolveMs = 5000;
// The private data in connect requests of the TCP fabric begins with these bytes. Two urtrs ends recognise
// each other by them.
constexpr std::array<unsigned char, 4> kOwnMagic{'u', 'R', 'T', 'R'};
constexpr std::size_t kOwnBytes = 8;

[[noreturn]] void give_up(const std::string& what) {
  throw Failure(what + ": " + std::strerror(errno));
}

void check(int result, const char* what) {
  if (result == 0) return;
  // Some functions return the errno, others set it.
  if (result > 0) errno = result;
  give_up(what);
}

template <class T>
T* must(T* made, const char* what) {
  if (made == nullptr) give_up(what);
  return made;
}

class VerbsEnd final : public End {
 public:
  VerbsEnd()
      : channel_(must(rdma_create_event_channel(), "rdma_create_event_channel")),
        target_(kMemoryBytes),
        source_(kSourceBytes),
        receives_(kReceives * kMessageBytes) {
    check(::fcntl(channel_->fd, F_SETFL, O_NONBLOCK), "fcntl");
  }
  VerbsEnd(const VerbsEnd&) = delete;
  VerbsEnd& operator=(const VerbsEnd&) = delete;
  // Frees nothing, because the process ends next and the kernel then frees all objects.
  ~VerbsEnd() override = default;

  void listen(const std::string& address, std::uint16_t port) override {
    check(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP), "rdma_create_id");
    sockaddr_in at = ip(address, port);
    check(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&at)), "rdma_bind_addr");
    check(rdma_listen(listener_, 8), "rdma_listen");
  }

  ByteVector request() override {
    wait("a connect request", [this] { return requested_ != nullptr; });
    ByteVector data = std::move(data_);
    if (data.size() >= kOwnBytes && std::memcmp(data.data(), kOwnMagic.data(), kOwnMagic.size()) == 0)
      data.erase(data.begin(), data.begin() + kOwnBytes);
    return data;
  }

  void accept(Bytes data) override {
    id_ = std::exchange(requested_, nullptr);
    prepare();
    rdma_conn_param params = params_of(data);
    check(rdma_accept(id_, &params), "rdma_accept");
    wait("the connection", [this] { return established_; });
  }

  void reject(Bytes data) override {
    rdma_cm_id* const id = std::exchange(requested_, nullptr);
    check(rdma_reject(id, data.data(), static_cast<std::uint8_t>(data.size())), "rdma_reject");
    check(rdma_destroy_id(id), "rdma_destroy_id");
  }

  Answer connect(const std::string& source, const std::string& address, std::uint16_t port,
                 Bytes data) override {
    check(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP), "rdma_create_id");
    sockaddr_in from = ip(source, 0);
    sockaddr_in to = ip(address, port);
    check(rdma_resolve_addr(id_, reinterpret_cast<sockaddr*>(&from), reinterpret_cast<sockaddr*>(&to),
                            kResolveMs),
          "rdma_resolve_addr");
    wait("the address", [this] { return last_ == RDMA_CM_EVENT_ADDR_RESOLVED; });
    check(rdma_resolve_route(id_, kResolveMs), "rdma_resolve_route");
    wait("the route", [this] { return last_ == RDMA_CM_EVENT_ROUTE_RESOLVED; });
    prepare();
    rdma_conn_param params = params_of(data);
    check(rdma_connect(id_, &params), "rdma_connect");
    wait("an answer to the request", [this] { return established_ || rejected_; });
    return {established_, std::move(data_)};
  }

  // siw accepts 252 bytes, but its own length field has one byte and counts four bytes more, so it can send
  // only 251.
  [[nodiscard]] std::size_t most_data(bool /*initiator*/) const override { return 251; }

  [[nodiscard]] MutableBytes memory() override { return target_; }
  [[nodiscard]] Place place() const override {
    return {reinterpret_cast<std::uintptr_t>(target_.data()), target_key_->rkey};
  }

  void send(Bytes message) override {
    ibv_send_wr work{};
    work.opcode = IBV_WR_SEND;
    post(work, message);
  }

  void write(const Place& to, Bytes payload) override {
    ibv_send_wr work{};
    work.opcode = IBV_WR_RDMA_WRITE;
    work.wr.rdma.remote_addr = to.address;
    work.wr.rdma.rkey = to.key;
    post(work, payload);
  }

  ByteVector message() override {
    wait("a message", [this] { return !messages_.empty(); });
    ByteVector first = std::move(messages_.front());
    messages_.pop_front();
    return first;
  }

  bool has_message() override {
    return wait_until(Clock::now() + std::chrono::milliseconds(kMomentMs), "a message",
                      [this] { return !messages_.empty(); });
  }

  std::string wait_for_end() override {
    expects_end_ = true;
    wait("the end of the connection", [this] { return disconnected_; });
    if (!messages_.empty()) throw Failure("a message that nobody sent");
    return error_ == IBV_WC_SUCCESS ? "told"
                                    : std::string("told; work requests: ") + ibv_wc_status_str(error_);
  }

  void disconnect() override {
    expects_end_ = true;
    if (established_) {
      if (!disconnected_) rdma_disconnect(id_);
      wait("the end of the connection", [this] { return disconnected_; });
    }
    rdma_destroy_qp(id_);
    check(ibv_destroy_cq(queue_), "ibv_destroy_cq");
    for (ibv_mr* one : {target_key_, source_key_, receive_key_}) check(ibv_dereg_mr(one), "ibv_dereg_mr");
    check(ibv_dealloc_pd(domain_), "ibv_dealloc_pd");
    check(rdma_destroy_id(id_), "rdma_destroy_id");
    id_ = nullptr;
  }

 private:
  static sockaddr_in ip(const std::string& address, std::uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    if (::inet_pton(AF_INET, address.c_str(), &made.sin_addr) != 1)
      throw Failure(address + " is not an address");
    return made;
  }

  static rdma_conn_param params_of(Bytes data) {
    rdma_conn_param params{};
    params.private_data = data.data();
    params.private_data_len = static_cast<std::uint8_t>(data.size());
    params.responder_resources = params.initiator_depth = 1;
    return params;
  }

  // Creates queue pair, memory and receives of a connection before anything can arrive.
  void prepare() {
    established_ = disconnected_ = rejected_ = expects_end_ = false;
    error_ = IBV_WC_SUCCESS;
    outstanding_ = 0;
    used_ = 0;
    messages_.clear();
    domain_ = must(ibv_alloc_pd(id_->verbs), "ibv_alloc_pd");
    queue_ =
        must(ibv_create_cq(id_->verbs, 2 * (kSendDepth + kReceives), nullptr, nullptr, 0), "ibv_create_cq");
    const auto reg = [this](ByteVector& memory, int access) {
      return must(ibv_reg_mr(domain_, memory.data(), memory.size(), access), "ibv_reg_mr");
    };
    target_key_ = reg(target_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    source_key_ = reg(source_, 0);
    receive_key_ = reg(receives_, IBV_ACCESS_LOCAL_WRITE);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue_;
    attributes.cap = {.max_send_wr = kSendDepth,
                      .max_recv_wr = kReceives,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 0};
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 1;
    check(rdma_create_qp(id_, domain_, &attributes), "rdma_create_qp");
    for (unsigned i = 0; i < kReceives; ++i) post_receive(i);
  }

  void post_receive(std::uint64_t number) {
    ibv_sge part{reinterpret_cast<std::uintptr_t>(receives_.data()) + number * kMessageBytes,
                 static_cast<std::uint32_t>(kMessageBytes), receive_key_->lkey};
    ibv_recv_wr work{};
    work.wr_id = kReceiveMark | number;
    work.sg_list = &part;
    work.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    check(ibv_post_recv(id_->qp, &work, &refused), "ibv_post_recv");
  }

  void post(ibv_send_wr& work, Bytes payload) {
    if (used_ + payload.size() > source_.size()) {
      wait("the end of earlier requests", [this] { return outstanding_ == 0; });
      used_ = 0;
    }
    wait("room for a request", [this] { return outstanding_ < kSendDepth; });
    std::copy(payload.begin(), payload.end(), source_.begin() + static_cast<std::ptrdiff_t>(used_));
    ibv_sge part{reinterpret_cast<std::uintptr_t>(source_.data()) + used_,
                 static_cast<std::uint32_t>(payload.size()), source_key_->lkey};
    work.sg_list = &part;
    work.num_sge = payload.empty() ? 0 : 1;
    ibv_send_wr* refused = nullptr;
    check(ibv_post_send(id_->qp, &work, &refused), "ibv_post_send");
    used_ += payload.size();
    ++outstanding_;
  }

  template <class Condition>
  void wait(const char* what, Condition&& holds) {
    if (!wait_until(Clock::now() + std::chrono::seconds(kPatienceSeconds), what, holds))
      throw Failure(std::string("waited too long for ") + what);
  }

  template <class Condition>
  bool wait_until(Clock::time_point late, const char* what, Condition&& holds) {
    while (!holds()) {
      if (disconnected_ && !expects_end_) {
        // Completions that arrived before the disconnect are handled first.
        take_completions();
        if (holds()) return true;
        throw Failure(std::string("the connection ended while this waited for ") + what);
      }
      if (Clock::now() > late) return false;
      if (!take_completions() && !take_event()) {
        pollfd waited{.fd = channel_->fd, .events = POLLIN, .revents = 0};
        ::poll(&waited, 1, 1);
      }
    }
    return true;
  }

  bool take_completions() {
    if (id_ == nullptr || id_->qp == nullptr) return false;
    std::array<ibv_wc, 16> done;
    const int count = ibv_poll_cq(queue_, static_cast<int>(done.size()), done.data());
    if (count < 0) throw Failure("ibv_poll_cq");
    for (const ibv_wc& one : std::span(done).first(static_cast<std::size_t>(count))) see(one);
    return count != 0;
  }

  void see(const ibv_wc& one) {
    const bool received = (one.wr_id & kReceiveMark) != 0;
    if (!received) --outstanding_;
    if (one.status != IBV_WC_SUCCESS) {
      if (one.status != IBV_WC_WR_FLUSH_ERR || error_ == IBV_WC_SUCCESS) error_ = one.status;
      return;
    }
    if (!received) return;
    const std::uint64_t number = one.wr_id & ~kReceiveMark;
    const auto from = receives_.begin() + static_cast<std::ptrdiff_t>(number * kMessageBytes);
    messages_.emplace_back(from, from + one.byte_len);
    post_receive(number);
  }

  bool take_event() {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) != 0) {
      if (errno != EAGAIN) give_up("rdma_get_cm_event");
      return false;
    }
    const rdma_cm_event_type kind = event->event;
    last_ = kind;
    const auto* const data = static_cast<const std::byte*>(event->param.conn.private_data);
    const std::size_t size = data == nullptr ? 0 : event->param.conn.private_data_len;
    const int status = event->status;
    rdma_cm_id* const id = event->id;
    std::fprintf(stderr, "verbs: %s, status %d, %zu octets\n", rdma_event_str(kind), status, size);
    std::string wrong;
    switch (kind) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        requested_ = id;
        data_.assign(data, data + size);
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
        established_ = true;
        data_.assign(data, data + size);
        break;
      case RDMA_CM_EVENT_REJECTED:
        rejected_ = true;
        data_.assign(data, data + size);
        break;
      case RDMA_CM_EVENT_DISCONNECTED:
        disconnected_ = disconnected_ || id == id_;
        break;
      case RDMA_CM_EVENT_ADDR_RESOLVED:
      case RDMA_CM_EVENT_ROUTE_RESOLVED:
      case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        break;
      default:
        wrong = std::string(rdma_event_str(kind)) + ", status " + std::to_string(status);
    }
    rdma_ack_cm_event(event);
    if (!wrong.empty()) throw Failure(wrong);
    return true;
  }

  rdma_event_channel* channel_;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* requested_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* target_key_ = nullptr;
  ibv_mr* source_key_ = nullptr;
  ibv_mr* receive_key_ = nullptr;
  ByteVector target_;
  ByteVector source_;
  ByteVector receives_;
  ByteVector data_;
  std::deque<ByteVector> messages_;
  std::optional<rdma_cm_event_type> last_;
  bool established_ = false;
  bool disconnected_ = false;
  bool rejected_ = false;
  bool expects_end_ = false;
  ibv_wc_status error_ = IBV_WC_SUCCESS;
  unsigned outstanding_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<End> verbs_end() {
  return std::make_unique<VerbsEnd>();
}

}  // namespace rtrs::siw
