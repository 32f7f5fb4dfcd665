"""Access rules of urtrsd: allow lists, directories per session, and key files."""
import json
import re
import signal

import pytest
from iwarp_client import IwarpClient
from programs import PLUGIN, program, until
from tls_scene import GOOD_TIME, _keys, _pki, _start, run, wrap_with  # pylint: disable=unused-import
from wire_client import Refused


class TestAccess:
    @pytest.fixture(autouse=True)
    def given(self, pki, keys, start, tmp_path):
        self.pki, self.keys, self.start, self.file = pki, keys, start, tmp_path / "urtrsd.toml"
        certificate, key = pki.issue("server")
        self.head = f'tls_cert = "{certificate}"\ntls_key = "{key}"\ntls_ca = "{pki.ca}"\n'

    def serve(self, text):
        self.file.write_text(self.head + text)
        return self.start(f"--config={self.file}")

    def session(self, server, identity, name=None):
        return IwarpClient(server.port, name, GOOD_TIME, wrap=wrap_with(self.pki.ca, self.pki.issue(identity)))

    def test_only_allowed_identities_are_accepted(self):
        server = self.serve('allow_identities = "alice, bob"\n')
        self.session(server, "alice").close()
        with pytest.raises(Refused) as stranger:
            self.session(server, "carl")
        assert stranger.value.errno == 13
        server.logged("identity=carl reason=not_allowed errno=13")
        self.file.write_text(self.head + 'allow_identities = "carl"\n')
        server.process.send_signal(signal.SIGHUP)
        server.logged("allow_identities has changed")
        self.session(server, "carl").close()
        with pytest.raises(Refused):
            self.session(server, "alice")

    def test_sessions_are_listed_with_their_identity(self, tmp_path):
        self.head += f'tls = "allow"\ncontrol = "{tmp_path}/control"\n'
        server = self.serve("")
        sessions = self.session(server, "alice", "web1"), IwarpClient(server.port, "web2", GOOD_TIME)
        shown = run(program("urtrs"), "session", "list", "--json", f"--socket={tmp_path}/control")
        listed = json.loads(shown.stdout)["sessions"]
        assert {one["sessname"]: one["identity"] for one in listed} == {"web1": "alice", "web2": ""}
        for one in sessions:
            one.close()

    def test_only_allowed_addresses_are_accepted(self):
        server = self.serve('allow_addresses = "10.0.0.0/8"\n')
        with pytest.raises(Refused) as stranger:
            self.session(server, "alice")
        assert stranger.value.errno == 13
        self.file.write_text(self.head + 'allow_addresses = "10.0.0.0/8,127.0.0.0/8"\n')
        server.process.send_signal(signal.SIGHUP)
        server.logged("allow_addresses has changed")
        self.session(server, "alice").close()

    def test_only_allowed_session_names_are_accepted(self):
        server = self.serve('allow_sessions = "web1"\n')
        self.session(server, "alice", "web1").close()
        with pytest.raises(OSError):
            self.session(server, "alice", "web2")
        server.logged('asked_name="web2" identity=alice reason=not_allowed')
        server.logged('name="web1" .* opened identity=alice')
        self.file.write_text(self.head + 'allow_sessions = "web2"\n')
        server.process.send_signal(signal.SIGHUP)
        server.logged("allow_sessions has changed")
        self.session(server, "alice", "web2").close()
        with pytest.raises(OSError):
            self.session(server, "alice", "web1")

    def test_session_names_can_be_restricted_to_the_identity(self):
        server = self.serve('allow_sessions = "%IDENTITY%, %IDENTITY%-*"\n')
        for name in ("alice", "alice-disk0"):
            self.session(server, "alice", name).close()
            with pytest.raises(OSError):
                self.session(server, "bob", name)

    def test_exports_are_opened_only_by_allowed_clients(self):
        server = self.serve('[[export]]\nname = "a"\nmem = "1M"\nallow_identities = "alice"\n'
                            '[[export]]\nname = "w"\nmem = "1M"\nallow_sessions = "web1"\n'
                            '[[export]]\nname = "f"\nmem = "1M"\nallow_addresses = "10.0.0.0/8"\n')
        alice, bob = self.session(server, "alice", "web1"), self.session(server, "bob", "web2")
        assert alice.open("a")[0] == 0 and bob.open("a")[0] == 13 and bob.open("/a")[0] == 13
        server.logged('open "a" refused identity=bob reason=not_allowed errno=13: the allow lists of export "a" exclude session "web2" '
                      'of bob')
        assert alice.open("w")[0] == 0 and bob.open("w")[0] == 13
        assert alice.open("f")[0] == 13
        alice.close()
        bob.close()

    def test_refused_opens_have_a_reason_in_the_json_log(self):
        self.file.write_text(self.head + 'log_format = "json"\n[[export]]\nname = "a"\nmem = "1M"\nallow_identities = "alice"\n')
        server = self.start(f"--config={self.file}", ready=False).logged('"message":"ready"')
        bob = self.session(server, "bob", "web2")
        assert bob.open("a")[0] == 13
        bob.close()
        server.logged('"reason":"not_allowed"')
        lines = map(json.loads, server.text().splitlines())
        refused = next(line for line in lines if line.get("reason") == "not_allowed")
        assert (refused["session"], refused["errno"]) == ("web2", 13)
        assert "identity=bob reason=not_allowed errno=13" in refused["message"]

    def test_access_rules_change_while_the_export_is_in_use(self):
        text = '[[export]]\nname = "a"\nmem = "1M"\n'
        server = self.serve(text + 'allow_identities = "alice"\n')
        alice = self.session(server, "alice")
        error, device = alice.open("a")
        assert error == 0
        self.file.write_text(self.head + text + 'allow_identities = "bob"\n')
        server.process.send_signal(signal.SIGHUP)
        server.logged('the access rules of export "a" changed')
        assert alice.write_device(device, 0, b"x" * 512) == 0
        again = self.session(server, "alice")
        assert again.open("a")[0] == 13
        again.close()
        alice.close()

    def test_a_session_folder_belongs_to_the_identity_of_that_name(self, tmp_path):
        server = self.serve(self.folders(tmp_path))
        mine = self.session(server, "alice", "alice")
        assert mine.open("disk")[0] == 0
        thief = self.session(server, "alice", "bob")
        assert thief.open("disk")[0] == 13
        server.logged('session "bob" does not have the name of its identity alice')
        mine.close()
        thief.close()

    def folders(self, tmp_path):
        for name in "alice", "bob":
            (tmp_path / "srv" / name).mkdir(parents=True)
            (tmp_path / "srv" / name / "disk").write_bytes(bytes(1 << 20))
        return f'dev_search_path = "{tmp_path}/srv/%SESSNAME%"\n'

    def test_clients_without_tls_have_no_session_folder(self, tmp_path):
        server = self.serve('tls = "allow"\n' + self.folders(tmp_path))
        mine, thief = self.session(server, "alice", "alice"), IwarpClient(server.port, "bob", GOOD_TIME)
        assert mine.open("disk")[0] == 0 and thief.open("disk")[0] == 13
        server.logged('session "bob" does not have the name of its identity')
        mine.close()
        thief.close()

    @pytest.mark.parametrize("by", ["certificates", "keys"])
    def test_a_reload_switches_tls_on_and_off(self, tmp_path, by):
        """With TLS, an identity can open only the directory of its name. Without TLS, the log has a warning."""
        plain = self.folders(tmp_path) + 'listen = ["0.0.0.0"]\n'
        sealed = plain + (self.head if by == "certificates" else f'tls_keys = "{self.keys / "server"}"\n')
        warning = "is not a loopback address, and clients connect without TLS"
        self.file.write_text(plain)
        server = self.start(f"--config={self.file}").logged(warning)

        def is_open_to(identity, name):
            if by == "certificates":
                session = self.session(server, identity, name)
                error, _ = session.open("disk")
                session.close()
                return error == 0
            done = run("nbdkit", "-f", "-U", "-", PLUGIN, "path=127.0.0.1", f"port={server.port}", "device=disk", f"session={name}",
                       f"tls_keys={self.keys / identity}", "--run", "nbdinfo --size $uri")
            assert done.returncode == 0 or "does not have the name of its identity" in server.text(), done.stderr
            return done.returncode == 0
        IwarpClient(server.port, "bob", GOOD_TIME).close()
        self.file.write_text(sealed)
        server.process.send_signal(signal.SIGHUP)
        server.logged("keys and certificates were reloaded")
        assert is_open_to("alice", "alice") and not is_open_to("alice", "bob")
        with pytest.raises(OSError):
            IwarpClient(server.port, "bob", GOOD_TIME)
        assert server.text().count(warning) == 1
        self.file.write_text(plain)
        server.process.send_signal(signal.SIGHUP)
        until("the warning is logged again", lambda: server.text().count(warning) == 2)
        IwarpClient(server.port, "bob", GOOD_TIME).close()

    def test_requiring_tls_by_reload_ends_the_warning_and_protects_folders(self, tmp_path):
        folders = self.folders(tmp_path) + 'listen = ["0.0.0.0"]\n'
        self.file.write_text('tls = "off"\n' + folders)
        server = self.start(f"--config={self.file}")
        warning = "is not a loopback address, and clients connect without TLS"
        assert server.text().count(warning) == 1
        self.file.write_text(self.head + folders)
        server.process.send_signal(signal.SIGHUP)
        server.logged("reload: keys and certificates were reloaded")
        assert server.text().count(warning) == 1
        thief = self.session(server, "alice", "bob")
        assert thief.open("disk")[0] == 13
        thief.close()

    def test_a_mapped_loopback_address_counts_as_loopback(self):
        server = self.start("--export=a=mem:1M", "--listen=::ffff:127.0.0.1")
        assert "is not a loopback address" not in server.text()

    def test_a_revoked_certificate_is_rejected_after_the_reload(self):
        lost, kept = self.pki.issue("lost"), self.pki.issue("kept")
        server = self.serve(f'tls_crl = "{self.pki.take_back()}"\n')
        for pair in lost, kept:
            IwarpClient(server.port, timeout=GOOD_TIME, wrap=wrap_with(self.pki.ca, pair)).close()
        self.pki.take_back(lost[0])
        server.process.send_signal(signal.SIGHUP)
        server.logged("keys and certificates were reloaded")
        IwarpClient(server.port, timeout=GOOD_TIME, wrap=wrap_with(self.pki.ca, kept)).close()
        with pytest.raises(OSError):
            IwarpClient(server.port, timeout=GOOD_TIME, wrap=wrap_with(self.pki.ca, lost))
        server.logged("its certificate is not accepted: certificate revoked")

    def test_clients_reject_a_revoked_server_certificate(self):
        server = self.serve("")
        certificate, key = self.pki.issue("carl")
        revoked = self.pki.take_back(self.pki.folder / "server99.pem")
        common = {"tls_cert": certificate, "tls_key": key, "tls_ca": self.pki.ca}
        plugin = ["nbdkit", "-f", "-U", "-", PLUGIN, "path=127.0.0.1", f"port={server.port}", "device=e", "connect_timeout=2s"]
        plugin += [f"{name}={value}" for name, value in common.items()]
        perf = [program("urtrs-perf"), "127.0.0.1", "--port", server.port, "--connect-timeout", "1s", "--runtime", "1s"]
        perf += [f"--{name.replace('_', '-')}={value}" for name, value in common.items()]
        for command, crl, end in (plugin, "tls_crl", ["--run", "nbdinfo --size $uri"]), (perf, "--tls-crl", []):
            # The connection must succeed, but urtrs-perf fails after it, because urtrsd does not speak its
            # protocol.
            done = run(*command, *end)
            assert done.returncode == 0 or "127.0.0.1 is connected" in done.stderr, done.stderr
            done = run(*command, f"{crl}={revoked}", *end)
            assert done.returncode != 0 and "certificate revoked" in done.stderr, done.stderr

    def test_invalid_access_lists_are_rejected(self):
        for text, why in (('allow_addresses = "10.0.0.0/33"\n', "nor a range like 10.0.0.0/8"),
                          ('allow_sessions = " , "\n', "the list is empty"),
                          ('allow_identities = "alice bob"\n', 'invalid identity "alice bob"'),
                          ('[[export]]\nname = "a"\nmem = "1M"\nallow_addresses = "x"\n', "nor a range like")):
            self.file.write_text(self.head + text)
            done = run(program("urtrsd"), f"--config={self.file}", "--export=b=mem:1M", "--check-config")
            assert done.returncode == 2 and why in done.stderr, done.stderr
        self.file.write_text('[[export]]\nname = "a"\nmem = "1M"\nallow_identities = "alice"\n')
        for flags in ("--allow-identities=alice", "--export=b=mem:1M"), (f"--config={self.file}",), (f"--config={self.file}", "--tls=off"):
            done = run(program("urtrsd"), *flags, "--check-config")
            assert done.returncode == 2 and "rejects all clients without TLS" in done.stderr, done.stderr


    def test_switching_tls_off_by_reload_is_logged(self):
        server = self.serve("")
        server.logged("TLS is required of every client: certificates signed by")
        self.head = ""
        self.file.write_text("")
        server.process.send_signal(signal.SIGHUP)
        server.logged("reload: TLS is off: new clients connect without TLS")
        IwarpClient(server.port, None, GOOD_TIME).close()

    def test_an_expired_certificate_causes_a_warning(self):
        certificate, key = self.pki.issue("server", -1)
        self.head = f'tls_cert = "{certificate}"\ntls_key = "{key}"\ntls_ca = "{self.pki.ca}"\n'
        server = self.serve("")
        server.logged(f"warning {certificate}: the certificate has expired")
        server.process.send_signal(signal.SIGHUP)
        server.logged("warning reload: .*the certificate has expired")
        done = run(program("urtrsd"), f"--config={self.file}", "--export=b=mem:1M", "--port=0", "--check-config")
        assert done.returncode == 0 and "warning: " in done.stderr and "has expired" in done.stderr, done.stderr

    def test_a_reload_with_an_invalid_tls_file_changes_nothing(self, tmp_path):
        self.head += f'control = "{tmp_path}/control"\n'
        server = self.serve("")
        self.file.write_text(self.head.replace(str(self.pki.ca), "/dev/null") + 'allow_identities = "carl"\n')
        done = run(program("urtrs"), "reload", f"--socket={tmp_path}/control")
        assert done.returncode == 1 and "TLS is unchanged: /dev/null" in done.stderr, done
        server.logged("reload: nothing was changed")
        self.session(server, "alice").close()


def test_keys_can_be_created_and_listed(tmp_path):
    file = tmp_path / "keys"
    line = run(program("urtrs"), "key", "new", "alice").stdout
    assert re.fullmatch("alice:[0-9a-f]{64}\n", line)
    assert run(program("urtrs"), "key", "new", "alice").stdout != line
    done = run(program("urtrs"), "key", "new", "alice", file)
    assert (done.returncode, done.stdout) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    done = run(program("urtrs"), "key", "new", "alice", file)
    assert done.returncode == 1 and "a key of alice already exists" in done.stderr
    assert run(program("urtrs"), "key", "new", "a b", file).returncode == 2
    done = run(program("urtrs"), "key", "new", "bob", file, "--json")
    assert json.loads(done.stdout)["identity"] == "bob" and file.read_text().split(":")[-1].strip() not in done.stdout
    shown = run(program("urtrs"), "key", "list", file)
    assert shown.returncode == 0 and "alice" in shown.stdout
    assert file.read_text().split(":")[1].strip() not in shown.stdout
    file.chmod(0o644)
    done = run(program("urtrs"), "key", "list", file)
    assert done.returncode == 1 and f"chmod 600 {file}" in done.stderr
