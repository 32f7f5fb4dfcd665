-- RTRS (RDMA transport) and RNBD (network block device over RTRS) for Wireshark and tshark 3.6 and later.
-- Installation, filters and limits: docs/wireshark.md.
--
-- Copyright (c) 2026, the urtrs authors. All rights reserved.
-- SPDX-License-Identifier: BSD-2-Clause
--
-- Redistribution and use in source and binary forms, with or without modification, are permitted provided that
-- the following conditions are met:
-- 1. Redistributions of source code must retain the above copyright notice, this list of conditions and the
--    following disclaimer.
-- 2. Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the
--    following disclaimer in the documentation and/or other materials provided with the distribution.
--
-- THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED
-- WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A
-- PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE FOR ANY
-- DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO,
-- PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
-- CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR
-- OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
--
-- Wireshark decodes RoCEv2 with its connection management, and iWARP over TCP. This file decodes RTRS and RNBD inside.
-- It is a post-dissector, because messages without payload (heartbeats, responses) never reach a payload dissector.
-- It reads the headers itself, because fields of other dissectors are missing in passes that display nothing.
-- Each frame is decoded once, in the order of the capture. `frames` keeps the result; later visits only display it.

local rtrs = Proto("rtrs", "RDMA Transport (RTRS)")
local rnbd = Proto("rnbd", "RDMA Network Block Device (RNBD)")

-- Field names -----------------------------------------------------------------------------------------------

-- Words of rtrs.type: CON_REQ CON_RSP CON_REJ INFO_REQ INFO_RSP IO_REQ IO_RSP RKEY_RSP DATA INVAL HB HB_ACK
-- FENCE_REQ FENCE_RSP UNKNOWN. A response that carries a fresh key is both IO_RSP and RKEY_RSP.
local imm_types = { [0] = "IO_REQ", [1] = "IO_RSP", [2] = "IO_RSP_W_INV", [8] = "HB_MSG", [9] = "HB_ACK" }
local directions = { [2] = "WRITE", [3] = "READ" }
local rnbd_types = { [0] = "SESS_INFO", [1] = "SESS_INFO_RSP", [2] = "OPEN", [3] = "OPEN_RSP", [4] = "IO", [5] = "CLOSE" }
local rnbd_ops = { [0] = "READ", [1] = "WRITE", [2] = "FLUSH", [3] = "DISCARD", [4] = "SECURE_ERASE", [5] = "WRITE_ZEROES" }
local access_modes = { [0] = "ro", [1] = "rw", [2] = "migration" }
local errnos = {
  [0] = "ok", [1] = "EPERM", [2] = "ENOENT", [5] = "EIO", [6] = "ENXIO", [11] = "EAGAIN", [12] = "ENOMEM", [13] = "EACCES",
  [16] = "EBUSY", [17] = "EEXIST", [19] = "ENODEV", [22] = "EINVAL", [28] = "ENOSPC", [30] = "EROFS", [34] = "ERANGE",
  [36] = "ENAMETOOLONG", [61] = "ENODATA", [62] = "ETIME", [67] = "ENOLINK", [70] = "ECOMM", [90] = "EMSGSIZE",
  [93] = "EPROTONOSUPPORT", [95] = "EOPNOTSUPP", [103] = "ECONNABORTED", [104] = "ECONNRESET", [107] = "ENOTCONN",
  [110] = "ETIMEDOUT", [113] = "EHOSTUNREACH", [114] = "EALREADY", [121] = "EREMOTEIO",
}

local f = {
  type = ProtoField.string("rtrs.type", "Type"),
  direction = ProtoField.string("rtrs.direction", "Direction"),
  connection = ProtoField.uint32("rtrs.connection", "Connection"),
  cid = ProtoField.uint16("rtrs.cid", "Connection of the path (cid)"),
  path = ProtoField.guid("rtrs.path", "Path"),
  session = ProtoField.guid("rtrs.session", "Session"),
  magic = ProtoField.uint16("rtrs.magic", "Magic", base.HEX),
  version = ProtoField.uint16("rtrs.version", "Version", base.HEX),
  cid_num = ProtoField.uint16("rtrs.cid_num", "Connections of the path"),
  recon_cnt = ProtoField.uint16("rtrs.recon_cnt", "Connection attempt"),
  first_conn = ProtoField.bool("rtrs.first_conn", "First connection of the session"),
  ext_fence = ProtoField.bool("rtrs.extension.fence", "Extension: fence (urtrs)"),
  ext_generation = ProtoField.bool("rtrs.extension.generation", "Extension: permit generation (urtrs)"),
  ext_keys_stay = ProtoField.bool("rtrs.extension.keys_stay", "Extension: the client invalidates its keys (urtrs)"),
  ext_data_with_answer = ProtoField.bool("rtrs.extension.data_with_answer", "Extension: the answer of a read carries its data (urtrs)"),
  ext_probe = ProtoField.bool("rtrs.extension.probe", "Extension: heartbeats on every connection (urtrs)"),
  ext_key_proof = ProtoField.bool("rtrs.extension.key_proof", "Extension: both ends prove a shared key (urtrs)"),
  key_hint = ProtoField.uint16("rtrs.key.hint", "Which key (urtrs)", base.HEX),
  key_proof = ProtoField.bytes("rtrs.key.proof", "Proof of the key (urtrs)"),
  key_nonce = ProtoField.bytes("rtrs.key.nonce", "Challenge: nonce (urtrs)"),
  queue_depth = ProtoField.uint16("rtrs.queue_depth", "Queue depth"),
  max_io_size = ProtoField.uint32("rtrs.max_io_size", "Largest IO"),
  max_hdr_size = ProtoField.uint32("rtrs.max_hdr_size", "Room for headers"),
  flags = ProtoField.uint32("rtrs.flags", "Flags", base.HEX),
  new_rkey = ProtoField.bool("rtrs.flags.new_rkey", "A fresh key with every response"),
  name = ProtoField.string("rtrs.name", "Session name"),
  sg_cnt = ProtoField.uint16("rtrs.sg_cnt", "Descriptors"),
  desc = ProtoField.string("rtrs.desc", "Descriptor"),
  desc_addr = ProtoField.uint64("rtrs.desc.addr", "Address", base.HEX),
  desc_key = ProtoField.uint32("rtrs.desc.key", "Key", base.HEX),
  desc_len = ProtoField.uint32("rtrs.desc.len", "Length"),
  imm = ProtoField.uint32("rtrs.imm", "Immediate", base.HEX),
  imm_type = ProtoField.uint8("rtrs.imm.type", "Immediate type", base.DEC, imm_types),
  buf_id = ProtoField.uint32("rtrs.buf_id", "Chunk"),
  off = ProtoField.uint32("rtrs.off", "Offset of the header in the chunk"),
  msg_id = ProtoField.uint32("rtrs.msg_id", "Answered request (chunk)"),
  errno = ProtoField.uint32("rtrs.errno", "Error", base.DEC, errnos),
  io = ProtoField.uint16("rtrs.io.direction", "Request", base.DEC, directions),
  generation = ProtoField.uint8("rtrs.generation", "Generation (urtrs)"),
  usr_len = ProtoField.uint16("rtrs.usr_len", "Bytes of user header"),
  data_len = ProtoField.uint32("rtrs.data_len", "Bytes of data"),
  need_inval = ProtoField.bool("rtrs.need_inval", "Asks for invalidation of its key"),
  rkey = ProtoField.uint32("rtrs.rkey", "Next key of the chunk", base.HEX),
  serial = ProtoField.uint32("rtrs.fence.serial", "Serial"),
  fence_path = ProtoField.guid("rtrs.fence.path", "Fenced path"),
  response_in = ProtoField.framenum("rtrs.response_in", "Response in", base.NONE, frametype.RESPONSE),
  response_to = ProtoField.framenum("rtrs.response_to", "Response to", base.NONE, frametype.REQUEST),
  time = ProtoField.relative_time("rtrs.time", "Response time"),
  first_frame = ProtoField.framenum("rtrs.first_frame", "Message begins in"),
  frames = ProtoField.uint32("rtrs.packets", "Packets of the message"),
  part_of = ProtoField.framenum("rtrs.part_of", "Message ends in"),
  retransmission = ProtoField.framenum("rtrs.retransmission", "Retransmission of"),
}
rtrs.fields = f

