// Layout of an MPA request or reply: RFC 5044 section 7.1.1, RFC 6581 section 9.1.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rtrs::iwarp::greeting {

inline constexpr std::string_view kRequestKey = "MPA ID Req Frame";
inline constexpr std::string_view kReplyKey = "MPA ID Rep Frame";
inline constexpr std::size_t kFlagsAt = 16;
inline constexpr std::size_t kRevisionAt = 17;
inline constexpr std::size_t kSizeAt = 18;  // size of the private data, 16 bits

inline constexpr unsigned kMarkersFlag = 0x80;
inline constexpr unsigned kCrcFlag = 0x40;
inline constexpr unsigned kRejectFlag = 0x20;
inline constexpr unsigned kEnhancedFlag = 0x10;

// IRD and ORD are 16 bits each; the upper two bits of each are flags.
inline constexpr unsigned kDepthMask = 0x3fff;
inline constexpr unsigned kPeerToPeer = 0x8000;  // flag in IRD
inline constexpr unsigned kWriteFirst =
    0x8000;  // flag in ORD: the initiator sends an empty RDMA write so that the responder may send

inline constexpr std::string_view kOwnMagic = "uRTR";
inline constexpr std::size_t kOwnVersionAt = 4;
inline constexpr unsigned kOwnVersion = 1;
inline constexpr std::size_t kOwnFlagsAt = 5;
inline constexpr unsigned kOwnSendWithImmediate = 0x01;

}  // namespace rtrs::iwarp::greeting
