"""The routes of the service: each with its scope, its request model and its answer.

Answers are serialised by orjson without validation; the declared models describe them, and tests
compare both.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Path, Query, Response, Security

from neardup.errors import Conflict
from neardup.index.answer import (
    Answer,
    ClusterPage,
    ClusterWithTexts,
    Document,
    DocumentCluster,
    DocumentWithText,
    SignalAnswer,
    SignalDocument,
    SignalDocumentWithText,
)
from neardup.index.explain import Explanation
from neardup.index.index import Index
from neardup.index.planner import CONFLICT
from neardup.index.settings import stated
from neardup.service.access import require_scope
from neardup.service.api_keys import ADMIN, READ, TEXTS, WRITE
from neardup.service.bodies import NDJSON
from neardup.service.error_responses import ERROR_NAMES, JsonResponse, Refusal, invalid
from neardup.service.ingestion import DocumentStream, add_documents
from neardup.service.metrics import CONTENT_TYPE
from neardup.service.models import (
    AddRequest,
    AnswerList,
    CheckRequest,
    CheckSignature,
    CheckTexts,
    CheckVector,
    CheckVectors,
    ClusterNumber,
    ClusterOptions,
    DocumentOptions,
    ErrorBody,
    ExplainRequest,
    HealthStatus,
    IdText,
    NewDocuments,
    PageOptions,
    PromotionResult,
    RemovalRequest,
    RemovalResult,
    ServiceDescription,
    ShadowRequest,
    StreamOptions,
    make_sketch,
)
from neardup.service.service_route import (
    API_KEY,
    NdjsonRoute,
    ServiceRequest,
    ServiceRoute,
)
from neardup.service.start_page import HTML_TYPE, answer_start, make_start_page

router = APIRouter(route_class=ServiceRoute, generate_unique_id_function=lambda route: route.name)
PAGE_SIZE: Final = 100
"""Clusters of a page, unless the request has a limit."""
BODY_ERRORS: Final = (400, 408, 413, 415, 422)
OPEN_ERRORS: Final = (500, 503)
GUARDED_ERRORS: Final = (401, 403, 429, *OPEN_ERRORS)
REPLACE_SCHEMA: Final = StreamOptions.model_json_schema()["properties"]["replace"]
DocumentId = Annotated[
    IdText, Path(description="Percent-encoded UTF-8; slashes may stand as they are.")
]


def scope(name: str) -> Any:
    """Return the dependency that requires a scope of the API key."""
    return Security(API_KEY, scopes=[name])


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of error answers for the OpenAPI description."""
    return {
        status: {"model": ErrorBody, "description": ERROR_NAMES[status].replace("_", " ")}
        for status in sorted(statuses)
    }


@router.head("/", include_in_schema=False)
@router.get(
    "/",
    response_model=ServiceDescription,
    responses={
        **errors(*OPEN_ERRORS),
        200: {"content": {HTML_TYPE: {"schema": {"type": "string"}}}},
    },
)
async def start(request: ServiceRequest) -> Response:
    """What this service is: a page, or JSON for a client that prefers it."""
    return answer_start(request.headers.get("accept", ""), _start_page())


_start_page = cache(partial(make_start_page, router.routes))


@router.post(
    "/v1/check",
    dependencies=[scope(READ)],
    response_model=Answer | SignalAnswer | AnswerList,
    responses=errors(*GUARDED_ERRORS, *BODY_ERRORS, 409),
)
async def check(request: ServiceRequest, body: Annotated[CheckRequest, Body()]) -> Response:
    """Is a text, or are several, a copy of a document in the index? Nothing is added."""
    if isinstance(body, CheckVectors | CheckVector):
        return await _check_vectors(request, body)
    if isinstance(body, CheckTexts):
        texts = body.texts
        request.charge(len(texts))
        groups = body.within
        answers = await request.read(lambda index: index.query_batch(texts, within=groups))
        return JsonResponse({"answers": answers})
    if isinstance(body, CheckSignature):
        sketch, group = make_sketch([body.signature], request.service.index.spec), [body.within]
        request.charge(1)
        answers = await request.read(lambda index: index.query_sketches(sketch, within=group))
        return JsonResponse(answers[0])
    request.charge(1)
    return JsonResponse(await request.service.check(request.record.party, body.text, body.within))


async def _check_vectors(request: ServiceRequest, body: CheckVectors | CheckVector) -> Response:
    """Answer about documents with vectors."""
    if isinstance(body, CheckVectors):
        vectors, texts, groups = body.vectors, body.texts, body.within
        request.charge(len(vectors))
        answers = await request.read(
            lambda index: index.query_batch(texts, vectors=vectors, within=groups)
        )
        return JsonResponse({"answers": answers})
    vector, text, group = body.vector, body.text, body.within
    request.charge(1)
    answer = await request.read(lambda index: index.query(text, vector=vector, within=group))
    return JsonResponse(answer)