local n = {
  type = ProtoField.uint16("rnbd.type", "Type", base.DEC, rnbd_types),
  version = ProtoField.uint8("rnbd.version", "Protocol version"),
  device = ProtoField.uint32("rnbd.device_id", "Device"),
  access = ProtoField.uint8("rnbd.access_mode", "Access mode", base.DEC, access_modes),
  name = ProtoField.string("rnbd.dev_name", "Device name"),
  sector = ProtoField.uint64("rnbd.sector", "Sector"),
  op = ProtoField.uint8("rnbd.op", "Operation", base.DEC, rnbd_ops),
  sync = ProtoField.bool("rnbd.sync", "Synchronous"),
  fua = ProtoField.bool("rnbd.fua", "Force unit access"),
  preflush = ProtoField.bool("rnbd.preflush", "Flush first"),
  nounmap = ProtoField.bool("rnbd.nounmap", "Keep blocks allocated"),
  size = ProtoField.uint32("rnbd.size", "Bytes"),
  prio = ProtoField.uint16("rnbd.prio", "Priority", base.HEX),
  nsectors = ProtoField.uint64("rnbd.nsectors", "Sectors of 512 bytes"),
  max_hw_sectors = ProtoField.uint32("rnbd.max_hw_sectors", "Largest IO in sectors"),
  max_wz = ProtoField.uint32("rnbd.max_write_zeroes_sectors", "Largest write-zeroes in sectors"),
  max_discard = ProtoField.uint32("rnbd.max_discard_sectors", "Largest discard in sectors"),
  granularity = ProtoField.uint32("rnbd.discard_granularity", "Discard granularity"),
  alignment = ProtoField.uint32("rnbd.discard_alignment", "Discard alignment"),
  physical = ProtoField.uint16("rnbd.physical_block_size", "Physical block size"),
  logical = ProtoField.uint16("rnbd.logical_block_size", "Logical block size"),
  max_segments = ProtoField.uint16("rnbd.max_segments", "Segments"),
  secure = ProtoField.uint16("rnbd.secure_discard", "Secure discard"),
  cache_fua = ProtoField.bool("rnbd.cache.fua", "Honours force unit access"),
  cache_writeback = ProtoField.bool("rnbd.cache.writeback", "Writes back"),
}
rnbd.fields = n

