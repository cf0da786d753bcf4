from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-golden",
        action="store_true",
        help="write the expected texts anew instead of comparing; read the diff before you commit",
    )


@pytest.fixture
def matches_golden(request: pytest.FixtureRequest) -> Callable[[str, Path], None]:
    def check(text: str, path: Path) -> None:
        if request.config.getoption("--write-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
