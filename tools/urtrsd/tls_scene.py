"""Helpers of the TLS tests of urtrsd: a CA with certificates, key files, servers."""
import ssl
import subprocess

import pytest
from programs import BOUND, program

GOOD_TIME = 4



def run(*command, **options):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=BOUND, **options)


class Pki:
    """A CA that issues and revokes certificates."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.ca = folder / "ca.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "ca.key",
                     "-out", self.ca, "-days", "99", "-subj", "/CN=test CA")

    def openssl(self, *arguments):
        done = run("openssl", *arguments, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def issue(self, name, days=99):
        """Issues a certificate. Returns the files (certificate, key). Negative `days`: already expired."""
        stem = f"{name}{days}"
        key, request, certificate = (self.folder / f"{stem}.{end}" for end in ("key", "csr", "pem"))
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
                     "-subj", f"/CN={name}")
        key.chmod(0o600)
        extensions = self.folder / "extensions"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self.openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial", "-out",
                     certificate, "-days", days, "-extfile", extensions)
        return certificate, key

    def take_back(self, *certificates):
        """Revokes certificates. Returns the file of the CRL."""
        settings = self.folder / "ca.conf"
        settings.write_text("[ca]\ndefault_ca = own\n[own]\ndatabase = index\ndefault_md = sha256\ndefault_crl_days = 99\n")
        (self.folder / "index").touch()
        common = ("ca", "-config", settings, "-keyfile", self.folder / "ca.key", "-cert", self.ca)
        for certificate in certificates:
            self.openssl(*common, "-revoke", certificate)
        revoked = self.folder / "crl.pem"
        self.openssl(*common, "-gencrl", "-out", revoked)
        return revoked


def wrap_with(ca, pair, version=ssl.TLSVersion.TLSv1_3):
    """Returns a function that wraps a socket in TLS with the certificate and key of `pair`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = version
    context.load_verify_locations(ca)
    if pair:
        context.load_cert_chain(*pair)
    return lambda sock: context.wrap_socket(sock, server_hostname="127.0.0.1")


@pytest.fixture(name="pki")
def _pki(tmp_path):
    return Pki(tmp_path / "pki")


@pytest.fixture(name="keys")
def _keys(tmp_path):
    """Directory of key files: one for the server, one per client."""
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in "alice", "bob":
        assert run(program("urtrs"), "key", "new", name, folder / "server").returncode == 0
    for line in (folder / "server").read_text().splitlines():
        mine = folder / line.split(":")[0]
        mine.write_text(line + "\n")
        mine.chmod(0o600)
    return folder


@pytest.fixture(name="start")
def _start(urtrsd):
    return lambda *arguments, **options: urtrsd("--export=d=mem:16M", "--export=e=mem:16M", "--sess-queue-depth=64", *arguments, **options)
