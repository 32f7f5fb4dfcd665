"""Compares urtrs-fs with a listing of the files, modes, formats and errnos of Linux 6.12. Also checks that the
comparison finds each kind of difference."""
import errno
import os
import pathlib
import shutil

import pytest
import sysfs_listing
from programs import ROOT

LISTING = ROOT / "tools/lib/control/attributes/linux-6.12.toml"
# Directories whose content is compared with the listing of Linux.
SERVER = ("class/rtrs-server", "class/rnbd-server", "module/rtrs_server", "module/rnbd_server")
CLIENT = ("class/rtrs-client", "class/rnbd-client", "block")


def test_a_server_matches_the_listing_of_linux(mounted):
    assert not list(sysfs_listing.differences(mounted, LISTING, SERVER))


def test_a_client_matches_the_listing_of_linux(lab):
    assert not list(sysfs_listing.differences(lab, LISTING, CLIENT, "127.1.0."))


def test_opening_a_read_only_attribute_for_writing_fails(mounted):
    with pytest.raises(OSError) as refused:
        os.open(mounted / "module/rnbd_server/parameters/port_nr", os.O_WRONLY)
    assert refused.value.errno == errno.EACCES


MINI = """
driver_core = ["class/*/*/uevent"]
[[file]]
path = "class/x/*/value"
mode = 0o644
format = '\\d+\\n'
refused = [["1\\n", "OK"]]
[[file]]
path = "class/x/*/to"
link = true
"""


@pytest.fixture(name="small")
def _small(tmp_path):
    """Returns a tree that matches its listing, and the listing."""
    device = tmp_path / "sys/class/x/a"
    device.mkdir(parents=True)
    (device / "value").write_text("12\n")
    (device / "value").chmod(0o644)
    (device / "uevent").write_text("")
    (device / "to").symlink_to("value")
    (tmp_path / "listing").write_text(MINI)
    return tmp_path / "sys", tmp_path / "listing"


def spoil(device: pathlib.Path, how):
    {"missing": (device / "value").unlink, "more": lambda: (device / "new").write_text(""),
     "mode": lambda: (device / "value").chmod(0o600), "format": lambda: (device / "value").write_text("12"),
     "link": lambda: ((device / "to").unlink(), (device / "to").write_text(""))}[how]()


def test_a_tree_as_listed_has_no_difference(small):
    assert not list(sysfs_listing.differences(*small))


@pytest.mark.parametrize("how, says", [("missing", "class/x/*/value: missing"), ("more", "class/x/a/new: not in the listing"),
                                       ("mode", "class/x/a/value: mode 0600, not 0644"),
                                       ("format", "class/x/a/value: reads '12'"), ("link", "class/x/a/to: not a link")])
def test_each_difference_is_found(small, how, says, monkeypatch):
    monkeypatch.setattr(sysfs_listing, "BOUND", 0)
    sysfs, listing = small
    spoil(sysfs / "class/x/a", how)
    assert any(line.startswith(says) for line in sysfs_listing.differences(sysfs, listing))


def test_a_different_errno_is_found(small):
    sysfs, listing = small
    listing.write_text(MINI.replace('"OK"', '"EINVAL"'))
    assert list(sysfs_listing.differences(sysfs, listing)) == ["class/x/a/value: writing '1\\n' ends with OK, not EINVAL"]


def test_only_the_given_roots_are_compared(small, monkeypatch):
    monkeypatch.setattr(sysfs_listing, "BOUND", 0)
    sysfs, listing = small
    shutil.rmtree(sysfs / "class/x/a")
    assert not list(sysfs_listing.differences(sysfs, listing, ["class/y"]))
    assert len(list(sysfs_listing.differences(sysfs, listing, ["class/x"]))) >= 2
