"""Single edits of the traces of both sides of a run, each as somebody's bug would change them."""
from typing import NamedTuple

from records import (ANY, both, drop, fields, flip, later, longer, more, number, patched, plus, put, second, sooner, starts, step_back,
                     swap_next, twice)

CLIENT, SERVER = "client1", "server"
BD03, BD18, BD27 = "BD03 1", "BD18 1", "BD27 1"  # scenarios and seeds
KEYED, FENCED, REFUSED, LOST = "3", "36", "27", "24"  # seeds: renewed keys, failovers, refusals, a silent peer


class Edit(NamedTuple):
    name: str
    run: str
    # Each: side, event, which of its records, change.
    changes: tuple


class Group(NamedTuple):
    title: str
    edits: list


def one(name, run, side, event, which, change):
    return Edit(name, run, ((side, event, which, change),))


def notes(name, run, sender, which, change):
    """Changes the same message in the notes of the sender and of the receiver."""
    receiver = SERVER if sender == CLIENT else CLIENT
    return Edit(name, run, ((sender, "WireSent", which, change), (receiver, "WireReceived", which, change)))


def cm(name, run, sender, which, change):
    receiver = SERVER if sender == CLIENT else CLIENT
    return Edit(name, run, ((sender, "WireCm", both(fields(sent=True), which), change),
                            (receiver, "WireCm", both(fields(sent=False), which), change)))


READ, WRITE, FLUSH = fields(opcode="read"), fields(opcode="write"), fields(opcode="flush")
OPENED = fields(error=0)
OPEN_RSP = starts("response", "0300")
IO = starts("header", "0400")
CHANGES = both(IO, lambda record: record["fields"]["header"][32:34] == "01")
ASKS = fields(kind="req", **{"key.con": 0})
PATH_1 = fields(kind="req", **{"key.path": 1, "key.con": 0})
ACCEPTS = fields(kind="rep", **{"key.con": 0})
REFUSES = both(fields(kind="rej"), longer("private_data", 55))
# Requests with a user header of RNBD IO: type 4 in front, and the RTRS header at the end.
READ_IO = both(fields(op="write_imm"), starts("head", "0400"), longer("head", 40))
WRITE_IO = both(fields(op="write_imm"), starts("head", "0400"), lambda record: len(record["fields"]["head"]) == 72)
ANSWER = both(fields(op="write_imm"), lambda record: record["fields"]["imm"] >> 28 == 1)
DATA_ANSWER = both(ANSWER, lambda record: record["fields"]["digest"] != 0)
HB = fields(imm=0x80000000)
INFO_REQ, INFO_RSP = both(fields(op="send", length=272), ANY), both(fields(op="send"), starts("head", "01000"))
KEYED_ANSWER = fields(op="send_imm")
DATA = both(fields(op="write"), lambda record: record["fields"]["length"] != 0)


def geometry_doubled(records, at):
    more("geometry.nsectors", records[at]["fields"]["geometry.nsectors"])(records, at)