@router.post(
    "/v1/explain",
    dependencies=[scope(READ)],
    response_model=Explanation,
    responses=errors(*GUARDED_ERRORS, *BODY_ERRORS),
)
async def explain(request: ServiceRequest, body: Annotated[ExplainRequest, Body()]) -> Response:
    """How the answer to a text comes about, step by step. Nothing is added."""
    text, vector = body.text, body.vector if isinstance(body, CheckVector) else None
    group = body.within
    request.charge(1)
    explained = await request.read(
        lambda index: index.explain(text, vector=vector, within=group).as_dict
    )
    return JsonResponse(explained)


async def add_stream(
    request: ServiceRequest, options: Annotated[StreamOptions, Query()]
) -> Response:
    """Check and add a stream of documents, one a line."""
    request.service.gate.enter_stream(request.record)
    return DocumentStream(request, replace=options.replace)


router.add_api_route(
    "/v1/documents",
    add_stream,
    methods=["POST"],
    dependencies=[scope(WRITE)],
    route_class_override=NdjsonRoute,
    include_in_schema=False,  # The route below describes both: OpenAPI has one operation a path.
)


@router.post(
    "/v1/documents",
    dependencies=[scope(WRITE)],
    response_model=Answer | SignalAnswer | AnswerList,
    responses={
        **errors(*GUARDED_ERRORS, *BODY_ERRORS, 409, 507),
        200: {"content": {NDJSON: {"schema": {"type": "string"}}}},
    },
    openapi_extra={
        "requestBody": {"content": {NDJSON: {"schema": {"type": "string"}}}},
        "parameters": [{"name": "replace", "in": "query", "schema": REPLACE_SCHEMA}],
    },
)
async def add(request: ServiceRequest, body: Annotated[AddRequest, Body()]) -> Response:
    """Check and add: one document, several together, or (as NDJSON) a stream of them.

    A document that is stored already, with the same id and content, is not added again.
    """
    if isinstance(body, NewDocuments):
        request.charge(len(body.documents))
        answers = await add_documents(request, body.documents, body.replace)
        return JsonResponse({"answers": answers})
    request.charge(1)
    answer = (await add_documents(request, [body], body.replace))[0]
    if answer.reason == CONFLICT:
        raise Conflict(CONFLICT)
    return JsonResponse(answer)


@router.get(
    "/v1/documents/{id:any}",
    dependencies=[scope(READ)],
    response_model=Document | SignalDocument | DocumentWithText | SignalDocumentWithText,
    responses=errors(*GUARDED_ERRORS, 404, 422),
)
async def document(
    request: ServiceRequest, id: DocumentId, options: Annotated[DocumentOptions, Query()]
) -> Response:
    """Get a document: its status, cluster and metadata, and its text if that is stored."""
    found: Document | None
    if options.text:
        require_scope(request.record, TEXTS)
        found = await request.read(lambda index: index.get(id, text=True))
    else:
        found = await request.read(lambda index: index.get(id))
    if found is None:
        raise Refusal(404, "there is no document with this id")
    return JsonResponse(found)


@router.delete(
    "/v1/documents/{id:any}",
    dependencies=[scope(WRITE)],
    status_code=204,
    responses=errors(*GUARDED_ERRORS, 404, 422, 507),
)
async def remove(request: ServiceRequest, id: DocumentId) -> Response:
    """Remove a document. Copies of it find another one to be a copy of, or are kept."""
    if not (await request.remove([id]))[0]:
        raise Refusal(404, "there is no document with this id")
    request.service.audit(request.record, "removed", [id])
    return Response(status_code=204)


@router.post(
    "/v1/documents/delete",
    dependencies=[scope(WRITE)],
    response_model=RemovalResult,
    responses=errors(*GUARDED_ERRORS, *BODY_ERRORS, 507),
)
async def remove_many(request: ServiceRequest, body: RemovalRequest) -> Response:
    """Remove many documents. Copies of them are judged again once, without any of them.

    Ids that no document has are listed, and no error.
    """
    request.charge(len(body.ids))
    removed = await request.remove(body.ids)
    missing = [id for id, done in zip(body.ids, removed, strict=True) if not done]
    gone = [id for id, done in zip(body.ids, removed, strict=True) if done]
    request.service.audit(request.record, "removed", gone)
    return JsonResponse({"removed": sum(removed), "missing": missing})


