"""The routes that change the index: add documents, one or many, or a stream of them; remove one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from fastapi import Response

from neardup.errors import Conflict
from neardup.index.answer import REJECTED, Answer
from neardup.index.planner import CONFLICT
from neardup.service.bodies import JSON, LINES
from neardup.service.calls import Call
from neardup.service.checking import check_document, checked
from neardup.service.error_responses import ERROR_NAMES, JsonResponse, Refusal, invalid
from neardup.service.models import NewDocument, NewDocuments, OneDocument
from neardup.service.reading import DOCUMENT
from neardup.service.signatures import sketch_of


async def add(call: Call) -> Response:
    """Check and add: one document, several together, or (as NDJSON) a stream of them.

    A document that is there already, with the same id and content, is not added again.
    """
    call.require_type(JSON, LINES)
    if call.content_type == LINES:
        from neardup.service.streaming import DocumentStream

        return DocumentStream(call, replace=call.flag("replace"))
    if call.request.query_params:
        raise invalid("a query is for streams: put replace into the JSON object")
    value = await call.json()
    if "documents" in value:
        return JsonResponse(
            {"answers": await add_many(call, checked(NewDocuments, value, call.settings))}
        )
    one = checked(OneDocument, value, call.settings)
    check_document(one, call.settings)
    call.charge(1)
    answer = (await added(call, [one], one.replace))[0]
    if answer.reason == CONFLICT:
        raise Conflict(CONFLICT)
    return JsonResponse(answer)


async def add_many(call: Call, given: NewDocuments) -> list[Answer]:
    for document in given.documents:
        check_document(document, call.settings)
    if len({document.signature is None for document in given.documents}) > 1:
        raise invalid("a batch has texts or signatures: send them in two batches")
    call.charge(len(given.documents))
    return await added(call, given.documents, given.replace)


async def added(call: Call, documents: Sequence[NewDocument], replace: bool) -> list[Answer]:
    """Add documents that all have a text, or all a signature."""
    answers = await _added(call, documents, replace)
    for answer in answers:
        if answer.status == REJECTED:
            reason = ERROR_NAMES[409] if answer.reason == CONFLICT else answer.reason
            call.service.metrics.observe_rejected(reason or REJECTED)
    return answers


async def _added(call: Call, documents: Sequence[NewDocument], replace: bool) -> list[Answer]:
    ids = [document.id or uuid.uuid4().hex for document in documents]
    about = [document.metadata for document in documents]
    signatures = [document.signature for document in documents if document.signature is not None]
    if signatures:
        sketch = sketch_of(signatures, call.service.index.spec)
        return await call.service.write(
            lambda index: index.add_sketches(ids, sketch, metadata=about, replace=replace)
        )
    texts = [document.text or "" for document in documents]
    return await call.service.add(
        lambda index: index.submit(ids, texts, metadata=about, replace=replace)
    )


async def remove(call: Call) -> Response:
    """Remove a document. Copies of it find another one to be a copy of, or are kept."""
    id = call.id_after(DOCUMENT)
    if not await call.service.write(lambda index: index.remove(id)):
        raise Refusal(404, "there is no document with this id")
    return Response(status_code=204)