local e = {
  malformed = ProtoExpert.new("rtrs.malformed", "Malformed RTRS message", expert.group.MALFORMED, expert.severity.ERROR),
  missing = ProtoExpert.new("rtrs.missing", "Packets are missing before this one", expert.group.SEQUENCE, expert.severity.NOTE),
  orphan = ProtoExpert.new("rtrs.orphan", "Response without a request", expert.group.SEQUENCE, expert.severity.WARN),
  unanswered = ProtoExpert.new("rtrs.reused", "Chunk used again before its response", expert.group.SEQUENCE, expert.severity.WARN),
  failed = ProtoExpert.new("rtrs.failed", "The request failed", expert.group.RESPONSE_CODE, expert.severity.NOTE),
  retransmitted = ProtoExpert.new("rtrs.retransmitted", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
}
rtrs.experts = e

rtrs.prefs.unknown = Pref.bool("Decode connections without their setup", false,
  "Take every queue pair whose connection request is not in the capture for RTRS")
rtrs.prefs.depth = Pref.uint("Queue depth of such connections", 512, "As the server announces it; 512 by default")

local ROCE_PORT = 4791
local destqp_field = Field.new("infiniband.bth.destqp")

-- Numbers ---------------------------------------------------------------------------------------------------

-- Read an integer of `width` bytes from a string at offset `at` (from 0). A 64-bit address does not fit into a Lua
-- number; only differences of the lower halves are used.
local function big(s, at, width)
  local value = 0
  for i = at + 1, at + width do value = value * 256 + s:byte(i) end
  return value
end
local function little(s, at, width)
  local value = 0
  for i = at + width, at + 1, -1 do value = value * 256 + s:byte(i) end
  return value
end
local function bit_set(value, bit) return math.floor(value / 2 ^ bit) % 2 == 1 end
local function log2up(value)
  local bits = 0
  while 2 ^ bits < value do bits = bits + 1 end
  return bits
end
local function hex(s) return (s:gsub(".", function(c) return string.format("%02x", c:byte()) end)) end
local function zero_ended(s) return s:match("^[^%z]*") end
local function errno_word(errno) return errnos[errno] or ("errno " .. errno) end

-- State of a capture, rebuilt whenever it is read from the start -----------------------------------------------

local connections, by_queue_pair, by_request, attempts, frames, guessed, flows

function rtrs.init()
  connections = {}    -- all connections, in order
  by_queue_pair = {}  -- "address qpn" of the receiver -> { connection, to_server }
  by_request = {}     -- "address id" of the client -> connection
  attempts = {}       -- path and attempt -> state shared by its connections
  frames = {}         -- frame number -> decoded message
  guessed = {}        -- pair of addresses -> state shared by connections without a captured setup
  flows = {}          -- "address port address port" -> one direction of a TCP connection
end

local function attempt_of(key)
  if not attempts[key] then attempts[key] = { depth = nil, chunks = nil, requests = {}, reads = {} } end
  return attempts[key]
end

local function new_stream() return { next = nil, seen = {}, parts = {} } end

-- Connection management -----------------------------------------------------------------------------------------

local CM_REQ, CM_REJ, CM_REP = 0x10, 0x12, 0x13

local function parse_con_req(data)
  local m = { kind = "CON_REQ", bytes = data }
  m.ok = big(data, 2, 2) == 0xbd1b and data:byte(6) == 2
  m.cid, m.cid_num, m.recon = little(data, 6, 2), little(data, 8, 2), little(data, 10, 2)
  m.path, m.session = data:sub(13, 28), data:sub(29, 44)
  return m
end

local function on_request(p, mad)
  local port = big(mad, 24 + 14, 2)
  local data = mad:sub(24 + 176 + 1, 24 + 232)
  local m = parse_con_req(data)
  m.at = p.payload_off + 24 + 176
  if big(data, 2, 2) ~= 0xbd1b then return nil end
  local id = p.src .. " " .. big(mad, 24, 4)
  local c = by_request[id]
  if c and c.transaction == mad:sub(9, 16) then
    m.repeats = c.frame
  else
    c = { number = #connections, frame = p.frame, transaction = mad:sub(9, 16), client = p.src, server = p.dst }
    c.qpn, c.cid, c.path, c.session = big(mad, 24 + 32, 3), m.cid, m.path, m.session
    c.psn_to_client = big(mad, 24 + 44, 3)
    c.attempt = attempt_of(m.path .. "/" .. m.recon)
    connections[#connections + 1] = c
    by_request[id] = c
    c.request = m
    m.time = p.time
  end
  m.port, m.connection, m.to_server = port, c, true
  return m
end

local function parse_con_rsp(data, kind)
  local m = { kind = kind, bytes = data }
  m.ok = big(data, 0, 2) == 0xbd1b and data:byte(4) == 2
  m.errno = little(data, 4, 2)
  if m.errno >= 0x8000 then m.errno = 0x10000 - m.errno end
  m.depth, m.max_io, m.max_hdr, m.flags = little(data, 6, 2), little(data, 8, 4), little(data, 12, 4), little(data, 16, 4)
  return m
end

local function on_reply(p, mad, kind)
  local c = by_request[p.dst .. " " .. big(mad, 28, 4)]
  if not c then return nil end
  local at = kind == "CON_RSP" and 24 + 36 or 24 + 84
  local m = parse_con_rsp(mad:sub(at + 1, at + 56), kind)
  m.at, m.connection, m.to_server = p.payload_off + at, c, false
  m.request = c.request
  if c.replied then
    m.repeats = c.replied
    return m
  end
  c.replied = p.frame
  c.request.response_frame = p.frame
  m.elapsed = p.time - c.request.time
  if kind == "CON_REJ" then return m end
  c.to_server, c.to_client = new_stream(), new_stream()
  c.to_server.next, c.to_client.next = big(mad, 24 + 20, 3), c.psn_to_client
  by_queue_pair[c.server .. " " .. big(mad, 24 + 12, 3)] = { connection = c, to_server = true }
  by_queue_pair[c.client .. " " .. c.qpn] = { connection = c, to_server = false }
  if c.cid == 0 then
    c.attempt.depth, c.attempt.chunk_size = m.depth, m.max_io + m.max_hdr
    c.attempt.generation = bit_set(m.flags, 9)
  end
  return m
end

local function on_cm(p)
  local mad = p.payload
  if p.opcode ~= 100 or #mad < 256 or mad:byte(2) ~= 7 then return nil end
  local attribute = big(mad, 16, 2)
  if attribute == CM_REQ then return on_request(p, mad) end
  if attribute == CM_REP then return on_reply(p, mad, "CON_RSP") end
  if attribute == CM_REJ then return on_reply(p, mad, "CON_REJ") end
  return nil
end

-- Reassembly of messages -----------------------------------------------------------------------------------------

-- opcode -> position in the message, whether it is an RDMA write, trailing fields
local opcodes = {
  [0] = { first = true }, [1] = {}, [2] = { last = true }, [3] = { last = true, imm = true },
  [4] = { first = true, last = true }, [5] = { first = true, last = true, imm = true },
  [6] = { first = true, write = true }, [7] = { write = true }, [8] = { last = true, write = true },
  [9] = { last = true, write = true, imm = true }, [10] = { first = true, last = true, write = true },
  [11] = { first = true, last = true, write = true, imm = true },
  [22] = { last = true, inv = true }, [23] = { first = true, last = true, inv = true },
}

local function before(psn) return (psn - 1) % 2 ^ 24 end
local function after(psn) return (psn + 1) % 2 ^ 24 end

-- Returns the message that contains `psn` if all its parts were captured, in any order; otherwise nil.
local function complete_message(stream, psn)
  local first, last = psn, psn
  while stream.parts[first] and not stream.parts[first].place.first do first = before(first) end
  while stream.parts[last] and not stream.parts[last].place.last do last = after(last) end
  if not stream.parts[first] or not stream.parts[last] then return nil end
  local message = { first = stream.parts[first], last = stream.parts[last], pieces = {}, frames = {} }
  local at = first
  while true do
    local part = stream.parts[at]
    message.pieces[#message.pieces + 1] = part.payload
    message.cut = message.cut or part.packet.cut
    message.frames[#message.frames + 1] = part.frame
    stream.parts[at] = nil
    if at == last then break end
    at = after(at)
  end
  message.data = table.concat(message.pieces)
  return message
end

-- Returns the message that this packet completes, or nil; and notes about the packet (missing or repeated packets).
local function reassemble(stream, p, place)
  local ahead = stream.next and (p.psn - stream.next) % 2 ^ 24 or 0
  local note = {}
  if ahead < 2 ^ 23 then
    if ahead > 0 then note.missing = ahead end
    stream.next = after(p.psn)
  elseif stream.seen[p.psn] then
    return nil, { repeats = stream.seen[p.psn] }
  end
  stream.seen[p.psn] = p.frame
  if place.first and place.last then
    local part = { place = place, payload = p.payload, frame = p.frame, packet = p }
    return { first = part, last = part, data = p.payload, frames = { p.frame }, at = p.payload_off, cut = p.cut }, note
  end
  stream.parts[p.psn] = { place = place, payload = p.payload, frame = p.frame, packet = p }
  return complete_message(stream, p.psn), note
end

-- RTRS ------------------------------------------------------------------------------------------------------

local function chunk_bits(attempt) return log2up(attempt.depth or 512) end

-- Offset of the RTRS header in the written bytes: exact if the chunk address is known, otherwise guessed.
local function header_at(attempt, message, m)
  local size = #message.data
  local chunk = attempt.chunks and attempt.chunks[m.buf_id]
  if chunk then
    local at = (chunk.addr + m.off - message.first.packet.va_low) % 2 ^ 32
    if at + 4 <= size then return at end
  end
  if size >= 24 and message.data:byte(size - 23) == 3 and little(message.data, size - 18, 2) == 1 then return size - 24 end
  if size >= 4 and message.data:byte(size - 3) == 2 then return size - 4 end
  if size >= 8 and message.data:byte(size - 7) == 3 and little(message.data, size - 2, 2) == 0 then return size - 8 end
  return nil
end

local function parse_rnbd(s, at, size)
  if size < 4 then return nil end
  local m = { at = at, size = size, type = little(s, at, 2) }
  if m.type == 4 and size >= 26 and size <= 32 then
    m.op, m.bytes, m.device = s:byte(at + 17), little(s, at + 20, 4), little(s, at + 4, 4)
    m.sector_low, m.sector_high = little(s, at + 8, 4), little(s, at + 12, 4)
  elseif m.type == 2 and size == 264 then
    m.name = zero_ended(s:sub(at + 7, at + 6 + 255))
  elseif m.type == 5 and size == 8 then
    m.device = little(s, at + 4, 4)
  elseif m.type ~= 0 or size ~= 36 then
    return nil  -- another protocol over RTRS
  end
  return m
end

local function rnbd_words(m)
  if m.type == 4 then
    local text = (rnbd_ops[m.op] or ("op " .. m.op)) .. " dev " .. m.device
    if m.op == 2 then return text end
    return string.format("%s sector %.0f, %d bytes", text, m.sector_high * 2 ^ 32 + m.sector_low, m.bytes)
  end
  if m.type == 2 then return "OPEN " .. m.name end
  if m.type == 5 then return "CLOSE dev " .. m.device end
  return rnbd_types[m.type]
end

local function on_request_write(c, message, m)
  local attempt = c.attempt
  m.kind = "IO_REQ"
  local bits = 28 - chunk_bits(attempt)
  m.buf_id, m.off = math.floor(m.imm / 2 ^ bits), m.imm % 2 ^ bits
  local data = message.data
  if not message.first.packet.va_low then
    m.bad = "the immediate came without an RDMA write"
    return
  end
  if message.cut then
    m.bad = "the capture holds only part of the message"
    return
  end
  local at = header_at(attempt, message, m)
  if not at then
    m.bad = "no RTRS header at the offset that the immediate names"
    return
  end
  m.header, m.io, m.generation = at, data:byte(at + 1), data:byte(at + 2)
  if not directions[m.io] or (m.io == 3 and at + 8 > #data) then
    m.bad = "the header is neither that of a read nor of a write"
    return
  end
  m.usr_len, m.header_size = little(data, at + 2, 2), 4
  m.data_len = m.off - m.usr_len
  if m.io == 3 then
    m.flags, m.sg_cnt = little(data, at + 4, 2), little(data, at + 6, 2)
    m.header_size = 8 + 16 * m.sg_cnt
    if at + m.header_size > #data then
      m.bad = "the descriptors of the read do not fit the message"
      return
    end
  end
  if m.usr_len > at or m.data_len < 0 then
    m.bad = "the user header is longer than what was written"
    return
  end
  m.rnbd = parse_rnbd(data, at - m.usr_len, m.usr_len)
  -- Only the bytes from here on are displayed; Wireshark itself shows the data.
  m.shown_from = at - m.usr_len
  local old = attempt.requests[m.buf_id]
  if old and not old.response_frame then m.reused = old.frame end
  attempt.requests[m.buf_id] = m
  if m.io == 3 and m.sg_cnt == 1 then
    m.desc_key = little(data, at + 16, 4)
    attempt.reads[data:sub(at + 9, at + 20)] = m  -- address and key
  end
end

local function link(m, request)
  if not request then
    m.orphan = true
    return
  end
  m.request, m.elapsed = request, m.at_time - request.at_time
  request.response_frame = m.frame
end

-- Type of the RNBD request if its response is a message (not user data); otherwise nil.
local function rnbd_answer(request)
  if request.rnbd and (request.rnbd.type == 0 or request.rnbd.type == 2) then return request.rnbd.type end
end

local function on_response(c, message, m)
  m.kind = "IO_RSP"
  m.msg_id = m.imm % 2 ^ 19
  m.errno = math.floor(m.imm / 2 ^ 19) % 512
  local attempt = c.attempt
  m.buf_id = m.msg_id
  if attempt.generation then
    local unit = 2 ^ chunk_bits(attempt)
    m.buf_id, m.generation = m.msg_id % unit, math.floor(m.msg_id / unit)
  end
  local request = attempt.requests[m.buf_id]
  if request and request.response_frame then request = nil end
  link(m, request)
  if message.first.place.write then
    if #message.data > 0 then m.with_data = #message.data end
    if m.with_data and request then m.answers = rnbd_answer(request) end
  elseif #message.data >= 8 and little(message.data, 0, 2) == 4 then
    m.keyed = true
    m.rkey = little(message.data, 4, 4)
  end
end

local function on_info_rsp(c, message, m)
  m.kind = "INFO_RSP"
  local data, attempt = message.data, c.attempt
  m.sg_cnt = little(data, 2, 2)
  if #data < 8 + 16 * m.sg_cnt then
    m.bad = "fewer descriptors than announced"
    return
  end
  local chunks, id, size = {}, 0, attempt.chunk_size or 0
  for i = 0, m.sg_cnt - 1 do
    local low, length = little(data, 8 + 16 * i, 4), little(data, 20 + 16 * i, 4)
    local used = 0
    while size > 0 and used + size <= length and id < 65536 do
      chunks[id] = { addr = low + used }
      id, used = id + 1, used + size
    end
  end
  attempt.chunks = chunks
  m.request = attempt.info
  if attempt.info then link(m, attempt.info) end
end

local function on_send(c, to_server, message, m)
  local data = message.data
  if #data < 2 then
    m.kind = "UNKNOWN"
    return
  end
  local kind = little(data, 0, 2)
  local attempt = c.attempt
  if kind == 0 and to_server and #data >= 257 then
    m.kind, m.name = "INFO_REQ", zero_ended(data:sub(3, 257))
    attempt.info = m
  elseif kind == 1 and not to_server and #data >= 8 then
    on_info_rsp(c, message, m)
  elseif kind == 0x4001 and to_server and #data >= 24 then
    m.kind, m.serial = "FENCE_REQ", little(data, 4, 4)
    attempt.requests["fence " .. m.serial] = m
  elseif kind == 0x4002 and not to_server and #data >= 24 then
    m.kind, m.errno, m.serial = "FENCE_RSP", little(data, 2, 2), little(data, 4, 4)
    link(m, attempt.requests["fence " .. m.serial])
  else
    m.kind, m.bad = "UNKNOWN", "no RTRS message of this type goes this way"
  end
end

local function on_message(c, to_server, message, p)
  local last = message.last.packet
  local m = { connection = c, to_server = to_server, message = message, frame = p.frame, at_time = p.time }
  m.imm = last.imm
  m.bytes, m.at = message.data, message.at
  if last.ieth then
    m.kind, m.rkey = "INVAL", last.ieth
  elseif last.imm then
    local kind = math.floor(last.imm / 2 ^ 28)
    m.imm_type = kind
    if kind == 8 then m.kind = "HB"
    elseif kind == 9 then
      m.kind = "HB_ACK"
    elseif kind == 0 and to_server then on_request_write(c, message, m)
    elseif (kind == 1 or kind == 2) and not to_server then on_response(c, message, m)
    else
      m.kind, m.bad = "UNKNOWN", "an immediate of this type does not go this way"
    end
    if kind == 8 then c.attempt["hb " .. tostring(to_server)] = m end
    if kind == 9 then
      local beat = c.attempt["hb " .. tostring(not to_server)]
      if beat and not beat.response_frame then link(m, beat) end
    end
  elseif message.first.place.write then
    m.kind = "DATA"
    local first = message.first.packet
    local request = c.attempt.reads[first.va .. first.key]
    if request and not request.response_frame then
      m.request = request
      m.answers = rnbd_answer(request)
    end
  else
    on_send(c, to_server, message, m)
  end
  if (m.kind == "DATA" or m.with_data) and not m.answers then m.bytes = nil end
  if m.kind == "IO_REQ" and m.shown_from then
    m.bytes = message.data:sub(m.shown_from + 1)
    m.base = m.shown_from
  end
  message.data, message.pieces = nil, nil
  return m
end

-- Handles a connection without a captured setup. Both directions share one table; the message determines the direction.
local function guess(p)
  if not rtrs.prefs.unknown then return nil end
  local imm_type = p.imm and math.floor(p.imm / 2 ^ 28)
  local key = p.src < p.dst and p.src .. p.dst or p.dst .. p.src
  if not guessed[key] then
    guessed[key] = attempt_of(key)
    guessed[key].depth = rtrs.prefs.depth
  end
  local pair = by_queue_pair[p.dst .. " " .. p.destqp]
  if not pair then
    local c = { number = #connections, attempt = guessed[key], to_server = new_stream(), to_client = new_stream(), guessed = true }
    connections[#connections + 1] = c
    pair = { connection = c, to_server = true }
    by_queue_pair[p.dst .. " " .. p.destqp] = pair
  end
  if imm_type == 0 then pair.to_server = true end
  if imm_type == 1 or imm_type == 2 then pair.to_server = false end
  return pair
end

local function on_transport(p)
  local place = opcodes[p.opcode]
  if not place then return nil end
  local pair = by_queue_pair[p.dst .. " " .. p.destqp]
  if not pair or pair.connection.guessed then pair = guess(p) end
  if not pair then return nil end
  local c = pair.connection
  local stream = pair.to_server and c.to_server or c.to_client
  local message, note = reassemble(stream, p, place)
  local m = { connection = c, to_server = pair.to_server, part = true, frame = p.frame }
  if message then
    m = on_message(c, pair.to_server, message, p)
    for _, number in ipairs(message.frames) do
      if number ~= p.frame and frames[number] then frames[number].part_of = p.frame end
    end
  end
  m.missing, m.repeats = note.missing, note.repeats
  return m
end

-- Packets -------------------------------------------------------------------------------------------------------

-- Opcode -> bytes of the headers between BTH and payload.
local extended = { [3] = 4, [5] = 4, [6] = 16, [9] = 4, [10] = 16, [11] = 20, [22] = 4, [23] = 4, [100] = 8 }

-- Possible offsets of the IP header: after Ethernet (with up to two VLAN tags), after Linux cooked headers, or 0.
local ip_offsets = { 14, 18, 22, 16, 20, 4, 0 }

-- Returns the offset of the BTH in the frame and the end of the payload (without ICRC); nil if the frame is not RoCEv2.
local function find_bth(tvb)
  for _, at in ipairs(ip_offsets) do
    if tvb:len() >= at + 40 then
      local head = tvb:raw(at, 40)
      local version = math.floor(head:byte(1) / 16)
      local udp
      if version == 4 and head:byte(10) == 17 then udp = at + head:byte(1) % 16 * 4 end
      if version == 6 and head:byte(7) == 17 then udp = at + 40 end
      if udp and tvb:len() >= udp + 20 and big(tvb:raw(udp + 2, 2), 0, 2) == ROCE_PORT then
        return udp + 8, udp + big(tvb:raw(udp + 4, 2), 0, 2) - 4
      end
    end
  end
  return nil
end

local function parse_packet(tvb, pinfo)
  local at, finish = find_bth(tvb)
  if not at or finish < at + 12 or finish > tvb:reported_len() then return nil end
  local head = tvb:raw(at, 12)
  local p = { frame = pinfo.number, time = pinfo.rel_ts, src = tostring(pinfo.net_src), dst = tostring(pinfo.net_dst) }
  p.opcode, p.destqp, p.psn = head:byte(1), big(head, 5, 3), big(head, 9, 3)
  local pad = math.floor(head:byte(2) / 16) % 4
  local more = extended[p.opcode] or 0
  local payload = at + 12 + more
  if payload + pad > finish or payload > tvb:len() then return nil end
  local ext = more > 0 and tvb:raw(at + 12, more) or ""
  if p.opcode == 6 or p.opcode == 10 or p.opcode == 11 then
    -- Descriptors contain the address in little-endian order.
    p.va, p.va_low, p.key = ext:sub(1, 8):reverse(), big(ext, 4, 4), ext:sub(9, 12):reverse()
  end
  if p.opcode == 3 or p.opcode == 5 or p.opcode == 9 then p.imm = big(ext, 0, 4) end
  if p.opcode == 11 then p.imm = big(ext, 16, 4) end
  if p.opcode == 22 or p.opcode == 23 then p.ieth = big(ext, 0, 4) end
  local size = finish - pad - payload
  local there = math.min(size, tvb:len() - payload)
  p.payload_off, p.cut = payload, there < size
  p.payload = there > 0 and tvb:raw(payload, there) or ""
  return p
end

-- iWARP over TCP (docs/iwarp.md) ----------------------------------------------------------------------------------

local MPA_REQUEST, MPA_REPLY = "MPA ID Req Frame", "MPA ID Rep Frame"
local MPA_HEADER = 20
local MOST_AHEAD = 4096  -- segments waiting for a missing one; with more, decoding of the direction stops

-- Returns the offset of the TCP header in the frame and the end of its payload; nil if the frame is not TCP.
local function find_tcp(tvb)
  for _, at in ipairs(ip_offsets) do
    if tvb:len() >= at + 40 then
      local head = tvb:raw(at, 40)
      local version = math.floor(head:byte(1) / 16)
      local tcp, finish
      if version == 4 and head:byte(10) == 6 then
        tcp, finish = at + head:byte(1) % 16 * 4, at + big(head, 2, 2)
        -- The IP length is 0 if the capture has a large segment that the adapter splits later (TSO).
        if finish == at then finish = tvb:reported_len() end
      end
      if version == 6 and head:byte(7) == 6 then tcp, finish = at + 40, at + 40 + big(head, 4, 2) end
      if tcp and tvb:len() >= tcp + 20 and finish >= tcp + 20 and finish <= tvb:reported_len() then return tcp, finish end
    end
  end
  return nil
end

local function new_flow(to_server)
  return { to_server = to_server, next = nil, ahead = {}, ahead_count = 0, pieces = {}, size = 0, need = MPA_HEADER,
           greeting = true, since = {} }
end

-- Passes a complete message on, with its parts and the frames that contain them.
local function on_iwarp_message(flow, p, message)
  local frames_of = {}
  for number in pairs(message.frames) do frames_of[#frames_of + 1] = number end
  table.sort(frames_of)
  local whole = { first = { packet = message, place = { write = message.write } }, last = { packet = message }, frames = frames_of,
                  data = table.concat(message.pieces) }
  return on_message(flow.connection, flow.to_server, whole, p)
end

-- Ends a write that is not followed by an immediate; it is a separate message.
local function end_write(flow, p, found)
  local write = flow.write
  flow.write = nil
  if write and write.size > 0 then found[#found + 1] = on_iwarp_message(flow, p, write) end
end

local function on_segment(flow, p, unit, found)
  local ddp, opcode = unit:byte(3), unit:byte(4) % 16
  local tagged, last = ddp >= 128, bit_set(ddp, 6)
  local length = big(unit, 0, 2)
  local payload = unit:sub(3 + (tagged and 14 or 18), 2 + length)
  if tagged then
    if flow.write and flow.write.whole then end_write(flow, p, found) end
    if not flow.write and last and payload == "" then return end
    if not flow.write then
      local to = unit:sub(9, 16)
      flow.write = { write = true, va = to:reverse(), va_low = big(to, 4, 4), key = unit:sub(5, 8):reverse(), pieces = {}, size = 0, frames = {} }
    end
    local write = flow.write
    write.pieces[#write.pieces + 1], write.size, write.whole = payload, write.size + #payload, last
    for number in pairs(flow.since) do write.frames[number] = true end
    return
  end
  if opcode == 8 then
    local message = flow.write or { write = true, pieces = {}, size = 0, frames = {} }
    flow.write = nil
    message.imm = #payload >= 4 and big(payload, 0, 4) or nil
    for number in pairs(flow.since) do message.frames[number] = true end
    found[#found + 1] = on_iwarp_message(flow, p, message)
    return
  end
  end_write(flow, p, found)
  if opcode < 3 or opcode > 6 then return end
  flow.send = flow.send or { pieces = {}, frames = {} }
  local send = flow.send
  send.pieces[#send.pieces + 1] = payload
  for number in pairs(flow.since) do send.frames[number] = true end
  if not last then return end
  flow.send = nil
  if opcode == 5 and flow.connection.send_with_immediate then send.imm = big(unit, 4, 4) end
  if opcode == 4 or opcode == 6 then send.ieth = big(unit, 4, 4) end
  found[#found + 1] = on_iwarp_message(flow, p, send)
end

-- Returns the private data after the fields of RFC 6581 and of urtrs, and the flags of urtrs.
local function private_data(unit)
  local at = bit_set(unit:byte(17), 4) and 24 or 20
  if unit:sub(at + 1, at + 4) == "uRTR" then return unit:sub(at + 9), unit:byte(at + 6) end
  return unit:sub(at + 1), 0
end

local function on_greeting(flow, p, unit, found)
  local data, flags = private_data(unit)
  local c = flow.connection
  local m
  if flow.to_server then
    if #data < 56 or big(data, 2, 2) ~= 0xbd1b then
      flow.dead = true
      return
    end
    m = parse_con_req(data)
    c.cid, c.path, c.session, c.request, c.wishes = m.cid, m.path, m.session, m, flags
    c.attempt = attempt_of(m.path .. "/" .. m.recon)
    connections[#connections + 1] = c
    m.port, m.time = p.dst_port, p.time
  else
    if #data < 56 or not c.request then
      flow.dead = true
      return
    end
    m = parse_con_rsp(data, bit_set(unit:byte(17), 5) and "CON_REJ" or "CON_RSP")
    m.request, m.elapsed = c.request, p.time - c.request.time
    c.request.response_frame = p.frame
    c.send_with_immediate = bit_set(flags, 0) and bit_set(c.wishes, 0)
    if m.kind == "CON_RSP" and c.cid == 0 then
      c.attempt.depth, c.attempt.chunk_size = m.depth, m.max_io + m.max_hdr
      c.attempt.generation = bit_set(m.flags, 9)
    end
  end
  m.frame, m.connection, m.to_server = p.frame, c, flow.to_server
  found[#found + 1] = m
end

-- Extracts the MPA request or reply and the FPDUs from the bytes received in order.
local function take_units(flow, p, found)
  while flow.size >= flow.need and not flow.dead do
    local text = table.concat(flow.pieces)
    local size
    if flow.greeting then
      if text:sub(1, 16) ~= (flow.to_server and MPA_REQUEST or MPA_REPLY) then
        flow.dead = true
        return
      end
      size = MPA_HEADER + big(text, 18, 2)
    else
      size = math.floor((2 + big(text, 0, 2) + 3) / 4) * 4 + 4
      if big(text, 0, 2) < 14 then
        flow.dead = true
        return
      end
    end
    if #text < size then
      flow.need, flow.pieces = size, { text }
      return
    end
    local unit = text:sub(1, size)
    flow.pieces, flow.size, flow.need = { text:sub(size + 1) }, #text - size, 2
    if flow.greeting then
      flow.greeting = false
      on_greeting(flow, p, unit, found)
    else
      on_segment(flow, p, unit, found)
    end
    flow.since = flow.size > 0 and { [p.frame] = true } or {}
  end
end

local function append(flow, p, payload, found)
  flow.next = (flow.next + #payload) % 2 ^ 32
  flow.since[p.frame] = true
  flow.pieces[#flow.pieces + 1], flow.size = payload, flow.size + #payload
  take_units(flow, p, found)
end

local function flow_of(p, payload)
  local key = p.src .. " " .. p.src_port .. " " .. p.dst .. " " .. p.dst_port
  if payload:sub(1, 16) == MPA_REQUEST and (not flows[key] or flows[key].dead or flows[key].first ~= p.seq) then
    local c = { number = #connections, frame = p.frame, client = p.src, server = p.dst }
    local back = p.dst .. " " .. p.dst_port .. " " .. p.src .. " " .. p.src_port
    flows[key], flows[back] = new_flow(true), new_flow(false)
    flows[key].connection, flows[back].connection = c, c
    flows[key].next, flows[key].first, flows[back].next = p.seq, p.seq, p.ack
  end
  return flows[key]
end

local function on_tcp(tvb, pinfo)
  local at, finish = find_tcp(tvb)
  if not at then return nil end
  local head = tvb:raw(at, 20)
  local payload_at = at + math.floor(head:byte(13) / 16) * 4
  local size = finish - payload_at
  if size <= 0 or payload_at > tvb:len() then return nil end
  local payload = tvb:raw(payload_at, math.min(size, tvb:len() - payload_at))
  local p = { frame = pinfo.number, time = pinfo.rel_ts, src = tostring(pinfo.net_src), dst = tostring(pinfo.net_dst),
              src_port = big(head, 0, 2), dst_port = big(head, 2, 2), seq = big(head, 4, 4), ack = big(head, 8, 4) }
  local flow = flow_of(p, payload)
  if not flow or flow.dead then return nil end
  local found, note = {}, {}
  local ahead = (p.seq - flow.next) % 2 ^ 32
  if #payload < size then
    -- A truncated segment: the start of the next FPDU is unknown.
    flow.dead = true
    return nil
  end
  if ahead >= 2 ^ 31 then
    local old = 2 ^ 32 - ahead
    if old >= #payload then
      note.repeats = flow.last or p.frame
    else
      append(flow, p, payload:sub(old + 1), found)
    end
  elseif ahead > 0 then
    note.missing = 1
    if not flow.ahead[p.seq] then flow.ahead_count = flow.ahead_count + 1 end
    flow.ahead[p.seq] = payload
    if flow.ahead_count > MOST_AHEAD then flow.dead = true end
  else
    append(flow, p, payload, found)
  end
  while flow.ahead[flow.next] and not flow.dead do
    local more = flow.ahead[flow.next]
    flow.ahead[flow.next], flow.ahead_count = nil, flow.ahead_count - 1
    append(flow, p, more, found)
  end
  flow.last = p.frame
  for _, m in ipairs(found) do
    for _, number in ipairs(m.message and m.message.frames or {}) do
      if number ~= p.frame and frames[number] then frames[number].part_of = p.frame end
    end
  end
  -- The empty write at the start of a connection, and other segments without RTRS content.
  if #found == 0 and flow.size == 0 and not flow.write and not flow.send and not note.missing and not note.repeats then return nil end
  local m = table.remove(found, 1) or { connection = flow.connection, to_server = flow.to_server, part = true, frame = p.frame }
  m.also, m.missing, m.repeats = found, note.missing, note.repeats
  return m
end

-- Display -------------------------------------------------------------------------------------------------------

-- Returns the bytes of the message: from the frame, or reassembled from several frames.
local function message_tvb(m, tvb)
  if not m.bytes or #m.bytes == 0 then return nil end
  if m.at then return tvb:range(m.at + (m.base or 0), #m.bytes):tvb() end
  return ByteArray.new(hex(m.bytes)):tvb("Reassembled RTRS")
end

local function show_con_req(tree, m, b)
  tree:add_le(f.magic, b(2, 2))
  tree:add_le(f.version, b(4, 2))
  tree:add_le(f.cid_num, b(8, 2))
  tree:add_le(f.recon_cnt, b(10, 2))
  local flags = m.bytes:byte(45)
  tree:add(f.first_conn, b(44, 1), bit_set(flags, 0))
  local extensions = m.bytes:byte(46)
  tree:add(f.ext_fence, b(45, 1), bit_set(extensions, 0))
  tree:add(f.ext_generation, b(45, 1), bit_set(extensions, 1))
  tree:add(f.ext_keys_stay, b(45, 1), bit_set(extensions, 3))
  tree:add(f.ext_probe, b(45, 1), bit_set(extensions, 2))
  tree:add(f.ext_data_with_answer, b(45, 1), bit_set(extensions, 4))
  tree:add(f.ext_key_proof, b(45, 1), bit_set(extensions, 5))
  if bit_set(extensions, 5) then
    tree:add_le(f.key_hint, b(46, 2))
    tree:add(f.key_proof, b(48, 8))
  end
  return string.format("cid %d of %d, attempt %d", m.cid, m.cid_num, m.recon)
end

local function show_con_rsp(tree, m, b)
  tree:add_le(f.magic, b(0, 2))
  tree:add_le(f.version, b(2, 2))
  tree:add(f.errno, b(4, 2), m.errno)
  if m.kind == "CON_REJ" or m.errno ~= 0 then
    if m.errno ~= 13 or not bit_set(m.flags, 13) then return errno_word(m.errno) end
    tree:add(f.key_nonce, b(20, 16))
    return "asks for a proof of the key"
  end
  tree:add_le(f.queue_depth, b(6, 2))
  tree:add_le(f.max_io_size, b(8, 4))
  tree:add_le(f.max_hdr_size, b(12, 4))
  local flags = tree:add_le(f.flags, b(16, 4))
  flags:add(f.new_rkey, b(16, 4), bit_set(m.flags, 1))
  flags:add(f.ext_fence, b(16, 4), bit_set(m.flags, 8))
  flags:add(f.ext_generation, b(16, 4), bit_set(m.flags, 9))
  flags:add(f.ext_keys_stay, b(16, 4), bit_set(m.flags, 11))
  flags:add(f.ext_probe, b(16, 4), bit_set(m.flags, 10))
  flags:add(f.ext_data_with_answer, b(16, 4), bit_set(m.flags, 12))
  flags:add(f.ext_key_proof, b(16, 4), bit_set(m.flags, 13))
  if bit_set(m.flags, 13) then tree:add(f.key_proof, b(20, 32)) end
  return string.format("depth %d, chunks of %d bytes%s", m.depth, m.max_io + m.max_hdr, bit_set(m.flags, 1) and ", fresh keys" or "")
end

local function show_descriptor(tree, b, at)
  local text = string.format("0x%s key 0x%08x, %d bytes", tostring(b(at, 8):le_uint64():tohex()), b(at + 8, 4):le_uint(), b(at + 12, 4):le_uint())
  local one = tree:add(f.desc, b(at, 16), text)
  one:add_le(f.desc_addr, b(at, 8))
  one:add_le(f.desc_key, b(at + 8, 4))
  one:add_le(f.desc_len, b(at + 12, 4))
end

local function show_info_rsp(tree, m, b)
  tree:add_le(f.sg_cnt, b(2, 2))
  if m.bad then return "" end
  for i = 0, m.sg_cnt - 1 do show_descriptor(tree, b, 8 + 16 * i) end
  return m.sg_cnt .. " descriptors"
end

local function show_io_req(tree, m, b)
  tree:add(f.buf_id, m.buf_id):set_generated()
  tree:add(f.off, m.off):set_generated()
  if not m.header or m.bad or not b then return "chunk " .. m.buf_id end
  local at = m.header - m.shown_from
  tree:add(f.io, b(at, 2), m.io)
  if m.generation ~= 0 then tree:add(f.generation, b(at + 1, 1)) end
  tree:add_le(f.usr_len, b(at + 2, 2))
  tree:add(f.data_len, m.data_len):set_generated()
  if m.io == 3 then
    tree:add(f.need_inval, b(at + 4, 2), bit_set(m.flags, 0))
    tree:add_le(f.sg_cnt, b(at + 6, 2))
    for i = 0, m.sg_cnt - 1 do show_descriptor(tree, b, at + 8 + 16 * i) end
  end
  local what = m.rnbd and rnbd_words(m.rnbd) or (m.data_len .. " bytes")
  return string.format("%s chunk %d, %s", directions[m.io], m.buf_id, what)
end

local function show_io_rsp(tree, m, b)
  tree:add(f.msg_id, m.buf_id):set_generated()
  local failed = tree:add(f.errno, m.errno):set_generated()
  if m.errno ~= 0 then failed:add_proto_expert_info(e.failed, "The request failed: " .. errno_word(m.errno)) end
  if m.generation then tree:add(f.generation, m.generation):set_generated() end
  if m.keyed then
    tree:add_le(f.buf_id, b(2, 2))
    tree:add_le(f.rkey, b(4, 4))
  end
  if m.with_data then tree:add(f.data_len, m.with_data):set_generated() end
  return string.format("chunk %d %s%s%s", m.buf_id, m.errno == 0 and "ok" or errno_word(m.errno),
    m.keyed and string.format(", next key 0x%08x", m.rkey) or "",
    m.with_data and string.format(", with %d bytes", m.with_data) or "")
end

local function show_rnbd(root, m, b)
  local at, kind = 0, m.answers and (m.answers == 0 and 1 or 3) or m.rnbd.type
  local size = m.rnbd and m.rnbd.size or b:len()
  if size > b:len() then return end
  local tree = root:add(rnbd, b(at, size))
  tree:add_le(n.type, b(at, 2))
  if kind <= 1 and size >= 5 then
    tree:add(n.version, b(at + 4, 1))
  elseif kind == 2 then
    tree:add(n.access, b(at + 4, 1))
    tree:add(n.name, b(at + 6, 255), m.rnbd.name)
  elseif kind == 5 then
    tree:add_le(n.device, b(at + 4, 4))
  elseif kind == 4 then
    tree:add_le(n.device, b(at + 4, 4))
    tree:add_le(n.sector, b(at + 8, 8))
    tree:add(n.op, b(at + 16, 1))
    local bits = b(at + 17, 1):uint()
    tree:add(n.sync, b(at + 17, 1), bit_set(bits, 0))
    tree:add(n.fua, b(at + 17, 1), bit_set(bits, 1))
    tree:add(n.preflush, b(at + 17, 1), bit_set(bits, 2))
    tree:add(n.nounmap, b(at + 17, 1), bit_set(bits, 3))
    tree:add_le(n.size, b(at + 20, 4))
    tree:add_le(n.prio, b(at + 24, 2))
  elseif kind == 3 and size >= 56 then
    local rows = {
      { n.device, 4, 4 }, { n.nsectors, 8, 8 }, { n.max_hw_sectors, 16, 4 }, { n.max_wz, 20, 4 }, { n.max_discard, 24, 4 },
      { n.granularity, 28, 4 }, { n.alignment, 32, 4 }, { n.physical, 36, 2 }, { n.logical, 38, 2 },
      { n.max_segments, 40, 2 }, { n.secure, 42, 2 },
    }
    for _, row in ipairs(rows) do tree:add_le(row[1], b(row[2], row[3])) end
    local cache = b(45, 1):uint()
    tree:add(n.cache_fua, b(45, 1), bit_set(cache, 0))
    tree:add(n.cache_writeback, b(45, 1), bit_set(cache, 1))
  end
end

local function show_message(root, tree, m, b)
  if m.imm then
    tree:add(f.imm, m.imm):set_generated()
    tree:add(f.imm_type, math.floor(m.imm / 2 ^ 28)):set_generated()
  end
  if m.kind == "CON_REQ" then return show_con_req(tree, m, b) end
  if m.kind == "CON_RSP" or m.kind == "CON_REJ" then return show_con_rsp(tree, m, b) end
  if m.kind == "INFO_REQ" then
    tree:add(f.name, b(2, 255), m.name)
    return "session " .. m.name
  end
  if m.kind == "INFO_RSP" then return show_info_rsp(tree, m, b) end
  if m.kind == "IO_REQ" then
    local text = show_io_req(tree, m, b)
    if m.rnbd and not m.bad then show_rnbd(root, m, b) end
    return text
  end
  if m.kind == "IO_RSP" then
    local text = show_io_rsp(tree, m, b)
    if m.answers and b then show_rnbd(root, m, b) end
    return text
  end
  if m.kind == "INVAL" then
    tree:add(f.desc_key, m.rkey):set_generated()
    return string.format("key 0x%08x", m.rkey)
  end
  if m.kind == "DATA" then
    if m.answers and b then show_rnbd(root, m, b) end
    return m.answers == 0 and "SESS_INFO_RSP" or m.answers == 2 and "OPEN_RSP" or "of a read"
  end
  if m.kind == "FENCE_REQ" or m.kind == "FENCE_RSP" then
    if m.kind == "FENCE_REQ" then tree:add_le(f.recon_cnt, b(2, 2)) else tree:add_le(f.errno, b(2, 2)) end
    tree:add_le(f.serial, b(4, 4))
    tree:add(f.fence_path, b(8, 16))
    return "serial " .. m.serial .. (m.errno and m.errno ~= 0 and (", " .. errno_word(m.errno)) or "")
  end
  return ""
end

local function show_links(tree, m)
  if m.response_frame then tree:add(f.response_in, m.response_frame):set_generated() end
  if m.request and (m.request.frame or m.request.connection) then
    tree:add(f.response_to, m.request.frame or m.request.connection.frame):set_generated()
  end
  if m.elapsed then
    local nanoseconds = math.floor(m.elapsed * 1e9 + 0.5)
    tree:add(f.time, NSTime.new(math.floor(nanoseconds / 1e9), nanoseconds % 1e9)):set_generated()
  end
  if m.message and #m.message.frames > 1 then
    tree:add(f.first_frame, m.message.frames[1]):set_generated()
    tree:add(f.frames, #m.message.frames):set_generated()
  end
  if m.orphan then tree:add_proto_expert_info(e.orphan) end
  if m.reused then tree:add_proto_expert_info(e.unanswered, "Chunk used again before the response to frame " .. m.reused) end
  if m.bad then tree:add_proto_expert_info(e.malformed, "Malformed: " .. m.bad) end
end

local function uuid(text) return hex(text):gsub("(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x+)", "%1-%2-%3-%4-%5") end

local function show_head(tree, m)
  local c = m.connection
  tree:add(f.direction, m.to_server and "client to server" or "server to client"):set_generated()
  tree:add(f.connection, c.number):set_generated()
  if c.cid then tree:add(f.cid, c.cid):set_generated() end
  if c.path then
    tree:add(f.path, ByteArray.new(hex(c.path)):tvb("Path"):range(0, 16)):set_generated()
    tree:add(f.session, ByteArray.new(hex(c.session)):tvb("Session"):range(0, 16)):set_generated()
  end
  if m.missing then tree:add_proto_expert_info(e.missing, m.missing .. " packets are missing before this one, or come later") end
end

-- Shows one message; returns the text of its line.
local function show_whole(tvb, root, tree, m)
  tree:add(f.type, m.kind):set_generated()
  if m.keyed then tree:add(f.type, "RKEY_RSP"):set_generated() end
  show_head(tree, m)
  local text = show_message(root, tree, m, message_tvb(m, tvb))
  show_links(tree, m)
  tree:append_text(", " .. m.kind .. (text ~= "" and (": " .. text) or ""))
  return m.kind .. (text ~= "" and (" " .. text) or "")
end

function rtrs.dissector(tvb, pinfo, root)
  local m = frames[pinfo.number]
  if not m and not pinfo.visited then
    local p = parse_packet(tvb, pinfo)
    if not p then
      m = on_tcp(tvb, pinfo)
    elseif p.destqp == 1 then
      m = on_cm(p)
    else
      m = on_transport(p)
    end
    frames[pinfo.number] = m
  end
  if not m then return end
  pinfo.cols.protocol = "RTRS"
  pinfo.cols.info:clear_fence()
  local tree = root:add(rtrs, tvb:range(0, 0))
  if m.repeats then
    tree:append_text(", retransmission")
    tree:add(f.retransmission, m.repeats):set_generated()
    tree:add_proto_expert_info(e.retransmitted)
    show_head(tree, m)
    pinfo.cols.info = "Retransmission of frame " .. m.repeats
    return
  end
  if m.part then
    tree:append_text(", part of a message")
    show_head(tree, m)
    if m.part_of then tree:add(f.part_of, m.part_of):set_generated() end
    pinfo.cols.info = "Part of a message" .. (m.part_of and (" that ends in frame " .. m.part_of) or "")
    return
  end
  local info = show_whole(tvb, root, tree, m)
  local has_rnbd = m.rnbd or m.answers
  for _, other in ipairs(m.also or {}) do
    info = info .. "; " .. show_whole(tvb, root, root:add(rtrs, tvb:range(0, 0)), other)
    has_rnbd = has_rnbd or other.rnbd or other.answers
  end
  local cid = m.connection.cid and ("[" .. m.connection.cid .. "] ") or ""
  pinfo.cols.info = cid .. info
  if has_rnbd then pinfo.cols.protocol = "RNBD" end
end

-- Prevents heuristic dissectors from decoding the payload of a known RTRS connection.
local function claim(_, pinfo)
  local qpn = destqp_field()
  return qpn ~= nil and by_queue_pair[tostring(pinfo.net_dst) .. " " .. qpn.value] ~= nil
end

local function claim_tcp(_, pinfo)
  local flow = flows[tostring(pinfo.net_src) .. " " .. pinfo.src_port .. " " .. tostring(pinfo.net_dst) .. " " .. pinfo.dst_port]
  return flow ~= nil and not flow.dead
end

rtrs:register_heuristic("infiniband.payload", claim)
rtrs:register_heuristic("iwarp_ddp_rdmap", claim_tcp)
register_postdissector(rtrs)
