"""The files of ops/cluster and the page about them fit each other, and the command line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.redis_servers import redis_server

from neardup.cli import build_command
from neardup.index.index import Index
from neardup.index.redis_store import configuration
from neardup.index.redis_store.address import RedisAddress
from neardup.service.limits import ServiceLimits
from neardup.service.routes import router

ROOT = Path(__file__).parents[2]
FILES = ROOT / "ops/cluster"
PAGE = (ROOT / "docs/cluster.md").read_text("utf-8")
COMPOSE = yaml.safe_load((FILES / "compose.yaml").read_text("utf-8"))
MANIFESTS = {
    each["kind"]: each
    for each in yaml.safe_load_all((FILES / "kubernetes.yaml").read_text("utf-8"))
}
POD = MANIFESTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
BALANCER = (FILES / "haproxy.cfg").read_text("utf-8")
SERVICES = [name for name in COMPOSE["services"] if name.startswith("neardup")]


def parse_serve(command: list[str]) -> dict[str, Any]:
    """The parameters of `neardup serve`; an option that does not exist is an error."""
    assert command[0] == "serve"
    root = build_command("serve")
    parent = root.context_class(root, info_name="neardup")
    return root.commands["serve"].make_context("serve", command[1:], parent=parent).params


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (COMPOSE["services"]["neardup-1"]["command"], COMPOSE["x-service"]["environment"]),
        (CONTAINER["args"], {each["name"]: each["value"] for each in CONTAINER["env"]}),
    ],
    ids=["compose", "kubernetes"],
)
def test_services_are_started_with_options_that_exist(
    command: list[str], environment: dict[str, str]
) -> None:
    given = parse_serve(command)
    address = RedisAddress.parse(given["data"], {})
    assert address.name == "posts" and all("redis" in host for host, _ in address.servers)
    assert given["host"] == "0.0.0.0" and given["port"] == 8080
    ServiceLimits().with_limits(given["limit"] or ())
    names = {
        f"NEARDUP_SERVE_{option.lstrip('-').upper().replace('-', '_')}"
        for parameter in build_command("serve").commands["serve"].params
        for option in parameter.opts
    }
    others = {"NEARDUP_REDIS_USER", "NEARDUP_REDIS_PASSWORD_FILE"}
    assert set(environment) <= names | others


def test_all_services_of_compose_are_behind_the_balancer() -> None:
    assert len(SERVICES) == 3
    behind = re.findall(r"^    server (\S+) (\S+):8080$", BALANCER, re.MULTILINE)
    assert behind == [(name, name) for name in SERVICES]
    balancer = COMPOSE["services"]["balancer"]
    trusted = parse_serve(COMPOSE["services"]["neardup-1"]["command"])["proxy"]
    assert balancer["networks"]["default"]["ipv4_address"] == trusted
    assert "bind :8080" in BALANCER and balancer["depends_on"] == SERVICES
    for name in COMPOSE["services"]:
        used = {
            each.partition(":")[0]
            for each in COMPOSE["services"][name].get("volumes", [])
            if not each.startswith("./")
        }
        assert used <= set(COMPOSE["volumes"])
        assert set(COMPOSE["services"][name].get("secrets", [])) <= set(COMPOSE["secrets"])


def test_redis_of_compose_forgets_nothing() -> None:
    (command,) = COMPOSE["services"]["redis"]["command"][2:]
    assert "--appendonly yes" in command and "--maxmemory-policy noeviction" in command
    policy = re.search(r"--maxmemory-policy (\S+)", command)
    assert policy is not None and policy[1] not in configuration.EVICTING


def test_probes_and_checks_ask_for_routes() -> None:
    paths = {CONTAINER[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness")}
    paths |= {CONTAINER["readinessProbe"]["httpGet"]["path"], *re.findall(r"GET (/\S+)", BALANCER)}
    assert paths == {"/healthz", "/readyz"}
    assert paths <= {route.path for route in router.routes}


def test_parts_of_the_manifest_belong_together() -> None:
    labels = POD["metadata"]["labels"]
    assert MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (port,) = CONTAINER["ports"]
    assert MANIFESTS["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert port["containerPort"] == 8080
    mounted = {each["name"] for each in CONTAINER["volumeMounts"]}
    assert mounted == {each["name"] for each in POD["spec"]["volumes"]}
    folder = CONTAINER["volumeMounts"][0]["mountPath"]
    files = [each["value"] for each in CONTAINER["env"] if each["name"].endswith("_FILE")]
    assert all(file.startswith(f"{folder}/") for file in files)
    slack = POD["spec"]["terminationGracePeriodSeconds"]
    assert slack > ServiceLimits().shutdown_seconds + 5


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed")
def test_haproxy_accepts_the_balancer() -> None:
    command = ["haproxy", "-c", "-f", FILES / "haproxy.cfg"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["compose.yaml", "haproxy.cfg", "kubernetes.yaml"])
def test_files_are_on_the_page(name: str) -> None:
    assert f"ops/cluster/{name}" in PAGE


def test_user_of_the_page_may_do_all_that_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    (rule,) = re.findall(r"^ACL SETUSER .*$", PAGE, re.MULTILINE)
    with redis_server(tmp_path) as server:
        with redis.Redis(port=server.port) as client:
            assert client.execute_command(*rule.replace("PASSWORD", "geheim").split())
        monkeypatch.setenv("NEARDUP_REDIS_USER", "neardup")
        monkeypatch.setenv("NEARDUP_REDIS_PASSWORD", "geheim")
        with Index.open(f"{server.url}?name=posts", threshold=0.7) as index:
            text = "the quick brown fox jumps over the lazy dog and runs"
            answers = index.add_batch(["1", "2"], [text, text + " away"])
            assert answers[1].duplicate_of == "1"
            assert index.query(text).duplicate_of == "1"
            assert index.stats().documents == 2 and index.clusters().clusters
            index.ping()
            assert index.remove("1") and index.get("2").status == "new"
            assert index.repair() == [] == index.verify() and index.finish_removals() == 0
        with pytest.raises(Exception, match=r"docs/cluster\.md"):
            Index.open(f"{server.url}?name=others", threshold=0.7)


def test_user_of_the_page_may_rebalance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import redis

    (rule,) = re.findall(r"^ACL SETUSER .*$", PAGE, re.MULTILINE)
    (more,) = re.findall(r"^\+exists .*$", PAGE, re.MULTILINE)
    monkeypatch.setattr(configuration, "SYNC_SECONDS", 0.0)
    monkeypatch.setenv("NEARDUP_REDIS_USER", "neardup")
    monkeypatch.setenv("NEARDUP_REDIS_PASSWORD", "geheim")
    with redis_server(tmp_path) as first, redis_server(tmp_path, appendonly=False) as second:
        for server in (first, second):
            with redis.Redis(port=server.port) as client:
                words = f"{rule} {more}".replace("PASSWORD", "geheim").split()
                assert client.execute_command(*words)
                client.config_set("save", "3600 1")
        with Index.open(f"{first.url}?ring&name=posts", threshold=0.7) as index:
            text = "the quick brown fox jumps over the lazy dog and runs"
            index.add("1", text)
            assert index.rebalance(f"{first.url},{second.address}?ring&name=posts").moved > 10
            assert index.add("2", text).duplicate_of == "1"
            assert index.verify() == [] and index.now() > 0
