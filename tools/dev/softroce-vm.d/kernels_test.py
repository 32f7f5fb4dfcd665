"""Tests what tools/dev/softroce-vm prepares for its guests: only the kernels, modules and programs that the cells
need."""
import pathlib
import sys
import tempfile
from unittest import mock

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lab import command_line, environment, kernels, machine, rnbd22, unpacked  # noqa: E402
import labs  # noqa: E402


class TestKernels:
    def test_version_belongs_to_one_series(self):
        names = ["linux-image-6.1.0-9-amd64", "linux-headers-6.1.0-9-amd64", "linux-image-6.1.0-56-amd64",
                 "linux-headers-6.1.0-56-amd64", "linux-image-6.1.0-57-amd64", "linux-image-6.1.0-58-rt-amd64",
                 "linux-headers-6.1.0-58-rt-amd64", "linux-image-6.12.117+deb12-amd64", "linux-headers-6.12.117+deb12-amd64"]
        assert kernels.newest(kernels.versions_with_both("6.1", names)) == "6.1.0-56-amd64"
        assert kernels.newest(kernels.versions_with_both("6.12", names)) == "6.12.117+deb12-amd64"
        assert kernels.newest(kernels.versions_with_both("6.2", names)) is None

    def test_default_kernels_are_all_for_selections_and_one_for_names(self):
        def chosen(*words):
            return command_line.kernels_of(command_line.command_line().top.parse_args(["run", *words]))
        assert chosen("--fast") == list(kernels.KERNELS)
        assert chosen("--all") == list(kernels.KERNELS)
        assert chosen("verify") == ["6.12"]
        assert chosen("verify", "--kernel", "6.1") == ["6.1"]
        assert "6.1" not in chosen("--all", "--counted")
        with pytest.raises(ValueError):
            chosen("verify", "--kernel", "6.1", "--counted")

    def test_rnbd_2_2_patch_needs_each_place_exactly_once(self):
        head = "#define RNBD_PROTO_VER_MINOR 0\nenum x {\n\tRNBD_F_FUA   = 1<<(RNBD_OP_BITS + 1),\n};\n"
        server, client = "int a()\n{\n\n\treturn bio_opf;\n}\n", "int b()\n{\n\n\treturn rnbd_opf;\n}\n"
        for text in (head + server + client, head + server, server + client, head + server + client + client):
            with tempfile.TemporaryDirectory() as work:
                path = pathlib.Path(work) / rnbd22.HEADER
                path.parent.mkdir(parents=True)
                path.write_text(text)
                if text == head + server + client:
                    rnbd22.edit(pathlib.Path(work))
                    new = path.read_text()
                    assert new.count("RNBD_F_NOUNMAP") == 3
                    assert "RNBD_PROTO_VER_MINOR 2\n" in new
                else:
                    with pytest.raises(RuntimeError, match="places instead of one"):
                        rnbd22.edit(pathlib.Path(work))

    def test_only_programs_of_the_cells_are_built(self):
        with tempfile.TemporaryDirectory() as work, mock.patch.object(environment, "run") as command:
            build = pathlib.Path(work)
            lab = mock.Mock(work=build)
            (build / "CMakeCache.txt").write_text("")
            environment.Lab.build_programs(lab, build, set(), print)
            command.assert_not_called()
            (build / "tools/urtrsd").mkdir(parents=True)
            (build / "tools/urtrsd/urtrsd").write_text("")
            environment.Lab.build_programs(lab, build, {"tools/urtrsd/urtrsd"}, lambda text: None)
            assert command.call_args.args[0][-2:] == ["--target", "urtrsd"]
            with pytest.raises(labs.Unavailable):
                environment.Lab.build_programs(lab, build, {environment.REPLAY}, lambda text: None)


