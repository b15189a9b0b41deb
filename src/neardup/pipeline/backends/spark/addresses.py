"""Folders and files by their addresses, on anything that Spark can read and write."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from neardup.errors import OutputError, UsageError
from neardup.pipeline.backends.spark.failures import in_plain_words


@dataclass(frozen=True)
class Address:
    """A folder or a file, as Hadoop's file systems see it."""

    spark: SparkSession
    url: str

    def __truediv__(self, name: str) -> Address:
        return Address(self.spark, f"{self.url.rstrip('/')}/{name}")

    @cached_property
    def _opened(self) -> tuple[Any, Any]:
        jvm: Any = self.spark.sparkContext._jvm
        with in_plain_words(f"opening {self.url}"):
            path = jvm.org.apache.hadoop.fs.Path(self.url)
            settings = self.spark._jsparkSession.sessionState().newHadoopConf()
            return path.getFileSystem(settings), path

    @property
    def whole(self) -> str:
        """With the name of the file system and the host, as others may write it too."""
        system, path = self._opened
        return str(system.makeQualified(path).toString())

    def matches(self) -> list[Address]:
        """What is there of files and folders with such a name, which may have wildcards."""
        system, path = self._opened
        with in_plain_words(f"looking for {self.url}"):
            found = system.globStatus(path) or []
            return [Address(self.spark, entry.getPath().toString()) for entry in found]

    def size(self) -> int:
        """Bytes of a file, or of everything in a folder."""
        system, path = self._opened
        with in_plain_words(f"looking into {self.url}"):
            return int(system.getContentSummary(path).getLength())

    def names(self) -> list[str]:
        """What is in a folder; nothing if it is not there, its own name if it is a file."""
        system, path = self._opened
        with in_plain_words(f"looking into {self.url}"):
            there = system.listStatus(path) if system.exists(path) else []
            return sorted(entry.getPath().getName() for entry in there)

    def delete(self) -> None:
        """With everything in it; nothing happens if it is not there."""
        system, path = self._opened
        with in_plain_words(f"deleting {self.url}"):
            system.delete(path, True)

    def write(self, data: bytes) -> None:
        system, path = self._opened
        with in_plain_words(f"writing {self.url}"):
            stream = system.create(path, True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()


def work_folder(spark: SparkSession, given: str | None) -> Address:
    """An empty folder for the tables between stages, which all executors can write."""
    if given is not None:
        folder = Address(spark, given)
        if there := folder.names():
            raise OutputError(
                f"{given} is not empty ({', '.join(there[:3])}): choose another folder as work="
            )
        return folder
    checkpoints = spark.sparkContext.getCheckpointDir()
    if checkpoints:
        return Address(spark, checkpoints) / f"neardup-{uuid.uuid4().hex}"
    if str(spark.sparkContext.master).startswith("local"):
        made = Path(tempfile.mkdtemp(prefix="neardup-"))
        # Not with the result: a frame that is made of it may live longer.
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        # Not as_uri(): Hadoop does not decode what that encodes, such as a space.
        return Address(spark, f"file://{made}")
    raise UsageError(
        "tables between the stages need a folder that all executors can write: give one as "
        "work=, such as hdfs:///tmp/neardup or s3a://bucket/neardup, or set a checkpoint folder"
    )
