"""pytest plugin that writes down what happens while it happens, one JSON object a line.

pytest writes its JUnit XML only at the end, so that a process that dies or hangs leaves none. This
file is loaded into the recipe's own pytest (`-p fsdp2_prefetch_sidecar`) and runs under whatever
Python and pytest the recipe has: it needs nothing but the standard library.
"""

import contextlib
import faulthandler
import json
import os
import signal
import sys
from typing import Any

_PATH = os.environ.pop("FSDP2_PREFETCH_SIDECAR", None)  # not for pytests that a test starts
_PID = os.getpid()
_session: Any = None


def _write(event: str, **fields: Any) -> None:
    # A forked child carries this module along, and an xdist worker imports it: only the process
    # that was started for the stage may speak. Opened anew each time, since tests close
    # descriptors; the one write with O_APPEND keeps a line whole.
    if _PATH is None or os.getpid() != _PID:
        return
    line = json.dumps({"event": event, **fields}) + "\n"
    file = os.open(_PATH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode("ascii"))
    finally:
        os.close(file)


def pytest_sessionstart(session: Any) -> None:
    """Note that the configuration was read and the conftest files were imported."""
    global _session
    _session = session
    _write("session")


def pytest_collectreport(report: Any) -> None:
    """Note a file that could not be collected, or was skipped as a whole."""
    if report.outcome != "passed":
        _write("collect", test=report.nodeid, outcome=report.outcome)


def pytest_deselected(items: Any) -> None:
    """Note tests that an option, perhaps the repository's own `addopts`, left out."""
    _write("deselected", count=len(items))


def pytest_collection_finish(session: Any) -> None:
    """Note how many tests are about to run."""
    _write("collected", count=len(session.items))


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note that a test begins."""
    _write("start", test=nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Note how the set-up, the call, the teardown or a subtest ended."""
    unexpected = hasattr(report, "wasxfail") and report.outcome == "passed"
    _write("report", test=report.nodeid, outcome="xpassed" if unexpected else report.outcome)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Note that a test ended."""
    _write("end", test=nodeid)


def pytest_unconfigure() -> None:
    """Note that pytest came to its end; the JUnit XML is written by then."""
    status = getattr(_session, "exitstatus", None)
    _write("finish", status=None if status is None else int(status))


if _PATH is not None:
    # Told to stop at its limit, the process first says where it hangs. The descriptor is taken
    # here because pytest soon redirects standard error.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        faulthandler.register(signal.SIGUSR1, file=os.fdopen(os.dup(2), "w"), all_threads=True)
    _write("loaded", python=sys.version.split()[0])
