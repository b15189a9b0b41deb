"""Adding documents: those of one request, or a stream of JSON lines.

Answers to a stream are sent as lines while it is read. The lines that arrive while one group is
added form the next group, so that memory is bounded, and a client may wait for each answer.
A refused line is answered by an error with its line number, and the stream continues.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi import Response
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from neardup.errors import Busy, NeardupError
from neardup.index.answer import REJECTED, Answer
from neardup.index.planner import CONFLICT
from neardup.service.api_keys import WRITE
from neardup.service.bodies import NDJSON, parse_json, read_lines
from neardup.service.error_responses import (
    ERROR_NAMES,
    describe_error,
    error_name,
    too_large,
    validation_refusal,
)
from neardup.service.models import NewDocument, make_sketch

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.limits import ServiceLimits
    from neardup.service.service_route import ServiceRequest

PAUSE: Final = 0.05
"""Seconds to wait when the queue of the index is full: a stream is slowed down, not refused."""
STOPPED: Final = "the service is being stopped: send the rest to the next one"
NumberedLine = tuple[int, NewDocument | NeardupError]


async def add_documents(
    request: ServiceRequest, documents: Sequence[NewDocument], replace: bool
) -> list[Answer]:
    """Add documents, and count the rejected ones.

    Args:
        request: the request that has sent them.
        documents: all with a text or a vector, or all with a signature. One without an id gets a
            random id.
        replace: whether they replace documents with the same ids.
    """
    service = request.service
    ids = [document.id or uuid.uuid4().hex for document in documents]
    metadata = [document.metadata for document in documents]
    groups = [document.within for document in documents]
    signatures = [document.signature for document in documents if document.signature is not None]
    if signatures:
        sketch = make_sketch(signatures, service.index.spec)
        answers = await request.write(
            lambda index: index.add_sketches(
                ids, sketch, metadata=metadata, replace=replace, within=groups
            )
        )
    else:
        texts, vectors = _texts(documents), _vectors(documents, service.index)
        answers = await service.add(
            request.record.party,
            len(ids),
            lambda index: index.submit(
                ids, texts, vectors=vectors, metadata=metadata, replace=replace, within=groups
            ),
        )
    for answer in answers:
        if answer.status == REJECTED:
            reason = ERROR_NAMES[409] if answer.reason == CONFLICT else answer.reason
            service.metrics.observe_rejected(reason or REJECTED)
    stored = [id for id, each in zip(ids, answers, strict=True) if _is_stored(each)]
    service.audit(request.record, "added", stored)
    return answers


def _texts(documents: Sequence[NewDocument]) -> Sequence[str] | None:
    """Return the texts of documents; None if these are their vectors alone."""
    texts = [document.text for document in documents]
    return None if all(text is None for text in texts) else texts  # type: ignore[return-value]


def _vectors(documents: Sequence[NewDocument], index: Index) -> list[list[float] | None] | None:
    """Return the vectors of documents; None if neither these nor the index has any."""
    vectors = [document.vector for document in documents]
    if index.options.vectors is None and all(vector is None for vector in vectors):
        return None
    return vectors


def _is_stored(answer: Answer) -> bool:
    return answer.status != REJECTED and not answer.again


class DocumentStream(Response):
    """Reads lines and sends answers until the body ends.

    Args:
        request: the request whose body is the stream.
        replace: whether documents replace those with the same ids.
    """

    def __init__(self, request: ServiceRequest, *, replace: bool) -> None:
        super().__init__(media_type=NDJSON)
        del self.headers["content-length"]
        self._request, self._replace = request, replace
        self._started = False
        self._line = 0
        request.record.streamed = True

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        request, limits = self._request, self._request.limits
        try:
            headers = request.record.headers
            async for lines in read_lines(
                receive, headers, limits, request.hold, request.charge_bytes
            ):
                for start in range(0, len(lines) or 1, limits.batch):
                    if request.service.stopping():
                        raise Busy(STOPPED)
                    request.check_key_again(WRITE)
                    await self._answer(lines[start : start + limits.batch], send)
                    await asyncio.sleep(request.wait_seconds())
            request.record.body_read = True
        except NeardupError as error:
            await self._end(send, error)
        except asyncio.CancelledError:  # The client was silent until the service had to stop.
            await self._end(send, Busy(STOPPED))
        await self._start(send)
        await send({"type": "http.response.body", "body": b""})

    async def _end(self, send: Send, error: NeardupError) -> None:
        if not self._started:
            raise error
        self._request.record.error = error_name(error)
        await self._send(send, [self._refuse_line(self._line + 1, error)])

    async def _answer(self, lines: list[bytes | None], send: Send) -> None:
        parsed = list(self._parse(lines))
        self._request.charge(len(parsed), empty_lines=len(lines) - len(parsed))
        if not parsed:
            return
        answers: list[dict[str, Any]] = []
        for kind, run in groupby(parsed, lambda line: _kind(line[1])):
            if kind is None:
                answers += [self._refuse_line(n, e) for n, e in run if isinstance(e, NeardupError)]
            else:
                answers += await self._add([(n, d) for n, d in run if isinstance(d, NewDocument)])
        await self._send(send, answers)

    def _parse(self, lines: list[bytes | None]) -> Iterator[NumberedLine]:
        for line in lines:
            self._line += 1
            if line is not None and not line.strip():
                continue
            try:
                yield self._line, _parse_document(line, self._request.limits)
            except NeardupError as error:
                yield self._line, error

    async def _add(self, run: list[tuple[int, NewDocument]]) -> list[dict[str, Any]]:
        """Add the documents together or, if one of them is refused, one by one."""
        try:
            answers = await self._add_patiently([document for _, document in run])
            return [_number_answer(n, answer) for (n, _), answer in zip(run, answers, strict=True)]
        except NeardupError as error:
            if describe_error(error)[0] >= 500:
                raise
            if len(run) == 1:
                return [self._refuse_line(run[0][0], error)]
        return [answer for line in run for answer in await self._add([line])]

    async def _add_patiently(self, documents: list[NewDocument]) -> list[Answer]:
        while True:
            try:
                return await add_documents(self._request, documents, self._replace)
            except Busy:
                await asyncio.sleep(PAUSE)

    def _refuse_line(self, line: int, error: NeardupError) -> dict[str, Any]:
        _, body, _ = describe_error(error)
        self._request.service.metrics.observe_rejected(body["error"])
        return {"line": line, **body}

    async def _send(self, send: Send, answers: list[dict[str, Any]]) -> None:
        await self._start(send)
        body = b"".join(orjson.dumps(answer) + b"\n" for answer in answers)
        await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _start(self, send: Send) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})


def _parse_document(line: bytes | None, limits: ServiceLimits) -> NewDocument:
    if line is None:
        raise too_large("the line", limits.body_bytes, "bytes", "body_bytes")
    try:
        return NewDocument.model_validate(parse_json(line, limits))
    except ValidationError as error:
        raise validation_refusal(
            error.errors(include_url=False, include_input=False, include_context=False),
            fields=NewDocument.model_fields,
        ) from None


def _kind(parsed: NewDocument | NeardupError) -> bool | None:
    """Return whether a line has a signature; None if it is an error.

    Only lines of one kind are added together.
    """
    return None if isinstance(parsed, NeardupError) else parsed.signature is not None


def _number_answer(line: int, answer: Answer) -> dict[str, Any]:
    return {"line": line, **orjson.loads(orjson.dumps(answer))}
