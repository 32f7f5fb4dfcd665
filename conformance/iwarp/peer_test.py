"""Runs the interoperability test of the lab (TCP fabric and siw) between two TCP fabrics, without and with errors in the script."""
import os
import pathlib
import socket
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("URTRS_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build/release"))
PEER = BUILD / "conformance/iwarp/iwarp_peer"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


def listens(responder):
    for line in responder.stdout:
        if "listening on" in line:
            return True
    return False


def talk(of_initiator=(), of_responder=()):
    """Runs both ends; returns (exit code, output) of the initiator and of the responder."""
    port = free_port()
    with subprocess.Popen([PEER, "fabric", "responder", "127.0.0.1", port, *of_responder], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as responder:
        assert listens(responder)
        initiator = subprocess.run([PEER, "fabric", "initiator", "127.0.0.1@127.0.0.1", port, *of_initiator],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        heard = responder.stdout.read()  # returns because each wait of the responder has a limit
        return (initiator.returncode, initiator.stdout), (responder.wait(60), heard)


@pytest.mark.parametrize("crc", ([], ["crc"]), ids=("plain", "crc"))
def test_two_fabrics_pass_the_script(crc):
    for code, text in talk(crc):
        assert code == 0, text
        assert text.count("talk holds") == 6, text


@pytest.mark.parametrize("what,words", (
    ("private-data", "private data of the request differs at octet"), ("write", "a write of 65536 differs at octet 60000"),
    ("message", "a message differs at octet 99999"), ("order", "message 40 of many has 57 octets instead of 56")))
def test_responder_finds_corruption_by_the_initiator(what, words):
    _, (code, text) = talk([f"spoil={what}"])
    assert code == 1 and words in text, text


@pytest.mark.parametrize("what,words", (
    ("private-data", "private data of the answer differs at octet"), ("write", "a write of 65536 differs at octet 60000")))
def test_initiator_finds_corruption_by_the_responder(what, words):
    (code, text), _ = talk((), [f"spoil={what}"])
    assert code == 1 and words in text, text
