"""Alerts, dashboard and runbook speak of what there is: metrics, sections, requests."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from neardup.evaluation.scores import Scores
from neardup.index.index import Index
from neardup.service.metrics import WATCHED, Metrics
from neardup.service.routes import router

ROOT = Path(__file__).parents[2]
ALERTS = yaml.safe_load((ROOT / "ops/alerts.yml").read_text("utf-8"))
RULES = {rule["alert"]: rule for group in ALERTS["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((ROOT / "ops/dashboard.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RUNBOOK = (ROOT / "docs/runbook.md").read_text("utf-8")
FROM_PROMETHEUS = {"up"}
PROMTOOL = shutil.which("promtool") or shutil.which(ROOT / ".venv/promtool/usr/bin/promtool")
SEVEN = {
    "candidate_pairs_per_doc": "> 50",
    "bucket_size_p99": "> 1e4",
    "recall_on_labeled_set": "< 0.95",
    "index_memory_bytes": "> 0.8 * neardup_memory_budget_bytes",
    "signature_build_latency_p99": "> neardup_signature_budget_seconds",
    "verify_drop_rate": "- avg_over_time(verify_drop_rate[1d] offset 1h) > 0.2",
    "empty_bin_rate": "- avg_over_time(empty_bin_rate[1d] offset 1h) > 0.05",
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """What /metrics of a busy service has."""
    with Index.open(tmp_path_factory.mktemp("ops") / "index", memory="1 GB") as index:
        index.add_batch(["1", "2"], ["a text of some words here", "A text of some words here too"])
        metrics = Metrics(index.stats)
        metrics.observe_request("/v1/check", "POST", 200, 0.01)
        metrics.observe_rejected("busy")
        metrics.watch_places(requests=lambda: 1)
        metrics.observe_upkeep()
        metrics.expect_golden(600.0)
        metrics.observe_golden({"texts": Scores(1, 1, 1, 1)})
        families = text_string_to_metric_families(metrics.render().decode())
        return {sample.name for family in families for sample in family.samples}


def metrics_in(expression: str) -> set[str]:
    """The metrics that an expression of PromQL speaks of."""
    plain = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', "", expression)
    plain = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", plain)
    words = re.findall(r"[a-zA-Z_:][\w:]*(?!\w*\s*\()", re.sub(r"\b\d[\w.]*", "", plain))
    return set(words) - {"offset", "and", "or", "unless", "by"} - FROM_PROMETHEUS


def test_metrics_in_extracts_the_names_of_an_expression():
    found = metrics_in('sum by (le) (rate(a_total{x="b"}[5m])) / c > 1e4 * d offset 1h')
    assert found == {"a_total", "c", "d"}


def test_alerts_use_existing_metrics(samples):
    for name, rule in RULES.items():
        assert metrics_in(rule["expr"]) <= samples, name
    assert set(SEVEN) <= set().union(*(metrics_in(rule["expr"]) for rule in RULES.values()))


def test_reasons_used_by_alerts_are_exported_from_zero():
    looked_at = re.findall(r'reason=~?"([^"]+)"', "".join(rule["expr"] for rule in RULES.values()))
    assert {reason for each in looked_at for reason in each.split("|")} == set(WATCHED)


def test_alert_thresholds_of_the_unprefixed_metrics():
    expressions = {rule["expr"] for rule in RULES.values()}
    for metric, threshold in SEVEN.items():
        assert f"{metric} {threshold}" in expressions


def test_alerts_have_a_severity_and_a_runbook_section():
    sections = {
        line.lstrip("# ").lower() for line in RUNBOOK.splitlines() if line.startswith("###")
    }
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{name.lower()}"
        assert name.lower() in sections, name


@pytest.mark.skipif(
    PROMTOOL is None,
    reason="ALERTS ARE NOT TESTED: no promtool, of Debian's package prometheus (make setup)",
)
@pytest.mark.parametrize("command", [("check", "alerts.yml"), ("test", "alerts_test.yml")])
def test_promtool_accepts_the_alerts(command):
    what, file = command
    done = subprocess.run(
        [PROMTOOL, what, "rules", ROOT / "ops" / file], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_uses_existing_metrics(samples):
    for panel in PANELS:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert metrics_in(target["expr"]) <= samples, panel["title"]
            assert 'instance=~"$instance"' in target["expr"]
    shown = set().union(*(metrics_in(t["expr"]) for panel in PANELS for t in panel["targets"]))
    assert set(SEVEN) <= shown


def test_dashboard_rows_and_data_source():
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Traffic", "Latency", "Quality", "Buckets", "Memory", "Durability"]
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus" and "instance" in variables
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert all(panel["datasource"] == source for panel in PANELS)
    assert all(target["datasource"] == source for panel in PANELS for target in panel["targets"])
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_dashboard_panels_do_not_overlap():
    for one, other in combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart and one["x"] + one["w"] <= 24


def test_runbook_names_existing_metrics(samples):
    bases = {re.sub("_(bucket|sum|count)$", "", name) for name in samples}
    named = set(re.findall(r"\b(neardup_\w+)", RUNBOOK))
    named |= {word for word in re.findall(r"`(\w+)[`{]", RUNBOOK) if word in SEVEN}
    assert named <= samples | bases
    assert set(SEVEN) <= named


def test_runbook_links_resolve():
    titles = re.findall(r"^#+ (.*)$", RUNBOOK, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    links = re.findall(r"\]\(#([^)]*)\)", RUNBOOK)
    assert len(links) > 10 and set(links) <= anchors


def test_runbook_requests_match_routes_and_models():
    asked = re.findall(r"ask (?:-X (\w+) )?\$URL(/[\w/]+)(?: -d '([^']*)')?", RUNBOOK)
    assert len(asked) > 10
    for method, path, body in asked:
        wanted = method or ("POST" if body else "GET")
        (route,) = (
            route
            for route in router.routes
            if wanted in route.methods and route.path_regex.match(path) and route.include_in_schema
        )
        if body:
            _, errors = route.body_field.validate(json.loads(body), {}, loc=("body",))
            assert not errors, body
