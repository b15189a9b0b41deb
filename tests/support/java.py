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


def run_snippet(code: str, classes: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Run Java statements of a page; return what they printed, and what their comments promise."""
    folder.mkdir(exist_ok=True)
    (folder / "Snippet.java").write_text(
        "import neardup.*; class Snippet { public static void main(String[] none) throws Exception "
        f"{{ {code} }} }}"
    )
    compile_java(folder, folder / "Snippet.java", classpath=str(classes))
    promised = [
        line.rpartition(" // ")[2] for line in code.splitlines() if "System.out.println" in line
    ]
    return java(f"{folder}:{classes}", "Snippet").splitlines(), promised


def java_blocks(page: str) -> list[str]:
    """Return the blocks of Java of a page of the repository."""
    text = (ROOT / page).read_text("utf-8")
    return [part.partition("```")[0] for part in text.split("```java\n")[1:]]
