"""Limits of the service, as --limit sets them."""

from __future__ import annotations

import pytest

from neardup.errors import ParameterError
from neardup.service.limits import ServiceLimits


def test_settings_change_only_the_named_limits() -> None:
    limits = ServiceLimits().with_limits(["batch=7", "key_rate=0"])
    assert (limits.batch, limits.key_rate) == (7, 0)
    assert limits.requests == ServiceLimits().requests


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("bach=7", "unknown limit 'bach': use body_bytes, batch"),
        ("batch", "whole number, as in batch=100"),
        ("batch=-1", "whole number"),
        ("batch=1e3", "whole number"),
        ("batch=0", "batch must be at least 1, not 0"),
    ],
)
def test_invalid_setting_is_refused_with_the_cure(setting: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ServiceLimits().with_limits([setting])
