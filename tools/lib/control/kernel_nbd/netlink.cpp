// Kernel and LostConnections, implemented with libnl.
#include <linux/nbd-netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <cerrno>

#include "tools/lib/control/kernel_nbd/kernel.hpp"

namespace rtrs::kernel_nbd {

namespace {

struct FreeSocket {
  void operator()(nl_sock* socket) const { nl_socket_free(socket); }
};
struct FreeMessage {
  void operator()(nl_msg* message) const { nlmsg_free(message); }
};
using Socket = std::unique_ptr<nl_sock, FreeSocket>;
using Message = std::unique_ptr<nl_msg, FreeMessage>;

// Connects the socket to generic netlink. Returns the number of the family "nbd", or a positive errno as
// error.
tl::expected<int, int> family_of(nl_sock* socket) {
  if (genl_connect(socket) < 0) return tl::unexpected(errno != 0 ? errno : EIO);
  const int family = genl_ctrl_resolve(socket, NBD_GENL_FAMILY_NAME);
  if (family < 0) return tl::unexpected(family == -NLE_OBJ_NOTFOUND ? ENOENT : EIO);
  return family;
}

struct Answer {
  bool over = false;
  int error = 0;
  std::optional<unsigned> index;
};

std::optional<unsigned> index_in(nl_msg* message) {
  genlmsghdr* const header = static_cast<genlmsghdr*>(nlmsg_data(nlmsg_hdr(message)));
  nlattr* const index = nla_find(genlmsg_attrdata(header, 0), genlmsg_attrlen(header, 0), NBD_ATTR_INDEX);
  if (index == nullptr || nla_len(index) != sizeof(std::uint32_t)) return std::nullopt;
  return nla_get_u32(index);
}

int on_message(nl_msg* message, void* argument) {
  static_cast<Answer*>(argument)->index = index_in(message);
  return NL_OK;
}

int on_ack(nl_msg*, void* argument) {
  static_cast<Answer*>(argument)->over = true;
  return NL_STOP;
}

int on_error(sockaddr_nl*, nlmsgerr* error, void* argument) {
  auto& answer = *static_cast<Answer*>(argument);
  answer.over = true;
  answer.error = error->error < 0 ? -error->error : EIO;
  return NL_STOP;
}

class Netlink final : public Kernel {
 public:
  Netlink(Socket socket, int family) : socket_(std::move(socket)), family_(family) {}

  tl::expected<unsigned, int> attach(const NewDevice& device) override {
    Message message = begin(NBD_CMD_CONNECT);
    if (device.index) put(message, NBD_ATTR_INDEX, static_cast<std::uint32_t>(*device.index));
    put(message, NBD_ATTR_SIZE_BYTES, device.bytes);
    put(message, NBD_ATTR_BLOCK_SIZE_BYTES, std::uint64_t{device.block});
    // Sets no request timeout. After a timeout the kernel would send the request again while the server may
    // still execute the first copy.
    put(message, NBD_ATTR_TIMEOUT, std::uint64_t{0});
    put(message, NBD_ATTR_DEAD_CONN_TIMEOUT, std::uint64_t{device.wait});
    put(message, NBD_ATTR_SERVER_FLAGS, std::uint64_t{device.flags});
    put(message, NBD_ATTR_BACKEND_IDENTIFIER, device.identity);
    put_socket(message, device.fd);
    const Answer answer = ask(message);
    if (answer.error != 0) return tl::unexpected(answer.error);
    if (!answer.index) return tl::unexpected(EPROTO);
    return *answer.index;
  }

  int hand_over(unsigned index, const std::string& identity, int fd) override {
    Message message = begin(NBD_CMD_RECONFIGURE);
    put(message, NBD_ATTR_INDEX, static_cast<std::uint32_t>(index));
    put(message, NBD_ATTR_BACKEND_IDENTIFIER, identity);
    put_socket(message, fd);
    return ask(message).error;
  }

  int resize(unsigned index, const std::string& identity, std::uint64_t bytes) override {
    Message message = begin(NBD_CMD_RECONFIGURE);
    put(message, NBD_ATTR_INDEX, static_cast<std::uint32_t>(index));
    put(message, NBD_ATTR_BACKEND_IDENTIFIER, identity);
    put(message, NBD_ATTR_SIZE_BYTES, bytes);
    return ask(message).error;
  }

  int detach(unsigned index) override {
    Message message = begin(NBD_CMD_DISCONNECT);
    put(message, NBD_ATTR_INDEX, static_cast<std::uint32_t>(index));
    return ask(message).error;
  }

