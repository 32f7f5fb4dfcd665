#pragma once

/// Errno numbers on the wire. The protocol uses the asm-generic numbers of Linux, independent of <errno.h> of
/// the host. The numbers are positive, except in CON_RSP (protocol section 2.2).
namespace rtrs::wire::linux_errno {

inline constexpr int kEperm = 1;
inline constexpr int kEnoent = 2;
inline constexpr int kEio = 5;
inline constexpr int kEnxio = 6;
inline constexpr int kEagain = 11;
inline constexpr int kEnomem = 12;
inline constexpr int kEacces = 13;
inline constexpr int kEbusy = 16;
inline constexpr int kEexist = 17;
inline constexpr int kEnodev = 19;
inline constexpr int kEinval = 22;
inline constexpr int kEnospc = 28;
inline constexpr int kErofs = 30;
inline constexpr int kErange = 34;
inline constexpr int kEnametoolong = 36;
inline constexpr int kEcomm = 70;
inline constexpr int kEmsgsize = 90;
inline constexpr int kEprotonosupport = 93;
inline constexpr int kEopnotsupp = 95;
inline constexpr int kEaddrinuse = 98;
inline constexpr int kEaddrnotavail = 99;
inline constexpr int kEconnaborted = 103;
inline constexpr int kEconnreset = 104;
inline constexpr int kEnotconn = 107;
inline constexpr int kEshutdown = 108;
inline constexpr int kEtimedout = 110;
inline constexpr int kEconnrefused = 111;
inline constexpr int kEhostunreach = 113;
inline constexpr int kEalready = 114;

/// Largest Linux errno; larger numbers are not errnos.
inline constexpr int kMaxErrno = 4095;

}  // namespace rtrs::wire::linux_errno
