"""The routes of a shadow: another operating point, tried on the same traffic."""

from __future__ import annotations

from fastapi import Response

from neardup.service.calls import Call
from neardup.service.checking import checked
from neardup.service.error_responses import JsonResponse
from neardup.service.models import ShadowRequest


async def start(call: Call) -> Response:
    """Try another operating point beside the current one."""
    asked = checked(ShadowRequest, await call.json(), call.settings)
    pairs = [(one.a, one.b, one.duplicate) for one in asked.golden or ()]
    point = asked.model_dump(exclude_none=True, exclude={"golden"})
    await call.service.write(lambda index: index.shadow.start(golden=pairs, **point))
    return await report(call)


async def report(call: Call) -> Response:
    """How the shadow's answers differ from the current ones."""
    return JsonResponse(await call.service.read(lambda index: index.shadow.report().as_dict))


async def promote(call: Call) -> Response:
    """Let the shadow answer from now on."""
    return JsonResponse({"moved": await call.service.write(lambda index: index.shadow.promote())})


async def drop(call: Call) -> Response:
    """Forget the shadow."""
    await call.service.write(lambda index: index.shadow.drop())
    return Response(status_code=204)
