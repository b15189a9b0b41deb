"""The process whose forks are Spark's Python workers on this machine.

What every task needs is loaded here, once, instead of by every worker. Spark starts it by the
setting spark.python.daemon.module; without it, workers behave the same, and start more slowly.
"""

import sys

KERNELS = ("band_keys", "content_hashes", "minhash_m32", "read_records", "shingle", "word_units")
"""Kernels of the usual run over JSON lines."""


def load_modules() -> None:
    """Import what tasks need."""
    # What is installed is compiled already; the archives of Spark would be compiled again.
    sys.path.sort(key=lambda place: place.endswith(".zip"))
    import pyspark.worker  # noqa: F401

    import neardup.pipeline.backends.spark.run  # noqa: F401
    from neardup import kernels

    for name in KERNELS:
        getattr(kernels, name)


if __name__ == "__main__":
    load_modules()
    from pyspark.daemon import manager

    manager()
