"""Is there a Java that can run Spark 4 on this machine?

Only the standard library, so that the Makefile can run this file before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

OLDEST = 17
HOW_TO_GET_ONE = (
    f"Install Java {OLDEST} or newer and put it on PATH, or set JAVA_HOME to it. "
    f"Debian, Ubuntu: apt-get install openjdk-{OLDEST}-jre-headless. "
    f"Fedora: dnf install java-{OLDEST}-openjdk-headless. macOS: brew install openjdk@{OLDEST}."
)


def java_problem(environment: Mapping[str, str] | None = None) -> str:
    """What is wrong with the Java that spark-submit would start, in a sentence; empty when nothing is."""
    env = os.environ if environment is None else environment
    home = env.get("JAVA_HOME", "")
    program = str(Path(home) / "bin" / "java") if home else "java"
    place = f"in JAVA_HOME ({home})" if home else "on PATH"
    found = shutil.which(program, path=env.get("PATH"))
    if found is None:
        return f"Spark needs Java {OLDEST} or newer, and there is no java {place}."
    try:
        done = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Spark needs Java {OLDEST} or newer, and {found} cannot be run: {error}."
    said = done.stderr + done.stdout
    version = java_version(said)
    if version is None:
        first = said.strip().splitlines()[0] if said.strip() else "nothing"
        return f"Spark needs Java {OLDEST} or newer; '{found} -version' prints no version: {first}"
    if version < OLDEST:
        return f"Spark needs Java {OLDEST} or newer; {found} is Java {version}."
    return ""


def java_version(said: str) -> int | None:
    """The feature release in the output of ``java -version``: 17 of "17.0.9", 8 of "1.8.0_392"."""
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else None


if __name__ == "__main__":
    problem = java_problem()
    if problem:
        sys.exit(f"{problem}\n{HOW_TO_GET_ONE}")
