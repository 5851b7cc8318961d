"""The load generator of `neaptide bench serve`: its arrivals, its tail, and that it waits for nobody."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from benchmarks import _serve_load as load
from benchmarks import _serve_simulated as virtual

from tides import tide


def test_a_round_knows_when_the_last_late_request_was_due() -> None:
    seen = virtual.Round(((1.0, 0.2), (2.0, 0.5), (3.0, 0.1), (math.nan, math.inf)), 1.0)
    assert seen.last_late(0.3) == 2.0
    assert virtual.Round((), 1.0).last_late(0.3) == 0.0


def test_a_simulated_round_has_the_programs_work_of_a_request_and_what_it_leaves_of_the_training() -> None:
    served, trained = tide("server", 4, 0.010, 1, 1), tide("training", 10, 0.001, 1, 1)
    programs = virtual.Programs(served=served, trained=trained, service_seconds=served.seconds + 0.005, sms=1)
    setting = virtual.Setting(name="latency-critical", latency_critical=True)
    times = [0.1 * index for index in range(20)]
    seen = programs.run(setting, 1.0, times, 0.0, 2.0)
    assert seen.latencies == pytest.approx([served.seconds + 0.005] * 20, abs=trained.ops.seconds.max() + 1e-3)
    assert seen.rate == pytest.approx(1 - (served.seconds + 0.005) / 0.1, abs=0.1)


def test_a_tail_knows_its_percentiles_to_a_per_cent_and_adds_up() -> None:
    low, high = load.Tail([n / 1000 for n in range(1, 501)]), load.Tail([n / 1000 for n in range(501, 1001)])
    both = low + high
    assert both.count == 1000
    for share in (0.5, 0.9, 0.99, 0.999):
        assert both.percentile(share) == pytest.approx(share, rel=0.01)
    assert load.Tail([0.1, math.inf]).percentile(0.99) > 1e5
    assert math.isnan(load.Tail().percentile(0.5))


def test_poisson_arrivals_have_their_rate_and_are_the_same_for_one_seed() -> None:
    times = load.poisson(50.0, 100.0, 3)
    assert times == load.poisson(50.0, 100.0, 3) != load.poisson(50.0, 100.0, 4)
    assert times == sorted(times)
    assert len(times) == pytest.approx(5000, rel=0.1)


def test_a_burst_comes_on_top() -> None:
    times = load.burst(20.0, 30.0, 10.0, 2.0, 10.0, 3)
    assert sum(10 <= each < 12 for each in times) == pytest.approx(400, rel=0.2)
    assert sum(each < 10 for each in times) == pytest.approx(200, rel=0.3)


def test_a_trace_with_azures_columns_is_replayed_at_another_rate(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = [f"2023-11-16 18:15:4{second}.6805900,374,44" for second in (0, 1, 3)]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    assert load.replayed(path, 2.0, 10.0) == pytest.approx([0.0, 1 / 3, 1.0])
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    with pytest.raises(ValueError, match="too few requests"):
        load.replayed(path, 2.0, 10.0)


def test_requests_are_sent_although_earlier_ones_are_not_answered_and_count_from_when_they_were_due() -> None:
    """The server answers nothing before all requests have come."""

    async def run() -> tuple[list[tuple[float, float]], int]:
        seen, all_here = 0, asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal seen
            await reader.readuntil(b"\r\n\r\n")
            seen += 1
            if seen == 5:
                all_here.set()
            await all_here.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await load.offer(port, [0.0, 0.01, 0.02, 0.03, 0.2], 60.0), seen

    answers, came = asyncio.run(run())
    assert came == 5
    assert [due for due, _ in sorted(answers)] == [0.0, 0.01, 0.02, 0.03, 0.2]
    assert min(took for due, took in answers if due < 0.1) >= 0.17


def test_a_request_that_is_refused_counts_as_never_answered() -> None:
    async def run() -> list[tuple[float, float]]:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            return await load.offer(server.sockets[0].getsockname()[1], [0.0], 60.0)

    assert asyncio.run(run()) == [(0.0, math.inf)]
