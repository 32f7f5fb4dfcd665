"""A session name consists of arbitrary bytes sent by the client. Every output shows it in the same escaped form: valid
UTF-8 without characters that could control a terminal or break a parser."""
import json
import subprocess
import urllib.request

import pytest
from iwarp_client import IwarpClient
from programs import BOUND, free_port, program, until

NAMES = [
    (b"a\xed\xa0\x80", r"a\xed\xa0\x80"),                 # surrogate
    (b"a\xe0\x80\x80", r"a\xe0\x80\x80"),                 # overlong encoding
    (b"a\xf4\x90\x80\x80", r"a\xf4\x90\x80\x80"),         # above U+10FFFF
    ("a\u009b31m".encode(), r"a\xc2\x9b31m"),             # control character
    ("a\u202eb".encode(), r"a\xe2\x80\xaeb"),             # right-to-left override
    ("größe".encode(), "größe"),
]


@pytest.mark.parametrize("octets, shown", NAMES)
def test_a_name_is_escaped_the_same_way_everywhere(urtrsd, ends, tmp_path, octets, shown):
    metrics, control = f"127.0.0.1:{free_port()}", tmp_path / "control"
    server = urtrsd("--export=a=mem:1M", f"--control={control}", "--log-format=json", f"--metrics={metrics}", ready=False)
    server.logged('"message":"ready"')
    client = IwarpClient(server.port, octets)
    ends.callback(client.close)
    until("the session in the log", lambda: '"session"' in server.text())
    lines = server.log.read_bytes().splitlines()
    assert all(line.isascii() for line in lines)
    assert {json.loads(line).get("session") for line in lines} == {None, shown}

    def urtrs(*arguments):
        done = subprocess.run([program("urtrs"), f"--socket={control}", *arguments], capture_output=True, timeout=BOUND, check=True)
        return done.stdout.decode()
    assert shown in urtrs("session", "list")
    as_json = urtrs("session", "list", "--json")
    assert as_json.isascii() and json.dumps(shown) in as_json
    urtrs("reset", shown)  # commands accept the escaped form
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=BOUND) as answer:
        label = shown.replace("\\", r"\\")
        assert f'session="{label}"' in answer.read().decode()