SERVER_DEVICES = Group("devices of a server", [
    one("an IO is answered twice", BD03, SERVER, "Respond", ANY, twice),
    one("an IO is never answered", BD03, SERVER, "Respond", ANY, drop),
    one("an EIO of storage becomes a success", BD27, SERVER, "StorageDone", fields(error=5), put(error=0)),
    one("an EIO of storage becomes ENOSPC", BD27, SERVER, "StorageDone", fields(error=5), put(error=28)),
    one("an EIO is answered with success", BD27, SERVER, "Respond", fields(peer_errno=5), put(peer_errno=0)),
    one("a success is answered with EIO", BD03, SERVER, "Respond", fields(peer_errno=0), put(peer_errno=5)),
    one("a write is answered without storage", BD03, SERVER, "Storage", WRITE, drop),
    one("a write is done as a read", BD03, SERVER, "Storage", WRITE, put(opcode="read")),
    one("a read is done as a write", BD03, SERVER, "Storage", READ, put(opcode="write")),
    one("a flush is done as a read", BD03, SERVER, "Storage", FLUSH, put(opcode="read")),
    one("storage is given another sector", BD03, SERVER, "Storage", WRITE, more("sector", 8)),
    one("storage is given fewer bytes", BD03, SERVER, "Storage", WRITE, put(bytes=1)),
    one("storage is asked twice", BD03, SERVER, "Storage", WRITE, twice),
    one("storage is asked for another export", BD03, SERVER, "Storage", WRITE, more("handle")),
    one("storage is asked for another request", BD03, SERVER, "Storage", WRITE, more("request")),
    one("storage is given another operation number", BD03, SERVER, "Storage", WRITE, more("operation", 7)),
    one("FUA is forgotten", BD18, SERVER, "Storage", fields(fua=True), put(fua=False)),
    one("FUA is invented", BD03, SERVER, "Storage", fields(opcode="write", fua=False), put(fua=True)),
    one("PREFLUSH is invented", BD03, SERVER, "Storage", WRITE, put(preflush=True)),
    one("NOUNMAP is invented", BD03, SERVER, "Storage", WRITE, put(nounmap=True)),
    one("another priority", BD03, SERVER, "Storage", WRITE, more("prio")),
    one("storage does not finish", BD03, SERVER, "StorageDone", ANY, drop),
    one("storage finishes twice", BD03, SERVER, "StorageDone", ANY, twice),
    one("the machine is given another sector", BD18, SERVER, "DeviceRequest", CHANGES, patched("header", 8, 8, flip(8))),
    one("the machine is given another device", BD03, SERVER, "DeviceRequest", IO, patched("header", 4, 4, flip(0x100))),
    one("the machine is given another length", BD18, SERVER, "DeviceRequest", CHANGES, patched("header", 20, 4, plus(512))),
    one("the machine is given a READ for a WRITE", BD18, SERVER, "DeviceRequest", CHANGES, put(direction="read")),
    one("the machine is given FUA", BD18, SERVER, "DeviceRequest", both(CHANGES, lambda record: number("header", 16, 4)(record) == 1),
        patched("header", 16, 4, flip(0x200))),
    one("the machine is given another amount of data", BD18, SERVER, "DeviceRequest", CHANGES, more("data_len", 512)),
    one("the machine is given another request number", BD18, SERVER, "DeviceRequest", CHANGES, more("request", 0x10000)),
    one("a request does not reach the devices", BD03, SERVER, "DeviceRequest", IO, drop),
    one("a request reaches the devices twice", BD03, SERVER, "DeviceRequest", IO, twice),
    one("a failed sync is not reported", BD18, SERVER, "CacheDamaged", ANY, drop),
    one("a failed sync is reported for another export", BD18, SERVER, "CacheDamaged", ANY, more("handle")),
    one("a failed sync was no sync", BD18, SERVER, "StorageDone", fields(sync_failed=True), put(sync_failed=False)),
    one("an export opens with another mode", BD03, SERVER, "OpenExport", ANY, put(mode="migration")),
    one("an export opens with another name", BD03, SERVER, "OpenExport", ANY, put(name="other")),
    one("an export is not opened", BD03, SERVER, "OpenExport", ANY, drop),
    one("an opened export has a doubled size", BD03, SERVER, "ExportOpened", OPENED, geometry_doubled),
    one("an opened export has another cache", BD03, SERVER, "ExportOpened", OPENED, more("instance")),
    one("OPEN_RSP has a doubled size", BD03, SERVER, "WriteBack", OPEN_RSP, patched("response", 8, 8, lambda size: 2 * size)),
    one("OPEN_RSP has another block size", BD03, SERVER, "WriteBack", OPEN_RSP, patched("response", 38, 2, lambda size: 2 * size)),
    one("OPEN_RSP has another cache", BD03, SERVER, "WriteBack", OPEN_RSP, patched("response", 48, 8, flip())),
    one("OPEN_RSP has another device id", BD03, SERVER, "WriteBack", OPEN_RSP, patched("response", 4, 4, flip(2))),
    one("a response is not written", BD03, SERVER, "WriteBack", OPEN_RSP, drop),
    one("an export is not closed", BD03, SERVER, "CloseExport", ANY, drop),
    one("an export is closed twice", BD03, SERVER, "CloseExport", ANY, twice),
    one("an export is not measured", BD03, SERVER, "MeasureExport", ANY, drop),
    one("a session is not drained", BD03, SERVER, "SessionDrained", ANY, drop),
])

