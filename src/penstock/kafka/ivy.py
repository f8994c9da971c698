"""Downloads jars with the Ivy that comes inside PySpark: neither Maven nor an address is needed here.

``download`` takes the jars that are missing and a workspace; what arrives lies below the workspace and is handed
back, unchecked, together with Ivy's complaints. Called by ``fetch``, which checks hashes and moves the jars home.
"""

import os
import re
import subprocess
import threading
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from penstock.errors import Misconfigured
from penstock.kafka import truststore
from penstock.kafka.jars import Jar
from penstock.kafka.progress import Step

CONNECT_TIMEOUT_MS = 15_000
READ_TIMEOUT_MS = 60_000
LOOK_EVERY_SECONDS = 0.2

# Lines of Ivy's output that say why something did not arrive.
COMPLAINT = re.compile(
    r"error|exception|unresolved|not found|refused|unknown host|timed out|timeout|failed|denied|no space",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Download:
    """What came of one run."""

    arrived: dict[Jar, Path]
    complaints: tuple[str, ...]


def pyspark_jars() -> Path:
    """The folder of the jars inside PySpark, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Misconfigured("PySpark is not installed in this environment", hint="make setup")
    return Path(spec.origin).parent / "jars"


def download(java: Path, jars: Sequence[Jar], workspace: Path, step: Step) -> Download:
    """Asks for these jars; ``step`` hears how many bytes lie in the workspace while Ivy works."""
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "settings.xml").write_text(_settings(workspace))
    (workspace / "ivy.xml").write_text(_wanted(jars))
    command = [
        str(java), "-Xmx128m", "-XX:TieredStopAtLevel=1", *truststore.java_options(workspace), *_proxy_options(),
        "-cp", str(_ivy_jar()), "org.apache.ivy.Main",
        "-settings", str(workspace / "settings.xml"), "-ivy", str(workspace / "ivy.xml"), "-confs", "default",
    ]  # fmt: skip
    output = _run(command, workspace, step)
    return Download(arrived(jars, workspace), _complaints(output))


def arrived(jars: Iterable[Jar], workspace: Path) -> dict[Jar, Path]:
    """Those that lie complete in the workspace, also from an earlier run that was cut off."""
    places = {jar: workspace / "arrived" / jar.organisation / jar.name / "jars" / jar.file_name for jar in jars}
    return {jar: place for jar, place in places.items() if place.is_file()}


def _run(command: list[str], workspace: Path, step: Step) -> list[str]:
    lines: deque[str] = deque(maxlen=400)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            while True:
                try:
                    process.wait(LOOK_EVERY_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    step.advance_to(_bytes_below(workspace / "arrived"))
        except BaseException:
            process.kill()
            raise
        reader.join()
    return list(lines)


def _settings(workspace: Path) -> str:
    """Without a root, Ivy asks Maven Central; PENSTOCK_MAVEN_ROOT names a mirror of it."""
    mirror = os.environ.get("PENSTOCK_MAVEN_ROOT")
    root = f" root={quoteattr(mirror.rstrip('/') + '/')}" if mirror else ""
    return f"""<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="{CONNECT_TIMEOUT_MS}" readTimeout="{READ_TIMEOUT_MS}"/>
  </timeout-constraints>
  <caches defaultCacheDir={quoteattr(str(workspace / "arrived"))}/>
  <resolvers>
    <ibiblio name="maven" m2compatible="true" usepoms="false" timeoutConstraint="patience"{root}/>
  </resolvers>
</ivysettings>
"""


def _wanted(jars: Iterable[Jar]) -> str:
    dependencies = "\n".join(
        f'  <dependency org="{jar.organisation}" name="{jar.name}" rev="{jar.version}" transitive="false"'
        f' conf="default->*"/>'
        for jar in jars
    )
    return f"""<ivy-module version="2.0">
<info organisation="penstock" module="fetch"/>
<configurations><conf name="default"/></configurations>
<dependencies>
{dependencies}
</dependencies>
</ivy-module>
"""


def _ivy_jar() -> Path:
    found = sorted(pyspark_jars().glob("ivy-*.jar"))
    if not found:
        raise Misconfigured(f"there is no Ivy in {pyspark_jars()}", hint="make clean setup")
    return found[-1]


def _proxy_options() -> list[str]:
    """Java does not read the customary proxy variables, so they are handed on."""
    options = []
    for scheme, address in urllib.request.getproxies().items():
        parts = urllib.parse.urlsplit(address if "//" in address else f"//{address}")
        if scheme in ("http", "https") and parts.hostname:
            options += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 3128}"]
    return options


def _complaints(output: Iterable[str]) -> tuple[str, ...]:
    """The telling lines, each once, without the frame that Ivy draws around them."""
    seen: dict[str, None] = {}
    for line in output:
        text = line.strip().strip(":").strip()
        if text and COMPLAINT.search(text):
            seen.setdefault(text)
    return tuple(seen)


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*.jar*"):
        try:
            total += path.stat().st_size
        except OSError:  # renamed while we looked
            continue
    return total
