"""Services that share an index on Redis lose nothing, share their keys, and survive outages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import redis
from support.redis_servers import RedisServer, redis_server
from support.running import Running, running
from support.serving import key, serving, text

from neardup.errors import FormatError
from neardup.index.index import Index
from neardup.index.redis_store.address import RedisAddress
from neardup.service import servers_watch
from neardup.service.api_keys import ApiKeys
from neardup.service.limits import ServiceLimits
from neardup.service.shared_rates import SharedRates


@pytest.fixture
def server(single_redis: RedisServer) -> RedisServer:
    return single_redis


@pytest.fixture
def place(server: RedisServer, request: pytest.FixtureRequest) -> str:
    """The address of an index of its own."""
    return f"{server.url}?name={request.node.name[-40:]}"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services that look after their servers often."""
    monkeypatch.setattr(servers_watch, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(servers_watch, "PATIENCE_SECONDS", 0.2)


def wait_for(holds: Callable[[], bool], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_two_services_answer_from_one_index(place: str) -> None:
    with serving(place) as one, serving(place) as other:
        added = one.post("/v1/documents", json={"id": "a", "text": text(1)})
        assert added.json()["status"] == "new"
        assert "x-neardup-fingerprint" in added.headers
        assert "x-neardup-sequence" not in added.headers
        again = other.post("/v1/documents", json={"id": "b", "text": text(1)}).json()
        assert (again["status"], again["duplicate_of"]) == ("duplicate", "a")
        assert one.get("/v1/documents/b").json()["status"] == "duplicate"
        wait_for(lambda: one.get("/readyz").json() == {"status": "ready", "documents": 2})
        assert other.get("/v1/stats").json()["documents"] == 2
        assert "neardup_documents 2.0" in one.get("/metrics").text
        assert len(one.get("/v1/clusters").json()["clusters"]) == 1
        assert other.delete("/v1/documents/a").status_code == 204
        assert one.get("/v1/documents/b").json()["status"] == "new"
        refused = one.post("/v1/shadow/start", json={"threshold": 0.5})
        assert refused.status_code == 400
        assert "not supported for an index on Redis" in refused.json()["message"]


def test_keys_hold_for_all_services(place: str, quick: None) -> None:
    body = {"text": text(1)}
    with serving(place) as one, serving(place) as other:
        assert one.post("/v1/check", json=body).status_code == 200
        header = key(place, "read")
        for service in (one, other):
            wait_for(lambda s=service: s.post("/v1/check", json=body).status_code == 401)
            assert service.post("/v1/check", json=body, headers=header).status_code == 200
        ApiKeys(place).revoke("read")
        for service in (one, other):
            wait_for(
                lambda s=service: s.post("/v1/check", json=body, headers=header).status_code == 401
            )


def test_keys_are_stored_beside_the_index(place: str) -> None:
    keys = ApiKeys(place)
    assert not keys.guarded and keys.all() == []
    token = keys.add("a", ("read",), "2026-01-01")
    with pytest.raises(ValueError, match="exists already"):
        ApiKeys(place).add("a", ("read",), "2026-01-02")
    found = ApiKeys(place).find(token)
    assert found is not None and (found.name, found.scopes) == ("a", ("read",))
    with pytest.raises(ValueError, match="no key 'b': use one of a"):
        keys.revoke("b")
    keys.revoke("a")
    assert ApiKeys(place).guarded and ApiKeys(place).find(token) is None


def test_rates_hold_for_all_services(place: str, quick: None) -> None:
    limits = ServiceLimits(source_rate=2, burst_seconds=10)
    body = {"texts": [text(1), text(2)]}
    with serving(place, limits) as one, serving(place, limits) as other:
        for service in (one, other):  # both know this client
            assert service.post("/v1/check", json=body).status_code == 200
        time.sleep(0.3)
        answers = [one.post("/v1/check", json=body).status_code for _ in range(20)]
        assert 200 in answers and answers[-1] == 429
        wait_for(lambda: other.post("/v1/check", json={"text": ""}).status_code == 429, 5)


def test_rates_are_counted_by_client(place: str) -> None:
    address = RedisAddress.parse(place)
    one, other, a, b = SharedRates(address), SharedRates(address), ("key", "a"), ("key", "b")
    assert one.exchange({a: 5}, now=0.0) == {}
    assert other.exchange({a: 7, b: 1}, now=0.0) == {}
    assert one.exchange({a: 1}, now=1.0) == {a: 7}
    assert one.exchange({}, now=2.0) == {}
    assert other.exchange({}, now=2.0) == {a: 1}
    assert other.exchange({}, now=20.0) == {}
    assert one.exchange({b: 1}, now=20.0) == {}
    for rates in (one, other):
        rates.close()


def test_damaged_keys_admit_nobody(place: str, server: RedisServer) -> None:
    keys = ApiKeys(place)
    token = keys.add("a", ("read",), "2026-01-01")
    name = place.partition("name=")[2]
    with redis.Redis(port=server.port) as client:
        client.hset(f"{{{name}:c}}keys", "a", b"{")
    with pytest.raises(FormatError, match="damaged"):
        keys.refresh()
    assert keys.guarded and keys.find(token) is None


def test_outage_is_answered_at_once_and_ends_by_itself(tmp_path: Path, quick: None) -> None:
    starting = redis_server(tmp_path, appendfsync="always")  # what is answered survives
    with starting as server, serving(server.url) as client:
        document = {"id": "a", "text": text(1)}
        assert client.post("/v1/documents", json=document).status_code == 200
        server.kill()
        wait_for(lambda: client.get("/readyz").status_code == 503)
        begun = time.monotonic()
        refused = client.post("/v1/documents", json={"id": "b", "text": text(2)})
        assert refused.status_code == 503 and refused.json()["error"] == "servers_unavailable"
        assert "retry-after" in refused.headers
        assert "127.0.0.1" not in refused.json()["message"]
        assert "neardup_ready 0.0" in client.get("/metrics").text
        assert client.get("/healthz").status_code == 200
        assert time.monotonic() - begun < 5
        server.start()
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/documents", json=document).json()["again"]
        events = [line["event"] for line in client.logged]
        assert "servers_lost" in events and "servers_back" in events


def test_an_index_that_was_deleted_is_an_outage(place: str, quick: None) -> None:
    """A balancer sends requests to other services; keys that came back end it."""
    with serving(place) as client, redis.Redis.from_url(place.partition("?")[0]) as server:
        assert client.post("/v1/documents", json={"id": "a", "text": text(1)}).status_code == 200
        stored = {name: server.dump(name) for name in server.keys("*")}
        server.flushall()
        wait_for(lambda: client.get("/readyz").status_code == 503)
        assert client.post("/v1/check", json={"text": text(1)}).status_code == 503
        assert "neardup_ready 0.0" in client.get("/metrics").text
        for name, value in stored.items():
            server.restore(name, 0, value)
        wait_for(lambda: client.get("/readyz").json() == {"status": "ready", "documents": 1})
        lost = [line for line in client.logged if line["event"] == "servers_lost"]
        assert len(lost) == 1 and "deleted or replaced" in lost[0]["message"]


class Senders:
    """Clients that send documents to whichever service answers, as a balancer does."""

    def __init__(self, services: list[Running]) -> None:
        self.services, self.ended = services, threading.Event()
        self.acknowledged: dict[str, str] = {}

    def send(self, worker: int) -> None:
        """Send documents until `ended`; each until it is acknowledged."""
        turn = worker
        for number in range(100_000):
            body = {"id": f"{worker}-{number}", "text": text(number % 50)}
            answered = False
            while not answered:
                turn += 1
                service = self.services[turn % len(self.services)]
                answered = self._post(service, body)
            self.acknowledged[body["id"]] = body["text"]
            if self.ended.is_set():
                return

    def _post(self, service: Running, body: dict[str, str]) -> bool:
        try:
            answer = httpx.post(f"{service.url}/v1/documents", json=body, timeout=60)
        except httpx.TransportError:  # it is stopped just now
            time.sleep(0.01)
            return False
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200


def test_rolling_restart_loses_nothing(place: str, tmp_path: Path) -> None:
    with running(place, log=tmp_path / "a") as first, running(place, log=tmp_path / "b") as second:
        for service in (first, second):
            service.event("ready")
        senders = Senders([first, second])
        with ThreadPoolExecutor(4) as pool:
            sending = [pool.submit(senders.send, worker) for worker in range(4)]
            wait_for(lambda: len(senders.acknowledged) > 20)
            first.stop()
            before = len(senders.acknowledged)
            wait_for(lambda: len(senders.acknowledged) > before + 20)
            with running(place, log=tmp_path / "c") as third:
                third.event("ready")
                senders.services[0] = third
                before = len(senders.acknowledged)
                wait_for(lambda: len(senders.acknowledged) > before + 20)
                senders.ended.set()
                for each in sending:
                    each.result()
                documents = [{"id": id, "text": sent} for id, sent in senders.acknowledged.items()]
                body = {"documents": documents[:1_000]}
                again = httpx.post(f"{third.url}/v1/documents", json=body, timeout=60).json()
                assert all(answer["again"] for answer in again["answers"]), again
        with Index.open(place, read_only=True) as index:
            assert len(index) >= len(senders.acknowledged)
            assert index.verify() == []
            kept = [id for id in senders.acknowledged if index.get(id).status == "new"]
            assert len(kept) <= 50


def test_one_service_forgets_for_all(place: str, tmp_path: Path) -> None:
    options = ("--forget-older-than", "2s", "--forget-by", "seen")
    first = running(place, *options, log=tmp_path / "a")
    with first as one, running(place, *options, log=tmp_path / "b") as other:
        for service in (one, other):
            service.event("ready")
        for at in range(6):
            seen = {"seen": "2020-01-01" if at % 2 else "2120-01-01"}
            body = {"id": str(at), "text": text(0), "metadata": seen}
            assert httpx.post(f"{one.url}/v1/documents", json=body, timeout=60).status_code == 200
        gone = [f"{other.url}/v1/documents/{at}" for at in (1, 3, 5)]
        wait_for(lambda: all(httpx.get(url).status_code == 404 for url in gone))
        metrics = [httpx.get(f"{each.url}/metrics").text for each in (one, other)]
        counts = [text.partition("\nneardup_forgotten_total ")[2].split()[0] for text in metrics]
        assert sorted(map(float, counts)) == [0.0, 3.0]
        assert all("neardup_upkeep_failures_total 0.0" in text for text in metrics)
    with Index.open(place, read_only=True) as index:
        assert len(index) == 3 and index.verify() == []
