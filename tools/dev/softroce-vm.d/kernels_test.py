"""What tools/dev/softroce-vm prepares for its guests: kernels, modules and programs of the cells, and nothing else."""
import pathlib
import sys
import tempfile
from unittest import mock

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lab import command_line, environment, kernels, machine, rnbd22  # noqa: E402
import labs  # noqa: E402


class TestKernels:
    def test_a_version_is_of_its_series_only(self):
        names = ["linux-image-6.1.0-9-amd64", "linux-headers-6.1.0-9-amd64", "linux-image-6.1.0-56-amd64",
                 "linux-headers-6.1.0-56-amd64", "linux-image-6.1.0-57-amd64", "linux-image-6.1.0-58-rt-amd64",
                 "linux-headers-6.1.0-58-rt-amd64", "linux-image-6.12.117+deb12-amd64", "linux-headers-6.12.117+deb12-amd64"]
        assert kernels.newest(kernels.versions_with_both("6.1", names)) == "6.1.0-56-amd64"
        assert kernels.newest(kernels.versions_with_both("6.12", names)) == "6.12.117+deb12-amd64"
        assert kernels.newest(kernels.versions_with_both("6.2", names)) is None

    def test_without_a_choice_selections_have_every_kernel_and_names_the_default(self):
        def chosen(*words):
            return command_line.kernels_of(command_line.command_line().top.parse_args(["run", *words]))
        assert chosen("--fast") == list(kernels.KERNELS)
        assert chosen("--all") == list(kernels.KERNELS)
        assert chosen("verify") == ["6.12"]
        assert chosen("verify", "--kernel", "6.1") == ["6.1"]
        assert "6.1" not in chosen("--all", "--counted")
        with pytest.raises(ValueError):
            chosen("verify", "--kernel", "6.1", "--counted")

    def test_rnbd_2_2_is_made_of_a_source_that_has_all_places_to_change_and_of_no_other(self):
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

    def test_only_what_the_cells_run_is_built(self):
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


class TestPatience:
    """A guest that gets no processor is not dead, and one that says nothing at all is ended some day."""

    def boot(self, starved):
        boot = machine.Boot.__new__(machine.Boot)
        boot.patience, boot.starved, boot.process = 1, 0.0, mock.Mock(pid=1)
        boot._now = lambda: machine.time.monotonic() - starved()
        return boot

    def ends_after(self, share):
        """Seconds after which a guest that runs for this share of the time and says nothing is given up."""
        now = 0.0
        boot = self.boot(lambda: (1 - share) * now)
        with mock.patch.object(machine.time, "monotonic", lambda: now):
            boot._expect(100)
            while not boot._is_late():
                now += 1
        return now

    def test_the_time_without_a_processor_does_not_count_up_to_a_bound(self):
        assert self.ends_after(1.0) == 101
        assert self.ends_after(0.25) == 401
        assert self.ends_after(0.0) == 100 * machine.STARVED + 1
