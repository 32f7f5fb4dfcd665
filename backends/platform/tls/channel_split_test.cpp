// Tests encryption and decryption by a Channel: input in pieces of any size, key updates, and each way in
// which a channel ends.
#include <gtest/gtest.h>

#include <random>

#include "backends/platform/tls/test_channel.hpp"

namespace rtrs::tls::channel_split_test {
namespace {

std::string text_of(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
  return text;
}

class Transform : public ::testing::Test {
 protected:
  Transform() : context_(context_of(files_.keys({"alice"}))) {}
  std::unique_ptr<Talk> open() {
    auto talk = std::make_unique<Talk>(context_, context_);
    talk->run();
    EXPECT_TRUE(talk->established());
    return talk;
  }
  TestCredentials files_;
  std::shared_ptr<const Context> context_;
};

TEST_F(Transform, pieces_of_any_size_give_the_same_bytes) {
  const std::string down = text_of(100'000);
  const std::string up = text_of(40'000);
  for (const std::size_t size : {1, 2, 3, 4, 5, 6, 7, 21, 22, 1000, 16'406, 16'407, 100'000}) {
    Talk talk(context_, context_);
    talk.piece = [size] { return size; };
    talk.run();
    ASSERT_TRUE(talk.established()) << size;
    talk.send(talk.server, talk.client, down);
    talk.send(talk.client, talk.server, up);
    EXPECT_EQ(talk.client.got, down) << size;
    EXPECT_EQ(talk.server.got, up) << size;
  }
  std::mt19937 random(17);
  for (int round = 0; round < 50; ++round) {
    Talk talk(context_, context_);
    const std::size_t most = 1U << random() % 16;
    talk.piece = [&] { return 1 + random() % most; };
    talk.run();
    talk.send(talk.server, talk.client, down);
    EXPECT_EQ(talk.client.got, down);
  }
}

TEST_F(Transform, sent_bytes_are_encrypted) {
  const auto talk = open();
  const std::string text = text_of(1000);
  talk->send(talk->client, talk->server, text);
  const ByteVector plain = octets(text.substr(100, 16));
  const ByteVector sealed = talk->to_server;
  EXPECT_EQ(std::search(sealed.begin(), sealed.end(), plain.begin(), plain.end()), sealed.end());
  EXPECT_EQ(talk->server.got, text);
}

TEST_F(Transform, small_parts_share_one_record) {
  const auto talk = open();
  const ByteVector small = octets(text_of(40));
  const std::vector<std::span<const std::byte>> parts(300, std::span<const std::byte>(small));
  EXPECT_EQ(talk->client.channel->seal(parts, 0), 12'000U);
  const std::size_t sealed = talk->client.channel->output().size();
  EXPECT_GE(sealed, 12'000U);
  EXPECT_LE(sealed, 12'000U + kRecordOverhead);
  talk->server.feed(talk->client.take(), talk->piece);
  EXPECT_EQ(talk->server.got.size(), 12'000U);
  EXPECT_EQ(talk->server.got.substr(40, 40), text_of(40));
}

TEST_F(Transform, seal_skips_the_bytes_already_taken) {
  const auto talk = open();
  const ByteVector first = octets(text_of(50'000));
  const ByteVector second = octets("the end");
  const std::vector<std::span<const std::byte>> parts{first, {}, second};
  EXPECT_EQ(talk->client.channel->seal(parts, 49'000), 1007U);
  talk->server.feed(talk->client.take(), talk->piece);
  EXPECT_EQ(talk->server.got, text_of(50'000).substr(49'000) + "the end");
}

TEST_F(Transform, unsent_output_is_bounded) {
  const auto talk = open();
  const ByteVector much = octets(text_of(4 * kSealedBytes));
  const std::span<const std::byte> part(much);
  const std::size_t taken = talk->client.channel->seal({&part, 1}, 0);
  EXPECT_GE(taken, 8 * kRecordBytes);
  EXPECT_LE(talk->client.channel->output().size(), kSealedBytes);
  EXPECT_EQ(talk->client.channel->seal({&part, 1}, taken), 0U);
  EXPECT_EQ(talk->client.channel->error(), "");
  talk->server.feed(talk->client.take(), talk->piece);
  EXPECT_GT(talk->client.channel->seal({&part, 1}, taken), 0U);
  talk->server.feed(talk->client.take(), talk->piece);
  EXPECT_EQ(talk->server.got, text_of(4 * kSealedBytes).substr(0, talk->server.got.size()));
  EXPECT_GT(talk->server.got.size(), taken);
}

TEST_F(Transform, close_is_reported_after_all_bytes) {
  const auto talk = open();
  const ByteVector last = octets("last words");
  const std::span<const std::byte> part(last);
  talk->client.channel->seal({&part, 1}, 0);
  talk->client.channel->close();
  const ByteVector sealed = talk->client.take();
  talk->server.feed(sealed, talk->piece);
  EXPECT_EQ(talk->server.got, "last words");
  EXPECT_EQ(talk->server.state, Channel::State::closed);
  EXPECT_EQ(talk->server.channel->error(), "");
}

TEST_F(Transform, incomplete_records_return_no_data) {
  const auto talk = open();
  const ByteVector text = octets(text_of(1000));
  const std::span<const std::byte> part(text);
  talk->client.channel->seal({&part, 1}, 0);
  const ByteVector sealed = talk->client.take();
  talk->server.feed(std::span(sealed).first(sealed.size() - 1), talk->piece);
  EXPECT_EQ(talk->server.got, "");
  EXPECT_EQ(talk->server.state, Channel::State::open);
  talk->server.feed(std::span(sealed).last(1), talk->piece);
  EXPECT_EQ(talk->server.got, text_of(1000));
}

TEST_F(Transform, a_changed_byte_ends_the_stream_after_the_valid_data) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{3}, std::size_t{5}, std::size_t{500}}) {
    const auto talk = open();
    talk->send(talk->client, talk->server, "good");
    const ByteVector text = octets(text_of(1000));
    const std::span<const std::byte> part(text);
    talk->client.channel->seal({&part, 1}, 0);
    ByteVector sealed = talk->client.take();
    sealed[at] ^= std::byte{0x40};
    talk->server.feed(sealed, talk->piece);
    EXPECT_TRUE(talk->server.failed()) << at;
    EXPECT_EQ(talk->server.got, "good");
    EXPECT_NE(talk->server.channel->error(), "");
    // The server sends an alert, and the client receives it.
    talk->client.feed(talk->server.take(), talk->piece);
    EXPECT_TRUE(talk->client.failed()) << at;
    EXPECT_NE(talk->client.channel->error().find("it sent the alert"), std::string::npos)
        << talk->client.channel->error();
  }
}

TEST_F(Transform, replayed_records_are_rejected) {
  const auto talk = open();
  const ByteVector text = octets("again");
  const std::span<const std::byte> part(text);
  talk->client.channel->seal({&part, 1}, 0);
  const ByteVector sealed = talk->client.take();
  talk->server.feed(sealed, talk->piece);
  EXPECT_EQ(talk->server.got, "again");
  talk->server.feed(sealed, talk->piece);
  EXPECT_TRUE(talk->server.failed());
  EXPECT_EQ(talk->server.got, "again");
}

TEST_F(Transform, overlong_records_end_the_stream) {
  for (const bool established : {false, true}) {
    const auto talk = established ? open() : std::make_unique<Talk>(context_, context_);
    ByteVector record = octets(std::string("\x17\x03\x03\x41\x01", 5) + std::string(0x4101, 'x'));
    if (!established) record[0] = std::byte{0x16};
    talk->server.feed(record, talk->piece);
    EXPECT_TRUE(talk->server.failed());
  }
}

TEST_F(Transform, an_alert_ends_the_handshake) {
  Talk talk(context_, context_);
  talk.client.feed({}, talk.piece);
  talk.client.feed(octets(std::string("\x15\x03\x03\x00\x02\x02\x28", 7)), talk.piece);
  EXPECT_TRUE(talk.client.failed());
  EXPECT_NE(talk.client.channel->error().find("it sent the alert \"handshake failure\""), std::string::npos)
      << talk.client.channel->error();
}

TEST_F(Transform, data_that_is_not_tls_ends_the_stream) {
  for (const std::string& text :
       {std::string("MPA ID Req Frame"), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(20'000, '\0'),
        std::string("\x16\x03\x01\x00\x04\x05\x00\x00\x00", 9)}) {
    Talk talk(context_, context_);
    talk.server.feed(octets(text), talk.piece);
    EXPECT_TRUE(talk.server.failed()) << text;
    EXPECT_EQ(talk.server.got, "");
  }
}

TEST_F(Transform, data_survives_key_updates) {
  Credentials hasty = files_.keys({"alice"});
  hasty.records_per_key =
      1200;  // records of 16 KiB between two key updates: more than the minimum that the peer requires
  const auto context = context_of(hasty);
  Talk talk(context, context);
  talk.run();
  const std::string text = text_of(kRecordBytes);
  for (int i = 0; i < 3000; ++i) {
    talk.server.got.clear();
    talk.send(talk.client, talk.server, text);
    ASSERT_EQ(talk.server.got, text) << i << talk.server.channel->error();
  }
}

TEST_F(Transform, too_frequent_key_updates_end_the_stream) {
  Credentials hasty = files_.keys({"alice"});
  hasty.records_per_key = 1;
  const auto context = context_of(hasty);
  Talk talk(context, context);
  talk.run();
  for (int i = 0; i < 10 && !talk.server.failed(); ++i) talk.send(talk.client, talk.server, "x");
  EXPECT_EQ(talk.server.channel->error(), "TLS: it changes its key too often");
  EXPECT_LE(talk.server.got.size(), 2U);
}

TEST_F(Transform, returned_buffers_are_reused) {
  SealedBuffers buffers;
  SealedBuffers::Buffer one = buffers.take();
  const std::byte* const at = one.get();
  buffers.give_back(std::move(one));
  EXPECT_EQ(buffers.take().get(), at);
}

}  // namespace
}  // namespace rtrs::tls::channel_split_test
