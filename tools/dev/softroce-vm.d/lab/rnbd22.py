"""Makes RNBD 2.2 of a 2.0 source: the flags PREFLUSH (bit 10) and NOUNMAP (bit 11) of IO, sent by its client and obeyed by
its server, as kernels that are newer than Debian's do.

Every change is looked for by a pattern, and one that is not found exactly once ends the build.
"""
import re

HEADER = "drivers/block/rnbd/rnbd-proto.h"
CHANGES = (  # file, pattern, what is put behind the part of it that is called "before"
    (HEADER, r"(?P<before>#define\s+RNBD_PROTO_VER_MINOR\s+)0\b", "2"),
    (HEADER, r"(?P<before>RNBD_F_FUA\s*=\s*1\s*<<\s*\(RNBD_OP_BITS\s*\+\s*1\),\n)",
     "\tRNBD_F_PREFLUSH = 0x400,\n\tRNBD_F_NOUNMAP = 0x800,\n"),
    # The server: flags of the message become those of its bio.
    (HEADER, r"(?P<before>\n)(?=[ \t]*return bio_opf;)",
     "\tif (rnbd_op(rnbd_opf) == RNBD_OP_WRITE && rnbd_opf & RNBD_F_PREFLUSH)\n\t\tbio_opf |= REQ_PREFLUSH;\n"
     "\tif (rnbd_op(rnbd_opf) == RNBD_OP_WRITE_ZEROES && rnbd_opf & RNBD_F_NOUNMAP)\n\t\tbio_opf |= REQ_NOUNMAP;\n"),
    # The client: flags of a request become those of its message.
    (HEADER, r"(?P<before>\n)(?=[ \t]*return rnbd_opf;)",
     "\tif (rq->cmd_flags & REQ_PREFLUSH)\n\t\trnbd_opf |= RNBD_F_PREFLUSH;\n"
     "\tif (req_op(rq) == REQ_OP_WRITE_ZEROES && rq->cmd_flags & REQ_NOUNMAP)\n\t\trnbd_opf |= RNBD_F_NOUNMAP;\n"),
)


def changed(text, pattern, addition):
    """RuntimeError: the pattern is not in the text exactly once."""
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