CLIENT_DEVICES = Group("devices of a client", [
    one("an OPEN names another device", BD03, CLIENT, "SendMessage", fields(kind="open"), patched("header", 6, 1, flip())),
    one("an OPEN has another mode", BD03, CLIENT, "SendMessage", fields(kind="open"), patched("header", 4, 1, flip(2))),
    one("SESS_INFO has another version", BD03, CLIENT, "SendMessage", fields(kind="sess_info"), patched("header", 4, 1, plus(1))),
    one("a token is used twice", BD03, CLIENT, "SendMessage", fields(kind="open"), put(token=1)),
    one("a CLOSE names another device", BD03, CLIENT, "SendMessage", fields(kind="close"), patched("header", 4, 4, flip(0x100))),
    one("a message is not sent", BD03, CLIENT, "SendMessage", fields(kind="open"), drop),
    one("an answer is told with another errno", BD03, CLIENT, "MessageDone", OPEN_RSP, put(peer_errno=5)),
    one("an answer is told with another size", BD03, CLIENT, "MessageDone", OPEN_RSP, patched("response", 8, 8, lambda size: 2 * size)),
    one("an answer is told with another device id", BD03, CLIENT, "MessageDone", OPEN_RSP, patched("response", 4, 4, flip(0x100))),
    one("an answer is not told", BD03, CLIENT, "MessageDone", OPEN_RSP, drop),
    one("an IO goes to another device", BD03, CLIENT, "IoStarted", ANY, more("device_id")),
    one("an IO begins on another device", BD03, CLIENT, "IoBegun", fields(device=0), put(device=1)),
    one("an IO does not know of a loss", BD03, CLIENT, "IoStarted", fields(doomed=True), put(doomed=False)),
    one("an IO counts another loss", BD03, CLIENT, "IoStarted", ANY, more("losses")),
    one("an IO ends with another ticket: losses", BD03, CLIENT, "IoDone", ANY, more("losses")),
    one("an IO ends with another ticket: cache", BD03, CLIENT, "IoDone", ANY, more("cache")),
    one("an IO ends with another ticket: flushes", BD03, CLIENT, "IoDone", fields(**{"nature.flushes": True}), put(**{"nature.flushes": False})),
    one("an IO ends on another device", BD03, CLIENT, "IoDone", fields(device=0), put(device=1)),
    one("an IO ends with another errno", BD03, CLIENT, "IoDone", fields(peer_errno=0), put(peer_errno=5)),
    one("a failed IO ends with errno 0", BD27, CLIENT, "IoDone", fields(peer_errno=5), put(peer_errno=0)),
    one("an IO ends undelivered", BD03, CLIENT, "IoDone", fields(delivered=True), put(delivered=False)),
    one("a loss is told as a success", BD03, CLIENT, "IoJudged", fields(disposition="lost"), put(disposition="ok")),
    one("a failure is told as a success", BD27, CLIENT, "IoJudged", fields(disposition="fail"), put(disposition="ok")),
    one("a success is told as a failure", BD03, CLIENT, "IoJudged", fields(disposition="ok"), put(disposition="fail")),
    one("the end of an IO is not judged", BD03, CLIENT, "IoJudged", ANY, drop),
    one("a device opens with a doubled size", BD03, CLIENT, "DeviceChanged", fields(state="open"), geometry_doubled),
    one("a device opens with an errno", BD03, CLIENT, "DeviceChanged", fields(state="open"), put(peer_errno=5)),
    one("a device closes with another errno", BD03, CLIENT, "DeviceChanged", fields(state="closed"), more("peer_errno")),
    one("a device does not open", BD03, CLIENT, "DeviceChanged", fields(state="open"), drop),
    one("a lost cache is not told", BD03, CLIENT, "CacheReplaced", ANY, drop),
    one("a lost cache had fewer changes", BD03, CLIENT, "CacheReplaced", ANY, more("unflushed")),
    one("a name is mapped twice", BD03, CLIENT, "MapAnswered", fields(error=0), put(error=17)),
    one("a link is told as extended", BD03, CLIENT, "LinkUp", fields(extended=True), put(extended=False)),
])

