"""Patches RNBD 2.0 source to 2.2: IO has the flags PREFLUSH (bit 10) and NOUNMAP (bit 11), as in kernels newer than
Debian's. The client sends them and the server obeys them.

Each change is located by a pattern; the build fails if a pattern does not match exactly once.
"""
import re

HEADER = "drivers/block/rnbd/rnbd-proto.h"
CHANGES = (  # file, pattern, text to insert after the group "before" of the pattern
    (HEADER, r"(?P<before>#define\s+RNBD_PROTO_VER_MINOR\s+)0\b", "2"),
    (HEADER, r"(?P<before>RNBD_F_FUA\s*=\s*1\s*<<\s*\(RNBD_OP_BITS\s*\+\s*1\),\n)",
     "\tRNBD_F_PREFLUSH = 0x400,\n\tRNBD_F_NOUNMAP = 0x800,\n"),
    # Server: copies the flags of the message to the bio.
    (HEADER, r"(?P<before>\n)(?=[ \t]*return bio_opf;)",
     "\tif (rnbd_op(rnbd_opf) == RNBD_OP_WRITE && rnbd_opf & RNBD_F_PREFLUSH)\n\t\tbio_opf |= REQ_PREFLUSH;\n"
     "\tif (rnbd_op(rnbd_opf) == RNBD_OP_WRITE_ZEROES && rnbd_opf & RNBD_F_NOUNMAP)\n\t\tbio_opf |= REQ_NOUNMAP;\n"),
    # Client: copies the flags of the request to the message.
    (HEADER, r"(?P<before>\n)(?=[ \t]*return rnbd_opf;)",
     "\tif (rq->cmd_flags & REQ_PREFLUSH)\n\t\trnbd_opf |= RNBD_F_PREFLUSH;\n"
     "\tif (req_op(rq) == REQ_OP_WRITE_ZEROES && rq->cmd_flags & REQ_NOUNMAP)\n\t\trnbd_opf |= RNBD_F_NOUNMAP;\n"),
)


def changed(text, pattern, addition):
    """Applies one change. Raises RuntimeError if the pattern does not match exactly once."""
    new, count = re.subn(pattern, lambda match: match["before"] + addition, text)
    if count != 1:
        raise RuntimeError(f"this kernel's source has {count} places instead of one that match {pattern!r}; its RNBD is not "
                           "the 2.0 that the change to 2.2 is made for")
    return new


def edit(source):
    """Changes the extracted kernel source below this directory."""
    for name, pattern, addition in CHANGES:
        path = source / name
        path.write_text(changed(path.read_text(encoding="utf-8"), pattern, addition), encoding="utf-8")