 private:
  Message begin(std::uint8_t command) {
    fits_ = true;
    Message message(nlmsg_alloc());
    fits_ = message && genlmsg_put(message.get(), NL_AUTO_PORT, NL_AUTO_SEQ, family_, 0, 0, command,
                                   NBD_GENL_VERSION) != nullptr;
    return message;
  }
  void put(Message& to, int attribute, std::uint32_t value) {
    fits_ = fits_ && nla_put_u32(to.get(), attribute, value) == 0;
  }
  void put(Message& to, int attribute, std::uint64_t value) {
    fits_ = fits_ && nla_put_u64(to.get(), attribute, value) == 0;
  }
  void put(Message& to, int attribute, const std::string& value) {
    fits_ = fits_ && nla_put_string(to.get(), attribute, value.c_str()) == 0;
  }
  void put_socket(Message& to, int fd) {
    if (!fits_) return;
    nlattr* const all = nla_nest_start(to.get(), NBD_ATTR_SOCKETS);
    nlattr* const one = all != nullptr ? nla_nest_start(to.get(), NBD_SOCK_ITEM) : nullptr;
    fits_ = one != nullptr && nla_put_u32(to.get(), NBD_SOCK_FD, static_cast<std::uint32_t>(fd)) == 0;
    if (!fits_) return;
    nla_nest_end(to.get(), one);
    nla_nest_end(to.get(), all);
  }

  Answer ask(const Message& message) {
    Answer answer;
    if (!fits_) return {true, EMSGSIZE, std::nullopt};
    nl_socket_modify_cb(socket_.get(), NL_CB_VALID, NL_CB_CUSTOM, on_message, &answer);
    nl_socket_modify_cb(socket_.get(), NL_CB_ACK, NL_CB_CUSTOM, on_ack, &answer);
    nl_socket_modify_err_cb(socket_.get(), NL_CB_CUSTOM, on_error, &answer);
    if (nl_send_auto(socket_.get(), message.get()) < 0) return {true, EIO, std::nullopt};
    while (!answer.over)
      if (nl_recvmsgs_default(socket_.get()) < 0 && !answer.over) return {true, EIO, std::nullopt};
    return answer;
  }

  Socket socket_;
  int family_;
  bool fits_ = true;  // all attributes fitted into the message
};

class Multicast final : public LostConnections {
 public:
  explicit Multicast(Socket socket) : socket_(std::move(socket)) {
    nl_socket_modify_cb(socket_.get(), NL_CB_VALID, NL_CB_CUSTOM, take, &news_);
  }

  int fd() const override { return nl_socket_get_fd(socket_.get()); }

  News read() override {
    news_ = {};
    for (;;) {
      const int error = nl_recvmsgs_default(socket_.get());
      if (error == -NLE_AGAIN) break;
      news_.missed = news_.missed || error < 0;  // the receive buffer overflowed
      if (error < 0) break;
    }
    return news_;
  }

 private:
  static int take(nl_msg* message, void* argument) {
    const auto* const header = static_cast<const genlmsghdr*>(nlmsg_data(nlmsg_hdr(message)));
    if (header->cmd != NBD_CMD_LINK_DEAD) return NL_OK;
    if (const auto index = index_in(message)) static_cast<News*>(argument)->lost.push_back(*index);
    return NL_OK;
  }

  Socket socket_;
  News news_;
};

}  // namespace

bool has_netlink() noexcept {
  return true;
}

tl::expected<std::unique_ptr<Kernel>, int> open_kernel() {
  Socket socket(nl_socket_alloc());
  if (!socket) return tl::unexpected(ENOMEM);
  const auto family = family_of(socket.get());
  if (!family) return tl::unexpected(family.error());
  return std::make_unique<Netlink>(std::move(socket), *family);
}

tl::expected<std::unique_ptr<LostConnections>, int> watch_kernel() {
  Socket socket(nl_socket_alloc());
  if (!socket) return tl::unexpected(ENOMEM);
  if (const auto family = family_of(socket.get()); !family) return tl::unexpected(family.error());
  const int group = genl_ctrl_resolve_grp(socket.get(), NBD_GENL_FAMILY_NAME, NBD_GENL_MCAST_GROUP_NAME);
  nl_socket_disable_seq_check(socket.get());
  if (group < 0 || nl_socket_add_membership(socket.get(), group) < 0 ||
      nl_socket_set_nonblocking(socket.get()) < 0)
    return tl::unexpected(EIO);
  return std::make_unique<Multicast>(std::move(socket));
}

}  // namespace rtrs::kernel_nbd