@router.get(
    "/v1/clusters",
    dependencies=[scope(READ)],
    response_model=ClusterPage,
    responses=errors(*GUARDED_ERRORS, 422),
)
async def clusters(request: ServiceRequest, options: Annotated[PageOptions, Query()]) -> Response:
    """The clusters of two or more documents, largest first, in pages."""
    most = request.limits.clusters
    limit = min(PAGE_SIZE, most) if options.limit is None else options.limit
    if limit > most:
        raise invalid(f"limit: a page has at most {most} clusters: ask for the next pages")
    found = await request.scan(lambda index: index.clusters(limit, after=options.after))
    return JsonResponse(found)


@router.get(
    "/v1/clusters/{number}",
    dependencies=[scope(READ)],
    response_model=DocumentCluster | ClusterWithTexts,
    responses=errors(*GUARDED_ERRORS, 404, 422),
)
async def cluster(
    request: ServiceRequest,
    number: Annotated[ClusterNumber, Path()],
    options: Annotated[ClusterOptions, Query()],
) -> Response:
    """A kept document, and those that are copies of it, in the order in which they came."""
    most, after = request.limits.members, options.after
    found: DocumentCluster | ClusterWithTexts | None
    if options.text:
        require_scope(request.record, TEXTS)
        room = request.limits.cluster_text_bytes
        found = await request.read(
            lambda index: index.cluster(number, most=most, after=after, text=True, text_bytes=room)
        )
    else:
        found = await request.read(lambda index: index.cluster(number, most=most, after=after))
    if found is None:
        raise Refusal(404, "there is no cluster with this number: GET /v1/documents/ID has it")
    return JsonResponse(found)


@router.post(
    "/v1/shadow/start",
    dependencies=[scope(ADMIN)],
    response_model=dict[str, Any],
    responses=errors(*GUARDED_ERRORS, *BODY_ERRORS),
)
async def start_shadow(request: ServiceRequest, body: ShadowRequest) -> Response:
    """Try another operating point beside the current one."""
    pairs = [(pair.a, pair.b, pair.duplicate) for pair in body.golden or ()]
    point = body.model_dump(exclude_none=True, exclude={"golden"})
    await request.write(lambda index: index.shadow.start(golden=pairs, **point))
    return await report_shadow(request)


@router.get(
    "/v1/shadow/report",
    dependencies=[scope(ADMIN)],
    response_model=dict[str, Any],
    responses=errors(*GUARDED_ERRORS, 400),
)
async def report_shadow(request: ServiceRequest) -> Response:
    """How the shadow's answers differ from the current ones."""
    return JsonResponse(await request.read(lambda index: index.shadow.report().as_dict))


@router.post(
    "/v1/shadow/promote",
    dependencies=[scope(ADMIN)],
    response_model=PromotionResult,
    responses=errors(*GUARDED_ERRORS, 400, 507),
)
async def promote_shadow(request: ServiceRequest) -> Response:
    """Let the shadow answer from now on."""
    moved = await request.write(lambda index: index.shadow.promote())
    return JsonResponse({"moved": moved})


@router.post(
    "/v1/shadow/drop",
    dependencies=[scope(ADMIN)],
    status_code=204,
    responses=errors(*GUARDED_ERRORS, 400),
)
async def drop_shadow(request: ServiceRequest) -> Response:
    """Forget the shadow."""
    await request.write(lambda index: index.shadow.drop())
    return Response(status_code=204)


@router.get(
    "/v1/stats",
    dependencies=[scope(READ)],
    response_model=dict[str, Any],
    responses=errors(*GUARDED_ERRORS),
)
async def stats(request: ServiceRequest) -> Response:
    """How many documents there are, in how much memory, and the specification of the index."""
    return JsonResponse(await request.scan(_describe_index))


def _describe_index(index: Index) -> dict[str, Any]:
    return {
        "fingerprint": index.spec.fingerprint,
        "spec": index.spec.stated,
        "parameters": stated(index.options),
        **index.stats().as_dict,
    }


@router.get(
    "/metrics",
    dependencies=[scope(READ)],
    response_class=Response,
    responses={
        **errors(*GUARDED_ERRORS),
        200: {"content": {CONTENT_TYPE.partition(";")[0]: {"schema": {"type": "string"}}}},
    },
)
async def metrics(request: ServiceRequest) -> Response:
    """Counts, times and sizes, for Prometheus."""
    return Response(await request.service.render_metrics(), media_type=CONTENT_TYPE)


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=HealthStatus, responses=errors(*OPEN_ERRORS))
async def health(_: ServiceRequest) -> Response:
    """Whether the process answers."""
    return JsonResponse({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model=HealthStatus, responses=errors(*OPEN_ERRORS))
async def ready(request: ServiceRequest) -> Response:
    """Whether the index is loaded, and its servers answer if it is on Redis."""
    documents = request.service.count_documents()
    return JsonResponse({"status": "ready", "documents": documents})
