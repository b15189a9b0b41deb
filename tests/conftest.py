"""Settings of all tests; `support` is the package of what they share."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# Kernels compile on first use, which is slow and is no failure.
settings.register_profile(
    "neardup", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("neardup")
