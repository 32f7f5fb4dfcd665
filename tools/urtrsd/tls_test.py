"""urtrsd with TLS 1.3: accepted clients, and clients rejected with a logged reason, while a good session continues."""
import os
import re
import signal
import socket
import ssl
import threading
import time

import pytest
from hostile_tcp_test import Beside, is_closed_by, raw
from iwarp_client import IwarpClient, request_frame
from programs import BOUND, PLUGIN, program, until
from tls_scene import GOOD_TIME, Pki, _keys, _pki, _start, run, wrap_with  # pylint: disable=unused-import
from wire_client import Refused, connect_request


@pytest.fixture(name="server")
def _server(start, pki, keys, monkeypatch):
    """A server that accepts certificates and keys, with a session in the background that verifies its IO."""
    certificate, key = pki.issue("server")
    server = start(f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-ca={pki.ca}", f"--tls-keys={keys / 'server'}")
    good = wrap_with(pki.ca, pki.issue("good"))
    monkeypatch.setattr("hostile_tcp_test.IwarpClient", lambda port, timeout: IwarpClient(port, timeout=timeout, wrap=good))
    beside = Beside(server)
    yield server
    assert server.process.poll() is None, "the server died"
    beside.end()


def plugin(server, *parameters):
    return run("nbdkit", "-f", "-U", "-", PLUGIN, "path=127.0.0.1", f"port={server.port}", "device=e", "connect_timeout=2s",
               "reconnect_min=200ms", *parameters, "--run", "nbdinfo --size $uri")


def accepted(done):
    assert (done.returncode, done.stdout) == (0, "16777216\n"), done.stderr


def refused(done, *words):
    assert done.returncode != 0
    for word in words:
        assert word in done.stderr, done.stderr


def test_a_client_with_the_right_key_is_accepted(server, keys):
    accepted(plugin(server, f"tls_keys={keys / 'alice'}"))
    accepted(plugin(server, f"tls_keys={keys / 'server'}", "tls_identity=bob"))
    refused(plugin(server, f"tls_keys={keys / 'server'}"), "choose one with tls_identity")


def test_tls_options_without_keys_are_rejected(start):
    server = start()
    accepted(plugin(server))
    refused(plugin(server, "tls_identity=alice"), "tls_identity requires tls_keys")
    refused(plugin(server, "tls_server_name=storage"), "tls_server_name is for TLS")
    done = run(program("urtrs-perf"), "127.0.0.1", "--port", server.port, "--tls-identity=alice")
    assert done.returncode != 0 and "tls-identity requires" in done.stderr, done.stderr


def test_a_client_with_a_certificate_is_accepted(server, pki):
    certificate, key = pki.issue("carl")
    accepted(plugin(server, f"tls_cert={certificate}", f"tls_key={key}", f"tls_ca={pki.ca}"))
    refused(plugin(server, f"tls_cert={certificate}", f"tls_key={key}", f"tls_ca={pki.ca}", "tls_server_name=other.example.org"),
            "certificate is not accepted", "mismatch", "tls_failed")


def test_a_wrong_key_is_rejected(server, keys):
    wrong = keys / "wrong"
    assert run(program("urtrs"), "key", "new", "alice", wrong).returncode == 0
    refused(plugin(server, f"tls_keys={wrong}"), "does it have the same key of alice?")
    server.logged("its key of alice differs from the one here")


def test_an_unknown_identity_is_rejected(server, keys):
    wrong = keys / "wrong"
    assert run(program("urtrs"), "key", "new", "mallory", wrong).returncode == 0
    refused(plugin(server, f"tls_keys={wrong}"), "the server does not accept the key of mallory", "tls_failed")
    server.logged("no key of mallory")


def test_an_expired_certificate_is_rejected(server, pki):
    certificate, key = pki.issue("late", -1)
    refused(plugin(server, f"tls_cert={certificate}", f"tls_key={key}", f"tls_ca={pki.ca}"), "certificate expired",
            f"{certificate}: the certificate has expired, and peers reject it")
    server.logged("its certificate is not accepted: certificate has expired; it is that of late")
    done = run(program("urtrs-perf"), "127.0.0.1", "--port", server.port, f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-ca={pki.ca}",
               "--connect-timeout", "1s", "--runtime", "1s")
    assert done.stderr.count(f"urtrs-perf: {certificate}: the certificate has expired, and peers reject it; replace it\n") == 1, done.stderr


def test_a_certificate_of_another_ca_is_rejected(server, pki, tmp_path):
    certificate, key = Pki(tmp_path / "other").issue("mallory")
    refused(plugin(server, f"tls_cert={certificate}", f"tls_key={key}", f"tls_ca={pki.ca}"), "it sent the alert")
    server.logged("its certificate is not accepted")


def test_a_client_without_a_certificate_is_rejected(server, pki):
    with pytest.raises(OSError):
        IwarpClient(server.port, timeout=GOOD_TIME, wrap=wrap_with(pki.ca, None))
    server.logged("it presents neither a certificate nor a key")


def test_a_client_rejects_a_server_of_another_ca(server, pki, tmp_path):
    other = Pki(tmp_path / "other")
    certificate, key = pki.issue("carl")
    refused(plugin(server, f"tls_cert={certificate}", f"tls_key={key}", f"tls_ca={other.ca}"), "its certificate is not accepted")
    server.logged("it sent the alert")


def test_clients_without_tls_are_rejected(server):
    done = run(program("urtrs-perf"), "127.0.0.1", "--port", server.port, "--connect-timeout", "1s", "--runtime", "1s")
    assert done.returncode != 0 and "does it require TLS?" in done.stderr, done.stderr
    server.logged("it does not speak TLS, which is required")
    with pytest.raises(OSError):
        IwarpClient(server.port, timeout=GOOD_TIME)


def test_clients_with_keys_reject_a_server_without_tls(start, keys):
    server = start("--tls=off")
    refused(plugin(server, f"tls_keys={keys / 'alice'}"), "does it accept TLS?")
    server.logged("it speaks TLS, which is off here")
    accepted(plugin(server))


def test_tls_allow_accepts_clients_with_and_without_tls(start, keys):
    server = start("--tls=allow", f"--tls-keys={keys / 'server'}")
    accepted(plugin(server))
    accepted(plugin(server, f"tls_keys={keys / 'alice'}"))
    refused(plugin(server, "tls=allow"), "it is for servers")


def test_other_protocols_are_rejected(server, pki):
    with pytest.raises(OSError):
        IwarpClient(server.port, timeout=GOOD_TIME, wrap=wrap_with(pki.ca, pki.issue("good"), ssl.TLSVersion.TLSv1_2))
    server.logged("it does not speak TLS 1.3")
    common = ("openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-brief")
    done = run(*common, "-tls1_2")
    assert done.returncode != 0 and "alert protocol version" in done.stderr, done.stderr
    done = run(*common, "-tls1_3")
    assert "Protocol version: TLSv1.3" in done.stderr, done.stderr


def test_a_replayed_hello_has_no_effect(server, pki):
    """An attacker who replays the recorded bytes of a valid client gets no session."""
    with socket.create_server(("127.0.0.1", 0)) as relay:
        relay.settimeout(GOOD_TIME)
        sent = []

        def carry(source, target, log):
            try:
                while got := source.recv(65536):
                    log.append(got)
                    target.sendall(got)
            except OSError:
                pass

        def serve():
            client, _ = relay.accept()
            upward = socket.create_connection(("127.0.0.1", server.port), GOOD_TIME)
            threading.Thread(target=carry, args=(upward, client, []), daemon=True).start()
            carry(client, upward, sent)
            upward.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        good = wrap_with(pki.ca, pki.issue("good"))
        with good(socket.create_connection(relay.getsockname(), GOOD_TIME)) as sock:
            sock.sendall(request_frame(connect_request(0, 2, os.urandom(16), os.urandom(16))))
            assert sock.recv(16) == b"MPA ID Rep Frame"
        thread.join(GOOD_TIME)
    before = server.text().count("bad record mac") + server.text().count("decrypt")
    sock = raw(server, b"".join(sent))
    said = is_closed_by(sock)
    assert b"MPA" not in said
    until("the server says why", lambda: server.text().count("bad record mac") + server.text().count("decrypt") > before, GOOD_TIME)


def test_half_open_handshakes_are_limited(server, pki):
    """With more incomplete ClientHellos than allowed, the server closes the oldest connections and accepts a valid client."""
    hello = bytes.fromhex("1603010200010001fc0303")
    crowd = [raw(server, hello) for _ in range(300)]

    def is_closed(sock):
        try:
            return sock.recv(1, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def closed():
        return sum(map(is_closed, crowd))
    IwarpClient(server.port, timeout=GOOD_TIME, wrap=wrap_with(pki.ca, pki.issue("late"))).close()
    until("all are closed in time", lambda: closed() == 300, 12)
    pattern = "closed ([0-9]+) connections? without a valid connect request"
    until("all are logged", lambda: sum(map(int, re.findall(pattern, server.text()))) >= 300, GOOD_TIME)
    assert sum(map(int, re.findall(pattern, server.text()))) <= 300 + 4
    assert re.search(pattern + r"; the last client was 127[^\n]* \(max_handshakes_per_host = 128\)", server.text())


def test_a_session_belongs_to_the_identity_that_created_it(server, pki):
    alice, bob = (wrap_with(pki.ca, pki.issue(name)) for name in ("alice", "bob"))
    mine = IwarpClient(server.port, "mine", GOOD_TIME, wrap=alice)
    error, device = mine.open("e")
    assert error == 0
    with pytest.raises(Refused) as stranger:
        IwarpClient(server.port, "mine", GOOD_TIME, wrap=bob, paths=mine.paths)
    assert stranger.value.errno == 1, stranger.value
    server.logged("reason=other_identity")
    # Alice has the right identity, so the server rejects her for a different reason: a path between these
    # addresses already exists.
    with pytest.raises(Refused) as twin:
        IwarpClient(server.port, "mine", GOOD_TIME, wrap=alice, paths=mine.paths)
    assert twin.value.errno == 17, twin.value
    assert mine.write_device(device, 0, b"x" * 4096) == 0
    mine.close()


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620])
def test_a_key_file_readable_by_others_is_rejected(start, keys, mode):
    (keys / "server").chmod(mode)
    server = start(f"--tls-keys={keys / 'server'}", ready=False)
    assert server.process.wait(BOUND) == 3
    assert f"chmod 600 {keys / 'server'}" in server.text()


