#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/test_short_memory.hpp"
#include "core/fabric/connection_book.hpp"
#include "core/fabric/errors.hpp"
#include "core/fabric/pending_events.hpp"

namespace rtrs::fabric_parts_test {
namespace {

constexpr ConKey con(std::uint16_t number) {
  ConKey key{};
  key.con = number;
  return key;
}

class Connection {
 public:
  explicit Connection(ConKey key) : key_(key) {}
  const ConKey& key() const { return key_; }

 private:
  ConKey key_;
};

std::string_view bytes_of(FabricEvent& event) {
  const std::span<const std::byte> bytes = *event::bytes_in(event);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(ConnectionBook, ARemovedConnectionIsNotFoundAgain) {
  ConnectionBook<Connection> book;
  Connection& first = book.add(std::make_unique<Connection>(con(1)));
  Connection& second = book.add(std::make_unique<Connection>(con(2)));
  EXPECT_EQ(book.find(con(1)), &first);
  EXPECT_EQ(book.find(con(2)), &second);
  EXPECT_EQ(book.last_found(), &second);
  EXPECT_EQ(book.find(con(3)), nullptr);
  EXPECT_EQ(book.last_found(), &second);

  const std::unique_ptr<Connection> removed = book.remove(con(2));
  EXPECT_EQ(removed.get(), &second);
  EXPECT_EQ(book.last_found(), nullptr);
  EXPECT_EQ(book.find(con(2)), nullptr);
  EXPECT_EQ(book.remove(con(2)), nullptr);
  EXPECT_EQ(book.size(), 1U);
}

TEST(ConnectionBook, RemovalOfAnotherConnectionKeepsTheLastFound) {
  ConnectionBook<Connection> book;
  Connection& first = book.add(std::make_unique<Connection>(con(1)));
  book.add(std::make_unique<Connection>(con(2)));
  book.find(con(1));
  book.remove(con(2));
  EXPECT_EQ(book.last_found(), &first);
  book.clear();
  EXPECT_EQ(book.last_found(), nullptr);
  EXPECT_EQ(book.size(), 0U);
}

TEST(PendingEvents, TakesTheOldestFirstWithTheirBytes) {
  PendingEvents pending;
  pending.add(event::Connected{con(1), {}}, "hello");
  pending.add(event::ConnectionLost{con(2), Reason::peer_closed});
  pending.add(event::Connected{con(3), {}}, "world");
  std::array<FabricEvent, 2> out;
  ASSERT_EQ(pending.take(out), 2U);
  EXPECT_EQ(*event::key_of(out[0]), con(1));
  EXPECT_EQ(bytes_of(out[0]), "hello");
  EXPECT_EQ(*event::key_of(out[1]), con(2));
  EXPECT_FALSE(pending.empty());
  EXPECT_TRUE(pending.has_bytes());

  std::array<FabricEvent, 2> more;
  ASSERT_EQ(pending.take(more), 1U);
  EXPECT_EQ(bytes_of(more[0]), "world");
  EXPECT_EQ(bytes_of(out[0]), "hello");
  EXPECT_TRUE(pending.empty());
  pending.free_bytes();
  EXPECT_FALSE(pending.has_bytes());
}

TEST(PendingEvents, AClosedConnectionKeepsOnlyItsCompletedInvalidations) {
  PendingEvents pending;
  pending.add(event::ConnectionLost{con(9), Reason::peer_closed});
  pending.add(event::Connected{con(1), {}}, "hello");
  pending.add(event::ChunkInvalidated{con(1), 7, true});
  pending.add(event::ConnectionLost{con(2), Reason::peer_closed});
  std::array<FabricEvent, 4> out;
  ASSERT_EQ(pending.take(std::span(out).first(1)), 1U);
  pending.drop(con(1));
  ASSERT_EQ(pending.take(out), 2U);
  EXPECT_EQ(std::get<event::ChunkInvalidated>(out[0]).cookie, 7U);
  EXPECT_EQ(std::get<event::ConnectionLost>(out[1]).key, con(2));
  EXPECT_TRUE(pending.empty());
}

TEST(PendingEvents, AfterReserveOneAddNeedsNoMemory) {
  PendingEvents pending;
  for (int i = 0; i < 100; ++i) {
    pending.reserve_one();
    test::allocations_left = 1;
    EXPECT_NO_THROW(pending.add(event::ConnectionLost{con(1), Reason::peer_closed}));
    test::allocations_left = 0;
  }
  std::array<FabricEvent, 100> out;
  EXPECT_EQ(pending.take(out), 100U);
}

TEST(FabricErrors, DetailFollowsTheSentenceUnlessItRepeatsIt) {
  EXPECT_EQ(sentence_with(Reason::rejected, "by its rules"), "rejected by the server: by its rules");
  EXPECT_EQ(sentence_with(Reason::rejected, ""), "rejected by the server");
  EXPECT_EQ(sentence_with(Reason::rejected, "rejected by the server"), "rejected by the server");
  EXPECT_EQ(sentence_with(Reason::connect_refused, "Connection refused (111)"), "connection refused (111)");
  EXPECT_EQ(sentence_with(Reason::connect_refused, "C"), "connection refused: C");
  EXPECT_EQ(sentence_with(Reason::tls_failed, "TLS: no key of web1"),
            "TLS: one end rejected the other: no key of web1");
  EXPECT_EQ(sentence_with(Reason::tls_failed, "T"), "TLS: one end rejected the other: T");
}

TEST(FabricErrors, EachErrnoOfAFabricHasAResultAndReasons) {
  EXPECT_EQ(to_errc(0), Errc::ok);
  for (const int error : {ENOMEM, ENOBUFS, EMFILE, ENFILE}) {
    EXPECT_EQ(to_errc(error), Errc::no_memory) << error;
    EXPECT_EQ(reason_of_connect_errno(error), Reason::no_resources) << error;
  }
  for (const int error : {EADDRNOTAVAIL, EAFNOSUPPORT, ENODEV})
    EXPECT_EQ(to_errc(error), Errc::bad_address) << error;
  for (const int error : {EACCES, EPERM}) EXPECT_EQ(to_errc(error), Errc::no_permission) << error;
  for (const int error : {ENOSYS, EOPNOTSUPP, ENODATA})
    EXPECT_EQ(to_errc(error), Errc::not_supported) << error;
  EXPECT_EQ(to_errc(EADDRINUSE), Errc::address_in_use);
  EXPECT_EQ(to_errc(EINVAL), Errc::invalid);
  EXPECT_EQ(to_errc(EIO), Errc::fabric_error);

  EXPECT_EQ(reason_of_connect_errno(ECONNREFUSED), Reason::connect_refused);
  EXPECT_EQ(reason_of_connect_errno(ETIMEDOUT), Reason::connect_timeout);
  for (const int error : {EHOSTUNREACH, ENETUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT})
    EXPECT_EQ(reason_of_connect_errno(error), Reason::address_unresolved) << error;
  for (const int error : {0, ECONNRESET, ECONNABORTED, ESHUTDOWN, ENOTCONN, EPIPE}) {
    EXPECT_EQ(reason_of_connect_errno(error), Reason::peer_closed) << error;
    EXPECT_EQ(reason_of_loss_errno(error), Reason::peer_closed) << error;
  }
  for (const int error : {ENOMEM, ENOBUFS}) EXPECT_EQ(reason_of_loss_errno(error), Reason::no_resources);
  // An established connection may recover from these errors, unlike a connect attempt without a route.
  for (const int error : {ETIMEDOUT, EHOSTUNREACH, EIO})
    EXPECT_EQ(reason_of_loss_errno(error), Reason::transport_error) << error;
}

}  // namespace
}  // namespace rtrs::fabric_parts_test
