"""Open an index on Redis, for `Index`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from neardup.errors import IndexLocked, UsageError
from neardup.index.generation import OpenOptions
from neardup.index.open_index import require_settings
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.configuration import check_configuration
from neardup.index.redis_store.documents import ListedDocuments, SharedDocuments
from neardup.index.redis_store.keyspace import KEPT, Keyspace
from neardup.index.redis_store.rebalancing import Rebalanced, rebalance
from neardup.index.redis_store.ring_servers import connect
from neardup.index.redis_store.shared_generation import (
    SharedGeneration,
    create_index,
    finish_creation,
    read_meta,
)
from neardup.index.redis_store.shared_loader import SharedLoader
from neardup.index.settings import IndexSettings, new_settings
from neardup.index.vector_settings import require_vectors
from neardup.keys import Key
from neardup.runtime import Progress
from neardup.spec import Spec


def missing_index(address: RedisAddress) -> UsageError:
    return UsageError(
        f"{address} holds no index: give another address or name (?name=NAME), or make one with "
        "neardup index build"
    )


def is_stored(address: RedisAddress) -> bool:
    """Return whether the servers have an index of this name."""
    with closing(connect(address)) as servers:
        return read_meta(servers) is not None


@contextmanager
def kept_documents(address: RedisAddress) -> Iterator[tuple[ListedDocuments, IndexSettings]]:
    """Yield the documents of an index that are kept now, and its settings; no key is needed."""
    with closing(connect(address)) as servers:
        meta = read_meta(servers)
        if meta is None or meta["loading"]:
            raise missing_index(address)
        documents = SharedDocuments(servers, Keyspace(address.name, int(meta["partitions"])))
        settings = IndexSettings.of_stored(meta, str(address))
        yield ListedDocuments(documents, (KEPT,), meta["identity"]), settings


def check_settings(
    address: RedisAddress,
    key: Key | None,
    options: dict[str, Any],
    keep_texts: bool | None,
    within: str | None,
    dimension: int | None = None,
) -> None:
    """Raise the errors of `OpenServers.open` that need no documents; write nothing."""
    with closing(connect(address)) as servers:
        check_configuration(servers, lambda _: None)
        meta = read_meta(servers)
        if meta is None:
            new_settings(
                None,
                key,
                options,
                keep_texts=keep_texts,
                within=within,
                dimension=dimension,
            )
            return
        settings = IndexSettings.of_stored(meta, str(address))
        others = require_vectors(settings.options, options, dimension)
        require_settings(str(address), settings, None, key, others, keep_texts, within)


@contextmanager
def new_index(address: RedisAddress, settings: IndexSettings) -> Iterator[SharedLoader]:
    """Make an index of what the block loads; no other process opens it before the block ends."""
    servers = connect(address)
    try:
        if not create_index(servers, settings, loading=True):
            raise UsageError(
                f"{address} holds an index: give another name (?name=NAME), or another address"
            )
        meta = read_meta(servers) or {}
        finish_creation(servers, meta)
        loader = SharedLoader(servers, meta)
        yield loader
        loader.finish()
    finally:
        servers.close()


class OpenServers:
    """An open index on servers. Usable in any thread."""

    def __init__(self, address: RedisAddress, generation: SharedGeneration) -> None:
        self.path, self.generation = str(address), generation
        self._closing, self._closed = threading.Lock(), False

    @classmethod
    def open(
        cls,
        address: RedisAddress,
        spec: Spec | None,
        key: Key | None,
        options: dict[str, Any],
        how: OpenOptions,
        *,
        keep_texts: bool | None,
        within: str | None,
        dimension: int | None,
        read_only: bool,
        replicas: int,
    ) -> OpenServers:
        """Open an index; make one if the servers have none of this name.

        Args:
            address: The servers and the name of the index.
            spec: The specification that the caller requires, or of a new index.
            key: The key of a keyed hash.
            options: The options that the caller requires, or of a new index.
            how: How the index works in this process.
            keep_texts: Whether texts are stored; None for no requirement.
            within: The column of the groups; None for none, or as the index has it.
            dimension: The numbers of a vector; None for none, or as the index has it.
            read_only: Only query it.
            replicas: The replicas that have to have a document before it is acknowledged.
        """
        servers = connect(address, replicas)
        try:
            check_configuration(servers, how.say)
            meta = read_meta(servers)
            if meta is None:
                if read_only:
                    raise missing_index(address)
                made = new_settings(
                    spec,
                    key,
                    options,
                    keep_texts=keep_texts,
                    within=within,
                    dimension=dimension,
                )
                create_index(servers, made)
                meta = read_meta(servers) or {}
            if meta["loading"]:
                raise IndexLocked(
                    f"{address} is being loaded from an exported file: wait until that is done, or "
                    "delete what is left of a load that failed (docs/cluster.md)"
                )
            if meta["unfinished"]:
                finish_creation(servers, meta)
            settings = IndexSettings.of_stored(meta, str(address))
            others = require_vectors(settings.options, options, dimension)
            require_settings(str(address), settings, spec, key, others, keep_texts, within)
            return cls(address, SharedGeneration(servers, meta, key, how, read_only=read_only))
        except BaseException:
            servers.close()
            raise

    @contextmanager
    def while_open(self) -> Iterator[SharedGeneration]:
        """Yield the generation."""
        if self._closed:
            raise UsageError(f"{self.path} is closed: open it again")
        yield self.generation

    def rebalance(self, address: RedisAddress, progress: Progress) -> Rebalanced:
        """Move the index to the servers of an address; see `rebalancing.py`."""
        with self.while_open() as generation:
            if address.name != generation.name:
                raise UsageError(
                    f"{address} has another name than {self.path}: give the same name, and the "
                    "servers that the index shall have"
                )
            return rebalance(address, generation.replicas, progress)

    def now(self) -> float:
        """Return the time that a document would get that is added now."""
        return float(self.generation.clock())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Finish queued requests, and close the connections."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self.generation.close()
