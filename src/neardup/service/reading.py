"""The routes that read: is this a copy, what is this document, what is in its cluster?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import Response

from neardup.index.settings import stated
from neardup.service.calls import Call
from neardup.service.checking import check_text, checked
from neardup.service.error_responses import JsonResponse, Refusal
from neardup.service.metrics import CONTENT_TYPE
from neardup.service.models import CheckSignature, CheckText, CheckTexts
from neardup.service.signatures import sketch_of

if TYPE_CHECKING:
    from neardup.index.index import Index

DOCUMENT = "/v1/documents/"


async def check(call: Call) -> Response:
    """Is a text, or are several, a copy of a document in the index? Nothing is added."""
    value = await call.json()
    if "texts" in value:
        return await check_texts(call, checked(CheckTexts, value, call.settings))
    if "signature" in value:
        return await check_signature(call, checked(CheckSignature, value, call.settings))
    asked = checked(CheckText, value, call.settings)
    check_text(asked.text, call.settings)
    call.charge(1)
    return JsonResponse(await call.service.check(asked.text))


async def check_texts(call: Call, asked: CheckTexts) -> Response:
    for text in asked.texts:
        check_text(text, call.settings)
    call.charge(len(asked.texts))
    answers = await call.service.read(lambda index: index.query_batch(asked.texts))
    return JsonResponse({"answers": answers})


async def check_signature(call: Call, asked: CheckSignature) -> Response:
    sketch = sketch_of([asked.signature], call.service.index.spec)
    call.charge(1)
    return JsonResponse((await call.service.read(lambda index: index.query_sketches(sketch)))[0])


async def explain(call: Call) -> Response:
    """How the answer to a text comes about, step by step. Nothing is added."""
    asked = checked(CheckText, await call.json(), call.settings)
    check_text(asked.text, call.settings)
    call.charge(1)
    return JsonResponse(await call.service.read(lambda index: index.explain(asked.text)))


async def document(call: Call) -> Response:
    """What is known of a document: its status, its cluster, its metadata."""
    id = call.id_after(DOCUMENT)
    found = await call.service.read(lambda index: index.get(id))
    if found is None:
        raise Refusal(404, "there is no document with this id")
    return JsonResponse(found)


async def cluster(call: Call) -> Response:
    """A kept document, and those that are copies of it, in the order in which they came."""
    number = call.number()
    found = await call.service.read(lambda index: index.cluster(number))
    if found is None:
        raise Refusal(404, "there is no cluster with this number: documents name theirs")
    shown = {"number": found.number, "size": found.size, "representative": found.representative}
    return JsonResponse({**shown, "members": found.members[: call.settings.members]})


async def stats(call: Call) -> Response:
    """How many documents there are, in how much memory, and the specification of the index."""
    return JsonResponse(await call.service.read(described))


def described(index: Index) -> dict[str, Any]:
    spec, point = index.spec, stated(index.options)
    said = {"fingerprint": spec.fingerprint, "spec": spec.stated, "parameters": point}
    return {**said, **index.stats().as_dict}


async def health(_: Call) -> Response:
    """Whether the process answers."""
    return JsonResponse({"status": "ok"})


async def ready(call: Call) -> Response:
    """Whether the index is loaded."""
    return JsonResponse({"status": "ready", "documents": len(call.service.index)})


async def metrics(call: Call) -> Response:
    """Counts, times and sizes, for Prometheus."""
    content = await call.service.apart(call.service.metrics.render)
    return Response(content, media_type=CONTENT_TYPE)
