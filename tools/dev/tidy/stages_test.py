"""tools/test runs the same stages on every machine: it skips no stage because of elapsed time or a missing dependency.
The test replaces compilers, CTest and the lab by programs that record their command lines.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
STAGES = ["deps", "release", "tidy", "sweep", "debug", "tsan", "interop", "clang", "cluster"]

CMAKE = r"""#!/bin/bash
echo "cmake $*" >>"$CALLS"
for word in "$@"; do last="$word"; done
previous=""
for word in "$@"; do
  if [[ "$previous" == -B ]]; then mkdir -p "$word"; fi
  if [[ "$previous" == --build ]]; then cp "$STUBS/urtrs-sim" "$word/urtrs-sim"; fi
  previous="$word"
done
"""
CTEST = r"""#!/bin/bash
echo "ctest $*" >>"$CALLS"
if [[ " $* " == *" -N "* ]]; then echo "Total Tests: 1"; exit; fi
previous=""
for word in "$@"; do
  if [[ "$previous" == --output-junit ]]; then
    if [[ -e "$STUBS/no-tests" ]]; then
      echo '<testsuite/>' >"$word"
    else
      echo '<testsuite><testcase name="one" status="run"/></testsuite>' >"$word"
    fi
  fi
  previous="$word"
done
"""
LAB = r"""#!/bin/bash
echo "lab $*" >>"$CALLS"
if [[ -e "$STUBS/no-lab" ]]; then echo "tools/dev/softroce-vm: no qemu" >&2; exit 77; fi
previous=""
for word in "$@"; do
  if [[ "$previous" == --junit ]]; then
    echo '<testsuites><testsuite><testcase name="verify"/></testsuite></testsuites>' >"$word"
  fi
  previous="$word"
done
"""
NOTE = """#!/bin/bash
echo "$(basename "$0") $*" >>"$CALLS"
"""


class TestStages:
    @pytest.fixture(autouse=True)
    def tree(self, tmp_path):
        self.folder = tmp_path
        self.stubs = self.folder / "stubs"
        tools = self.folder / "tree/tools"
        (tools / "dev/cluster").mkdir(parents=True)
        self.stubs.mkdir()
        self.program = shutil.copy(ROOT / "tools/test", tools / "test")
        for path, text in ((self.stubs / "cmake", CMAKE), (self.stubs / "ctest", CTEST), (tools / "dev/softroce-vm", LAB),
                           (tools / "install-deps", NOTE), (tools / "dev/compare-hashes", NOTE),
                           (tools / "dev/cluster/check", NOTE),
                           (self.stubs / "urtrs-sim", NOTE)):
            path.write_text(text)
            path.chmod(0o755)

    def run_test(self, *words, minutes=0, code=0):
        """Returns all calls in order, and the output. The clock shows `minutes` of elapsed time at the start."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        environment = dict(os.environ, PATH=f"{self.stubs}:{os.environ['PATH']}", STUBS=str(self.stubs), CALLS=str(calls),
                           SECONDS=str(60 * minutes))
        ran = subprocess.run(["bash", str(self.program), *words], capture_output=True, text=True, env=environment,
                             timeout=60, check=False)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return calls.read_text(), ran.stdout

    def test_stages_do_not_depend_on_elapsed_time(self):
        early, _ = self.run_test()
        late, output = self.run_test(minutes=600)
        assert early == late
        for wanted in ("--preset tsan", "--preset debug", "--target asan_tests", "compare-hashes",
                       "urtrs-sim sweep --seeds 0..2000", "run --fast"):
            assert wanted in late
        assert "[600:" in output
        assert re.search(r"^[1-9][0-9]* passed, 0 failed, 0 skipped$", output.splitlines()[-1])

    def test_stage_that_cannot_run_fails(self):
        (self.stubs / "no-lab").touch()
        _, output = self.run_test(code=1)
        assert "FAILED: interop: the lab cannot run here" in output
        assert re.search(r" 1 failed, 0 skipped$", output.splitlines()[-1])

    def test_stage_without_tests_fails(self):
        (self.stubs / "no-tests").touch()
        _, output = self.run_test(code=1)
        for stage in ("release", "tidy", "debug", "tsan"):
            assert f"FAILED: {stage}: there is no test to run" in output

    def test_stages_left_out_are_reported(self):
        calls, output = self.run_test("--without", "interop", "--without", "tsan")
        assert "lab run" not in calls
        assert "--preset tsan" not in calls
        assert output.splitlines()[-2] == "Left out by --without: tsan interop"
        assert re.search(r"^[0-9]+ passed, 0 failed, 2 skipped$", output.splitlines()[-1])

    def test_without_accepts_only_stages(self):
        ran = subprocess.run(["bash", str(self.program), "--without", "lunch"], capture_output=True, text=True, check=False)
        assert ran.returncode == 2
        for stage in STAGES:
            assert stage in ran.stderr + ran.stdout

    def test_full_builds_and_runs_everything(self):
        calls, _ = self.run_test("--full")
        assert "asan_tests" not in calls
        assert "--preset clang-release" in calls
        assert "install-deps --for cluster" in calls.splitlines()
        assert "check " in calls.splitlines()
