"""Fixtures for the tests of programs."""
import contextlib
import signal

import pytest
from programs import BUILD, ROOT, Urtrsd

SKIPPED = 77  # SKIP_RETURN_CODE of CTest: some or all tests were skipped


@pytest.fixture
def ends():
    """ends.callback(function, ...) registers a function to call at the end of the test, in reverse order."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def urtrsd(tmp_path):
    """Starts servers: urtrsd("--export=a=mem:1M") waits until it is ready. At the end of the test, each server that
    still runs must exit with 0 after SIGTERM."""
    servers = []

    def start(*arguments, ready=True, **options):
        server = Urtrsd(tmp_path / f"urtrsd{len(servers)}.log", *arguments, **options)
        servers.append(server)
        return server.ready() if ready else server

    yield start
    running = [server for server in servers if server.process.poll() is None]
    codes = {server.end(signal.SIGTERM): server for server in running}
    assert set(codes) <= {0}, [server.text() for code, server in codes.items() if code != 0]


def pytest_collection_modifyitems(items):
    # Most tests below tools/dev need no programs of a build.
    if not BUILD.is_dir() and any(ROOT / "tools/dev" not in item.path.parents for item in items):
        pytest.exit(f"there is no build in {BUILD}; name one with URTRS_BUILD_DIR", 3)


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = SKIPPED
