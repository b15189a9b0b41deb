"""The Java library in clients/java, compiled by the javac that `make setup` installs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "clients/java/src"
TABLES = ROOT / "src/neardup/text"


STRICT = ("-Xlint:all,-path,-classfile", "-Werror")


def jdk(tool: str) -> str:
    """Return the path of a tool of the JDK."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(tool, path=f"{home}/bin" if home else None) or shutil.which(tool)
    assert found, f"no {tool}: make setup installs the JDK (Debian: openjdk-17-jdk-headless)"
    return found


def compile_java(folder: Path, *sources: Path, classpath: str = "") -> Path:
    """Compile sources, of which any warning is an error, and return the folder of the classes."""
    run(
        jdk("javac"),
        "-Xlint:all,-path,-classfile",
        "-Werror",
        "-cp",
        classpath,
        "-d",
        folder,
        *sources,
    )
    return folder


def compile_client(folder: Path) -> Path:
    """Compile the library and its checks, with the character tables beside the classes."""
    compile_java(folder, *sorted(SOURCES.rglob("*.java")))
    for table in TABLES.glob("*.txt"):
        shutil.copy(table, folder / "neardup")
    return folder


def java(classes: Path | str, main: str, *arguments: object, given: str = "") -> str:
    """Run a main class and return what it printed; it starts in a moment and ends soon."""
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")
    return run(jdk("java"), *quick, "-cp", classes, main, *arguments, given=given)


def run(*command: object, given: str = "") -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout
