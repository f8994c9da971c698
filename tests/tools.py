"""Programs that tests need beside Python and the Java of this project. Without one a test is skipped; where CI is set
it fails."""

import os
import shutil
from typing import NoReturn

import pytest

INSTALLABLE = ("chromium", "openssl", "promtool")


def tool(name: str, *other_names: str) -> str:
    """The path of this program, which may have other names."""
    for each in (name, *other_names):
        found = shutil.which(each)
        if found is not None:
            return found
    return missing(f"{name} is not installed" + ("; try `make test-tools`" if name in INSTALLABLE else ""))


def missing(what: str) -> NoReturn:
    """Ends the test that needs it."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