TOLD = Group("what a machine is told", [
    one("RequestArrived has another length", BD03, SERVER, "RequestArrived", ANY, more("data_len", 512)),
    one("RequestArrived has another direction", BD03, SERVER, "RequestArrived", fields(direction="write"), put(direction="read")),
    one("RequestArrived has another user header", BD03, SERVER, "RequestArrived", ANY, more("usr_len", 4)),
    one("RequestArrived has another generation", BD03, SERVER, "RequestArrived", ANY, more("generation")),
    one("RequestArrived has no buffer", BD03, SERVER, "RequestArrived", fields(has_descriptor=True), put(has_descriptor=False)),
    one("a request arrives twice", BD03, SERVER, "RequestArrived", ANY, twice),
    one("a request does not arrive", BD03, SERVER, "RequestArrived", ANY, drop),
    one("Connected has other flags", BD03, CLIENT, "Connected", ANY, more("flags")),
    one("Connected has another depth", BD03, CLIENT, "Connected", ANY, more("queue_depth")),
    one("ConnectRequested names another path", BD03, SERVER, "ConnectRequested", ANY, put(sess_uuid="00" * 16)),
    one("ConnectRequested has other extensions", BD03, SERVER, "ConnectRequested", ANY, put(extensions=1)),
    one("SessionSought names another session", BD03, SERVER, "SessionSought", lambda record: record["fields"]["request"] == 2, put(paths_uuid="00" * 16)),
    one("SessionSought has another identity", BD03, SERVER, "SessionSought", lambda record: record["fields"]["request"] == 2, more("identity.low")),
    one("a name is claimed with another digest", BD03, SERVER, "NameClaimed", ANY, more("digest_low")),
    one("the second path claims another name", BD03, SERVER, "NameClaimed", ANY, second("NameClaimed", more("digest_low"))),
    one("an immediate arrives changed", BD03, CLIENT, "ImmReceived", ANY, more("imm")),
    one("an answer is lost before the machine", BD03, CLIENT, "ImmReceived", ANY, drop),
    one("an answer arrives twice", BD03, CLIENT, "ImmReceived", ANY, twice),
    one("an errno arrives changed", BD03, CLIENT, "ImmReceived", lambda record: record["fields"]["imm"] >> 28 == 1, more("imm", 5 << 19)),
    one("a fresh key arrives changed", KEYED, CLIENT, "KeyedResponseReceived", ANY, more("rkey")),
    one("an invalidation arrives for another permit", KEYED, CLIENT, "KeyInvalidated", ANY, more("permit")),
    one("a fence's answer arrives as an error", BD03, CLIENT, "FenceAnswered", ANY, put(peer_errno=5)),
    one("a fence's answer has another serial", BD03, CLIENT, "FenceAnswered", ANY, more("serial")),
    one("a fence names another path", BD03, SERVER, "FenceRequested", ANY, put(sess_uuid="00" * 16)),
    one("a completion has another cookie", KEYED, CLIENT, "SendDone", ANY, more("cookie")),
    one("a completion is lost", KEYED, CLIENT, "SendDone", ANY, drop),
    one("an answer of the devices is told with another errno", BD03, SERVER, "Responded", fields(peer_errno=0), put(peer_errno=5)),
    one("an answer of the devices is not told", BD03, SERVER, "Responded", ANY, drop),
    one("a chunk's key is told dead in vain", KEYED, SERVER, "ChunkInvalidated", ANY, put(ok=False)),
    one("a closed connection is not told", BD03, SERVER, "ConnectionClosed", ANY, drop),
    one("first_conn is told clear", BD03, SERVER, "ConnectRequested", fields(first_conn=True), put(first_conn=False)),
])