def test_a_private_key_readable_by_others_is_rejected(start, pki):
    certificate, key = pki.issue("server")
    key.chmod(0o604)
    server = start(f"--tls-cert={certificate}", f"--tls-key={key}", f"--tls-ca={pki.ca}", ready=False)
    assert server.process.wait(BOUND) == 3
    assert f"chmod 600 {key}" in server.text()


def test_a_reload_reads_keys_again(start, keys):
    server = start(f"--tls-keys={keys / 'server'}")
    accepted(plugin(server, f"tls_keys={keys / 'bob'}"))
    text = (keys / "server").read_text()
    (keys / "server").write_text("".join(line for line in text.splitlines(True) if not line.startswith("bob:")))
    server.process.send_signal(signal.SIGHUP)
    server.logged("keys and certificates were reloaded")
    refused(plugin(server, f"tls_keys={keys / 'bob'}"), "it sent the alert")
    server.logged("no key of bob")
    accepted(plugin(server, f"tls_keys={keys / 'alice'}"))
    # If a reload finds an invalid key file, the previous keys stay in use.
    (keys / "server").write_text("alice:12\n")
    server.process.send_signal(signal.SIGHUP)
    server.logged("TLS is unchanged: .*line 1: a key is 64 hexadecimal digits")
    accepted(plugin(server, f"tls_keys={keys / 'alice'}"))


def test_a_non_loopback_listener_without_tls_causes_a_warning(start, keys):
    assert "TLS" not in start().text()
    warning = "is not a loopback address, and clients connect without TLS"
    start("--listen=0.0.0.0").logged(re.escape("0.0.0.0 " + warning))
    start("--listen=0.0.0.0", "--tls=allow", f"--tls-keys={keys / 'server'}").logged(warning)
    assert warning not in start("--listen=0.0.0.0", f"--tls-keys={keys / 'server'}").text()


def test_an_idle_client_does_not_delay_others(server, pki):
    """A client that stops in the middle of a record does not affect others."""
    good = wrap_with(pki.ca, pki.issue("slow"))
    with good(socket.create_connection(("127.0.0.1", server.port), GOOD_TIME)) as sock:
        begin = time.monotonic()
        sock.sendall(b"MPA ID")
        assert is_closed_by(sock, 10) == b""
        assert 3 < time.monotonic() - begin < 9
