"""NBD clients used by tools/demo and by users: fio, which verifies its data, and nbdfuse, which mounts a device."""
import contextlib
import filecmp
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from programs import BOUND, PLUGIN, until

SIZE = 8 << 20


def needs(name):
    return pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")


@pytest.fixture(name="image")
def _image(tmp_path):
    image = tmp_path / "disk.img"
    image.write_bytes(b"".join(hashlib.sha512(str(i).encode()).digest() for i in range(SIZE // 64)))
    return image


@pytest.fixture(name="uri")
def _uri(image, urtrsd, tmp_path, ends):
    """NBD URI of disk0, which nbdkit serves over two paths. The export is the file `image`."""
    server = urtrsd("--listen=127.0.0.1", "--listen=127.0.0.2", f"--export=disk0={image}")
    # nbdkit creates the socket file before it listens, and the file `ready` afterwards.
    socket, ready = tmp_path / "nbd.sock", tmp_path / "nbdkit.pid"
    process = subprocess.Popen(["nbdkit", "-f", "-U", socket, "-P", ready, PLUGIN, "path=127.0.0.1", "path=127.0.0.2",
                                f"port={server.port}", "device=disk0"], stdin=subprocess.DEVNULL)
    ends.callback(process.wait, BOUND)
    ends.callback(process.terminate)
    until("nbdkit listens or has exited", lambda: ready.exists() or process.poll() is not None)
    return f"nbd+unix:///disk0?socket={socket}"


@needs("fio")
@pytest.mark.parametrize("mix", ["randwrite", "randrw", "randtrimwrite"])
def test_fio_reads_back_what_it_wrote(uri, tmp_path, mix):
    check = ["--verify=crc32c", "--verify_fatal=1", "--do_verify=1"] if mix != "randtrimwrite" else []
    done = subprocess.run(["fio", "--name=checked", "--ioengine=nbd", f"--uri={uri}", f"--rw={mix}", "--bs=4k", "--iodepth=16",
                           f"--size={SIZE}", *check, "--output-format=json", "--eta=never"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=2 * BOUND, check=False)
    if "not loadable" in done.stdout + done.stderr:
        pytest.skip("this fio has no engine nbd")
    assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    assert job["error"] == 0
    assert job["write"]["total_ios"] > 0
    assert not check or job["read"]["total_ios"] > 0


@pytest.fixture(name="mounted")
def _mounted(uri, tmp_path):
    """File that nbdfuse shows for the device."""
    folder = tmp_path / "mount"
    folder.mkdir()
    process = subprocess.Popen(["nbdfuse", folder / "disk0", uri], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    file = folder / "disk0"
    until("the file is mounted or nbdfuse has exited", lambda: file.exists() or process.poll() is not None)
    if process.poll() is not None and os.geteuid() != 0:
        pytest.skip("no file system in user space can be mounted: " + process.stderr.read())
    assert process.poll() is None, process.stderr.read()
    yield file
    subprocess.run(["fusermount3" if shutil.which("fusermount3") else "fusermount", "-u", folder], check=True, timeout=BOUND)
    with contextlib.closing(process.stderr):
        assert process.wait(BOUND) == 0


@needs("nbdfuse")
@pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK), reason="/dev/fuse cannot be used here")
def test_nbdfuse_shows_the_device_as_a_file(mounted, image):
    assert mounted.stat().st_size == SIZE
    assert filecmp.cmp(mounted, image, shallow=False)
    with mounted.open("r+b", buffering=0) as file:
        file.seek(1 << 20)
        file.write(bytes(65536))
        os.fsync(file.fileno())
    assert not any(image.read_bytes()[1 << 20:(1 << 20) + 65536])
    filecmp.clear_cache()
    assert filecmp.cmp(mounted, image, shallow=False)