MACHINES = Group("what a machine does", [
    one("a request has another immediate", BD03, CLIENT, "PostRequest", ANY, more("imm")),
    one("a request goes over another path", BD03, CLIENT, "PostRequest", fields(**{"key.path": 0}), put(**{"key.path": 1})),
    one("a request repeats a generation", BD03, CLIENT, "PostRequest", lambda record: record["fields"]["generation"] > 1, more("generation", -1)),
    one("a request is posted twice", BD03, CLIENT, "PostRequest", ANY, twice),
    one("a request is not posted", BD03, CLIENT, "PostRequest", ANY, drop),
    one("a request is submitted with another length", BD03, CLIENT, "Submitted", ANY, more("data_len", 512)),
    one("a request is submitted as a write", BD03, CLIENT, "Submitted", fields(direction="read", service=False), put(direction="write")),
    one("a request takes another permit", BD18, CLIENT, "Submitted", ANY, more("permit", 600)),
    one("a success completes as an error", BD03, CLIENT, "Complete", fields(result="ok"), put(result="peer_error", peer_errno=5)),
    one("an error completes as another", BD27, CLIENT, "Complete", fields(peer_errno=5), put(peer_errno=28)),
    one("a request completes twice", BD03, CLIENT, "Complete", ANY, twice),
    one("a request does not complete", BD03, CLIENT, "Complete", ANY, drop),
    one("a failover is not fenced", FENCED, CLIENT, "FailedOver", fields(fenced=True), put(fenced=False)),
    one("a failover comes from another path", FENCED, CLIENT, "FailedOver", ANY, more("from")),
    one("a failover does not happen", FENCED, CLIENT, "FailedOver", ANY, drop),
    one("another key is stored", KEYED, CLIENT, "StoreKey", ANY, more("rkey")),
    one("a key is not stored", KEYED, CLIENT, "StoreKey", ANY, drop),
    one("a fence names another attempt", BD03, CLIENT, "SendFenceReq", ANY, more("recon_cnt")),
    one("first_conn is clear in a later attempt", BD03, CLIENT, "Connect", lambda record: record["fields"]["recon_cnt"] > 1, put(first_conn=False)),
    one("an attempt repeats its counter", BD03, CLIENT, "Connect", lambda record: record["fields"]["recon_cnt"] > 1, more("recon_cnt", -1)),
    one("a connection is not asked for", BD03, CLIENT, "Connect", fields(**{"key.con": 2}), drop),
    one("a path connects without a cause", BD03, CLIENT, "PathChanged", fields(state="waiting"), put(state="connected")),
    one("a path's end is not told", BD03, CLIENT, "PathChanged", fields(state="draining"), drop),
    one("a path is lost with another cause", BD03, CLIENT, "PathChanged", fields(state="draining", reason="transport_error"), put(reason="heartbeat_lost")),
    one("a link is told twice", BD03, CLIENT, "LinkChanged", ANY, twice),
    one("a heartbeat is not sent", KEYED, CLIENT, "PostImm", HB, drop),
    one("a heartbeat is sent twice", KEYED, CLIENT, "PostImm", HB, twice),
    one("a heartbeat is not answered", KEYED, SERVER, "PostImm", fields(imm=0x90000000), drop),
    one("receives are not posted again", BD03, CLIENT, "PostReceive", fields(kind="empty", count=1), drop),
    one("a request is not handed over", BD03, SERVER, "Deliver", ANY, drop),
    one("a request is handed over twice", BD03, SERVER, "Deliver", ANY, twice),
    one("a request is handed over from another chunk", BD18, SERVER, "Deliver", ANY, more("chunk")),
    one("a request is handed over with another serial", BD03, SERVER, "Deliver", ANY, more("serial")),
    one("a response has another errno", BD03, SERVER, "PostResponse", ANY, more("imm", 5 << 19)),
    one("a response has no data", BD03, SERVER, "PostResponse", fields(write_data=True), put(write_data=False)),
    one("a response has no fresh key", KEYED, SERVER, "PostResponse", fields(fresh_key=True), put(fresh_key=False)),
    one("a response is not posted", BD03, SERVER, "PostResponse", ANY, drop),
    one("a response is posted twice", BD03, SERVER, "PostResponse", ANY, twice),
    one("a connection is granted other flags", BD03, SERVER, "Accept", ANY, more("flags", 1)),
    one("a connection is not answered", BD03, SERVER, "Accept", ANY, drop),
    one("a path of another session is admitted", BD03, SERVER, "AdmitSession", fields(create=False), more("session")),
    one("a refusal has no errno", FENCED, SERVER, "Reject", ANY, put(peer_errno=0)),
    one("a fence is answered with an error", BD03, SERVER, "SendFenceRsp", ANY, put(peer_errno=5)),
    one("a key is used again without a new one", KEYED, SERVER, "InvalidateChunk", ANY, drop),
])

