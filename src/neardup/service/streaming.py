"""Documents as a stream of JSON lines; the answers come back as lines while it goes on.

A group of lines is what has come in while the one before it was added, so memory is bounded and
a client that waits for each answer gets it. A line that is refused is answered by an error on
its line, and the stream goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import orjson
from fastapi import Response
from starlette.types import Receive, Scope, Send

from neardup.errors import Busy, NeardupError
from neardup.index.answer import Answer
from neardup.service.api_keys import WRITE
from neardup.service.bodies import LINES, lines
from neardup.service.calls import Call
from neardup.service.checking import check_document, checked, parsed
from neardup.service.error_responses import describe_error, error_name, too_large
from neardup.service.models import NewDocument
from neardup.service.writing import added

PAUSE: Final = 0.05
"""Seconds to wait when the index has no room: a stream is slowed down, not refused."""
STOPPED: Final = "the service is being stopped: send the rest to the next one"
Read = tuple[int, NewDocument | NeardupError]


class DocumentStream(Response):
    """Reads lines and sends answers, until the client has no more."""

    def __init__(self, call: Call, *, replace: bool) -> None:
        super().__init__(media_type=LINES)
        del self.headers["content-length"]
        self._call, self._replace = call, replace
        self._started = False
        self._line = 0
        call.record.streamed = True

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        settings = self._call.settings
        try:
            async for found in lines(receive, self._call.record.headers, settings, self._call.hold):
                for start in range(0, len(found), settings.batch):
                    if self._call.service.stopping():
                        raise Busy(STOPPED)
                    self._call.check_again(WRITE)
                    await self._answer(found[start : start + settings.batch], send)
            self._call.record.body_read = True
        except NeardupError as error:
            await self._end(send, error)
        except asyncio.CancelledError:  # It was silent for as long as a service that stops waits.
            await self._end(send, Busy(STOPPED))
        await self._start(send)
        await send({"type": "http.response.body", "body": b""})

    async def _end(self, send: Send, error: NeardupError) -> None:
        if not self._started:
            raise error
        self._call.record.error = error_name(error)
        await self._send(send, [self._refusal(self._line + 1, error)])

    async def _answer(self, found: list[bytes | None], send: Send) -> None:
        read = list(self._read(found))
        if not read:
            return
        self._call.charge(len(read))
        answers: list[dict[str, Any]] = []
        for kind, run in groupby(read, lambda each: _kind(each[1])):
            if kind is None:
                answers += [self._refusal(n, e) for n, e in run if isinstance(e, NeardupError)]
            else:
                answers += await self._add([(n, d) for n, d in run if isinstance(d, NewDocument)])
        await self._send(send, answers)
        await asyncio.sleep(self._call.debt())

    def _read(self, found: list[bytes | None]) -> Iterator[Read]:
        settings = self._call.settings
        for line in found:
            self._line += 1
            if line is not None and not line.strip():
                continue
            try:
                if line is None:
                    raise too_large("the line", settings.body_bytes, "bytes", "body_bytes")
                document = checked(NewDocument, parsed(line), settings)
                check_document(document, settings)
                yield self._line, document
            except NeardupError as error:
                yield self._line, error

    async def _add(self, run: list[tuple[int, NewDocument]]) -> list[dict[str, Any]]:
        """Add them together or, if one of them is refused, one by one."""
        try:
            answers = await self._added([document for _, document in run])
            return [_told(n, answer) for (n, _), answer in zip(run, answers, strict=True)]
        except NeardupError as error:
            if describe_error(error)[0] >= 500:
                raise
            if len(run) == 1:
                return [self._refusal(run[0][0], error)]
        return [told for each in run for told in await self._add([each])]

    async def _added(self, documents: list[NewDocument]) -> list[Answer]:
        while True:
            try:
                return await added(self._call, documents, self._replace)
            except Busy:
                await asyncio.sleep(PAUSE)

    def _refusal(self, line: int, error: NeardupError) -> dict[str, Any]:
        _, told, _ = describe_error(error)
        self._call.service.metrics.observe_rejected(told["error"])
        return {"line": line, **told}

    async def _send(self, send: Send, answers: list[dict[str, Any]]) -> None:
        await self._start(send)
        body = b"".join(orjson.dumps(each) + b"\n" for each in answers)
        await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _start(self, send: Send) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})


def _kind(read: NewDocument | NeardupError) -> bool | None:
    """What may be added together: texts, signatures; None is what is not added."""
    return None if isinstance(read, NeardupError) else read.signature is not None


def _told(line: int, answer: Answer) -> dict[str, Any]:
    return {"line": line, **orjson.loads(orjson.dumps(answer))}