class TestUnpacked:
    """Unpacks packages that are not installed: mdadm, and a kernel of a later Debian release."""

    def test_package_is_unpacked_once_and_failure_leaves_nothing(self, tmp_path):
        folder = tmp_path / "mdadm"
        with mock.patch.object(unpacked, "run", side_effect=RuntimeError("no network")) as command:
            with pytest.raises(labs.Unavailable, match="package mdadm cannot be downloaded: no network"):
                unpacked.unpack_here(folder, "mdadm", tmp_path / "log")
            assert not folder.exists()
            command.side_effect = None
            assert unpacked.unpack_here(folder, "mdadm", tmp_path / "log") == folder
            assert [call.args[0][0] for call in command.call_args_list] == ["apt-get", "apt-get", "dpkg"]
            unpacked.unpack_here(folder, "mdadm", tmp_path / "log")
            assert command.call_count == 3

    def test_installed_program_is_not_unpacked(self, tmp_path):
        lab = mock.Mock(work=tmp_path)
        with mock.patch.object(unpacked, "unpack_here", side_effect=labs.Unavailable("none")) as unpack:
            told = []
            environment.Lab.unpack_tools(lab, {"sh", "no-such-program"}, told.append)
        assert [call.args[1] for call in unpack.call_args_list] == ["no-such-program"]
        assert told == ["none"]

    def test_unavailable_kernel_is_an_error_only_if_requested(self, tmp_path):
        def prepare(work, kernel, say):
            if kernel.release:
                raise labs.Unavailable("no mirror")
            return kernel.name

        with mock.patch.object(environment, "install_packages"), mock.patch.object(kernels, "prepare", prepare):
            told = []
            lab = environment.Lab(tmp_path, ["6.12", "7.3"], told.append, demanded=False)
            assert (lab.images, lab.without) == ({"6.12": "6.12"}, {"7.3": "no mirror"})
            assert told == ["without Linux 7.3: no mirror"]
            with pytest.raises(labs.Unavailable):
                environment.Lab(tmp_path, ["6.12", "7.3"], told.append)

    def test_kernel_of_another_release_needs_no_packages_of_this_one(self):
        assert kernels.missing_packages(kernels.KERNELS["7.3"]) == []

    def test_unpacked_version_is_the_one_with_built_modules(self, tmp_path):
        kernel = kernels.KERNELS["7.3"]
        assert kernels.unpacked_version(tmp_path, kernel) is None
        for version in ("7.3.4+deb13-amd64", "7.3.5+deb13-amd64"):
            (tmp_path / "unpacked/7.3/lib/modules" / version).mkdir(parents=True)
        assert kernels.unpacked_version(tmp_path, kernel) is None
        (tmp_path / "modules/7.3.5+deb13-amd64").mkdir(parents=True)
        (tmp_path / "modules/7.3.5+deb13-amd64/rnbd-client.ko").write_text("")
        assert kernels.unpacked_version(tmp_path, kernel) == "7.3.5+deb13-amd64"


class TestMachine:
    def test_guest_has_two_processors_for_any_number_of_possible_ones(self, tmp_path):
        lab = mock.Mock(counted=True)
        image = mock.Mock(vmlinuz=tmp_path / "vmlinuz")
        with mock.patch.object(machine, "which", return_value="qemu"):  # qemu may be missing on this host
            words = {possible: machine.command(lab, image, tmp_path, "script", possible) for possible in (2, 256)}
        assert {of[of.index("-smp") + 1] for of in words.values()} == {"2"}
        assert {possible: " possible_cpus=256" in " ".join(of) for possible, of in words.items()} == {2: False, 256: True}
        assert words[2][words[2].index("-kernel") + 1] == str(image.vmlinuz)


class TestPatience:
    """Time in which the guest gets no processor does not count as a hang, but a guest without output is killed eventually."""

    def boot(self, starved):
        boot = machine.Boot.__new__(machine.Boot)
        boot.patience, boot.starved, boot.process = 1, 0.0, mock.Mock(pid=1)
        boot._now = lambda: machine.time.monotonic() - starved()
        return boot

    def ends_after(self, share):
        """Returns after how many seconds a guest without output is killed if it gets this share of the processor time."""
        now = 0.0
        boot = self.boot(lambda: (1 - share) * now)
        with mock.patch.object(machine.time, "monotonic", lambda: now):
            boot._expect(100)
            while not boot._is_late():
                now += 1
        return now

    def test_starved_time_does_not_count_up_to_a_limit(self):
        assert self.ends_after(1.0) == 101
        assert self.ends_after(0.25) == 401
        assert self.ends_after(0.0) == 100 * machine.STARVED + 1