WIRE = Group("messages, in the notes of both sides", [
    notes("WRITE of another sector", BD18, CLIENT, WRITE_IO, patched("head", 8, 8, flip(8))),
    notes("READ of another sector", BD03, CLIENT, READ_IO, patched("head", 8, 8, flip(8))),
    notes("IO of another length", BD03, CLIENT, READ_IO, patched("head", 20, 4, plus(512))),
    notes("IO of another device", BD03, CLIENT, READ_IO, patched("head", 4, 4, flip(0x100))),
    notes("IO with another operation", BD03, CLIENT, READ_IO, patched("head", 16, 1, flip(2))),
    notes("a request with another immediate", BD03, CLIENT, READ_IO, more("imm")),
    notes("a request with another generation", BD03, CLIENT, READ_IO, patched("head", 23, 1, plus(1), end=True)),
    notes("a READ into a buffer 512 bytes shorter", BD03, CLIENT, READ_IO, patched("head", 4, 4, plus(-512), end=True)),
    notes("a READ that asks for an invalidation", BD03, CLIENT, READ_IO, patched("head", 20, 2, flip(), end=True)),
    cm("CON_REQ: magic", BD03, CLIENT, ASKS, patched("private_data", 2, 2, flip())),
    cm("CON_REQ: version", BD03, CLIENT, ASKS, patched("private_data", 5, 1, flip())),
    cm("CON_REQ: cid_num", BD03, CLIENT, ASKS, patched("private_data", 8, 2, plus(1))),
    cm("CON_REQ: reconnect counter", BD03, CLIENT, ASKS, patched("private_data", 10, 2, plus(1))),
    cm("CON_REQ: first_conn", BD03, CLIENT, ASKS, patched("private_data", 44, 1, flip())),
    cm("CON_REQ: extensions", BD03, CLIENT, ASKS, patched("private_data", 45, 1, flip(2))),
    cm("CON_REQ: uuid of the path", BD03, CLIENT, ASKS, patched("private_data", 12, 8, flip())),
    cm("CON_REQ: session uuid of the second path", BD03, CLIENT, PATH_1, patched("private_data", 28, 8, flip())),
    cm("CON_RSP: magic", BD03, SERVER, ACCEPTS, patched("private_data", 0, 2, flip())),
    cm("CON_RSP: version", BD03, SERVER, ACCEPTS, patched("private_data", 3, 1, flip())),
    cm("CON_RSP: flags", BD03, SERVER, ACCEPTS, patched("private_data", 16, 4, flip(0x200))),
    cm("CON_RSP: depth", BD03, SERVER, ACCEPTS, patched("private_data", 6, 2, plus(1))),
    cm("CON_RSP: largest IO", BD03, SERVER, ACCEPTS, patched("private_data", 8, 4, plus(4096))),
    cm("CON_RSP: errno of an accept", BD03, SERVER, ACCEPTS, patched("private_data", 4, 2, plus(-6))),
    cm("CON_RSP: a refusal without errno", REFUSED, SERVER, REFUSES, patched("private_data", 4, 2, lambda old: 0)),
    cm("CON_RSP: a first_conn is refused with -6", REFUSED, SERVER, REFUSES, patched("private_data", 4, 2, lambda old: -6)),
    notes("INFO_REQ: another name on the second path", BD03, CLIENT, both(INFO_REQ, fields(**{"key.path": 1})), patched("head", 2, 1, flip())),
    notes("INFO_RSP: another key", BD03, SERVER, INFO_RSP, patched("head", 16, 4, flip())),
    notes("INFO_RSP: fewer bytes", BD03, SERVER, INFO_RSP, patched("head", 20, 4, lambda old: old // 2)),
    notes("an answer with another errno", BD03, SERVER, ANSWER, more("imm", 5 << 19)),
    notes("an answer for another chunk", BD03, SERVER, ANSWER, more("imm", 1)),
    notes("an answer that tells of an invalidation", BD03, SERVER, ANSWER, more("imm", 1 << 28)),
    notes("RKEY_RSP for another chunk", KEYED, SERVER, KEYED_ANSWER, patched("head", 2, 2, flip())),
    notes("RKEY_RSP with another key", KEYED, SERVER, KEYED_ANSWER, patched("head", 4, 4, flip())),
    notes("an invalidation of another key", KEYED, SERVER, fields(op="send_inv"), more("rkey")),
    notes("a heartbeat with a payload", BD03, CLIENT, HB, more("imm")),
    notes("a heartbeat is lost", KEYED, CLIENT, HB, drop),
    notes("an answer is lost", BD03, SERVER, ANSWER, drop),
    notes("an answer comes twice", BD03, SERVER, ANSWER, twice),
    notes("a request is lost", BD03, CLIENT, READ_IO, drop),
    notes("a fence names another path", BD03, CLIENT, both(fields(op="send", length=24), starts("head", "0140")), patched("head", 8, 8, flip())),
    notes("a fence's answer has another serial", BD03, SERVER, both(fields(op="send", length=24), starts("head", "0240")), patched("head", 4, 4, plus(1))),
])

ONE_NOTE = Group("messages, in the notes of one side", [
    one("a sent WRITE has other data", BD27, CLIENT, "WireSent", WRITE_IO, more("digest")),
    one("a received WRITE has other data", BD27, SERVER, "WireReceived", WRITE_IO, more("digest")),
    one("a received WRITE has another sector", BD27, SERVER, "WireReceived", WRITE_IO, patched("head", 8, 8, flip(8))),
    one("a sent READ has another sector", BD03, CLIENT, "WireSent", READ_IO, patched("head", 8, 8, flip(8))),
    one("a READ is answered with other bytes", BD03, SERVER, "WireSent", DATA_ANSWER, more("digest")),
    one("a READ is answered with 512 bytes less", BD03, SERVER, "WireSent", both(DATA_ANSWER, lambda record: record["fields"]["length"] > 512), more("length", -512)),
    one("a READ with its own message is answered with other bytes", KEYED, SERVER, "WireSent", DATA, more("digest")),
    one("a READ with its own message is answered with 512 bytes less", KEYED, SERVER, "WireSent", both(DATA, lambda record: record["fields"]["length"] > 512), more("length", -512)),
    one("READ data goes to another address", BD03, SERVER, "WireSent", DATA_ANSWER, more("remote_addr", 512)),
    one("READ data goes to another key", BD03, SERVER, "WireSent", DATA_ANSWER, more("rkey")),
    one("a request uses another key", BD03, CLIENT, "WireSent", READ_IO, more("rkey")),
    one("a request is written elsewhere", BD03, CLIENT, "WireSent", READ_IO, more("remote_addr", 64)),
    one("an answer is sent with another errno", BD03, SERVER, "WireSent", ANSWER, more("imm", 5 << 19)),
    one("an answer is received with another errno", BD03, CLIENT, "WireReceived", ANSWER, more("imm", 5 << 19)),
    one("an answer is not sent", BD03, SERVER, "WireSent", ANSWER, drop),
    one("an answer is received twice", BD03, CLIENT, "WireReceived", ANSWER, twice),
    one("two answers change places", BD18, SERVER, "WireSent", ANSWER, swap_next),
    one("a sent CON_RSP has other flags", BD03, SERVER, "WireCm", both(ACCEPTS, fields(sent=True)), patched("private_data", 16, 4, flip(0x200))),
    one("a received CON_REQ has another session uuid", BD03, SERVER, "WireCm", both(PATH_1, fields(sent=False)), patched("private_data", 28, 8, flip())),
    one("a connection's end is not noted", BD03, SERVER, "WireCm", fields(kind="closed"), drop),
])

TIMES = Group("time", [
    one("one step back in time, client", BD03, CLIENT, "IoDone", ANY, step_back(1)),
    one("one step back in time, server", BD03, SERVER, "StorageDone", ANY, step_back(1)),
    one("a clock jumps by 3 s", FENCED, CLIENT, "SendDone", ANY, later(3)),
    one("a server's clock jumps by 3 s", FENCED, SERVER, "SendDone", ANY, later(3)),
    one("a loss is seen 4 s late", LOST, CLIENT, "PathChanged", fields(state="draining", reason="heartbeat_lost"), later(4)),
    Edit("both ends are silent for 60 s", KEYED, ((CLIENT, "PostImm", HB, later(60)), (SERVER, "PostImm", HB, later(60)))),
    one("a heartbeat's timer is early", KEYED, CLIENT, "DeadlineReached", ANY, sooner),
])

GROUPS = [SERVER_DEVICES, CLIENT_DEVICES, TOLD, MACHINES, WIRE, ONE_NOTE, TIMES]
SILENT_CAPTURES = ("both ends are silent for 60 s",)

# Edits that `check` does not find.
REASONS = {
    "OPEN_RSP has another device id": "a server may choose any id, and this run sends no IO to it; `replay` finds it.",
    "a completion is lost": "completions of equal counts replace each other, and a lost connection completes nothing; "
                            "`replay` finds it.",
    "a heartbeat's timer is early": "early timers change nothing that a rule states; `replay` finds it.",
    "a clock jumps, a loss is late, both ends are silent": "each end alone looks like a process that was stopped, and "
                                                           "`check` says so.",
    "another sector or first_conn in a capture": "a capture has each message once, and may begin after the session.",
    "a spoiled byte": "`import` counts it as a bad ICRC.",
}
