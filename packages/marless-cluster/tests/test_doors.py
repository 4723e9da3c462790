"""The machines that have joined a driver, and the strangers at its door."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from marless.infra.local.census import noted
from marless_cluster.remote.census import Census, note
from marless_cluster.remote.chunks import BEAT, DATA, chunk
from marless_cluster.remote.listener import Agent
from marless_cluster.remote.pulse import Pulse
from marless_cluster.remote.strangers import Strangers


def test_each_joining_or_leaving_machine_is_one_line():
    census = Census(pause_s=0.0)
    assert census.news(Counter()) == []
    assert census.news(Counter(node7=4)) == ["node7 has joined with 4 slots; 1 machine with 4 slots connected"]
    assert census.news(Counter(node7=4)) == []
    assert census.news(Counter(node7=1, node8=1)) == [
        "node7 has 1 slot, node8 has joined with 1 slot; 2 machines with 2 slots connected"
    ]
    assert census.news(Counter(node8=1)) == ["node7 has left; 1 machine with 1 slot connected"]
    assert census.news(Counter()) == ["node8 has left; no worker is connected"]


def test_many_machines_at_once_are_one_short_line():
    [line] = Census().news(Counter({f"node{number:03d}": 8 for number in range(100)}))
    assert line.count("joined") == 4
    assert line.endswith("and 96 more; 100 machines with 800 slots connected")


def test_endlessly_changing_machines_are_summarised():
    census = Census(pause_s=1000.0)
    assert len(census.news(Counter(node7=1))) == 1
    assert [census.news(Counter({f"node{number}": 1})) for number in range(100)] == [[]] * 100


def test_driver_notes_are_readable_and_damaged_file_ignored(tmp_path):
    folder = tmp_path / "workers"
    assert not noted(folder)
    note(folder, Counter(node7=4))
    assert noted(folder) == Counter(node7=4)
    [file] = folder.iterdir()
    file.write_bytes(b"\xff{")
    assert not noted(folder)
    note(folder, Counter())
    assert list(folder.iterdir()) == []


async def stand(strangers, address, begins, left):
    """A stranger at the door, until its turn ends."""
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as timeout:
            with strangers.enter(address, timeout) as stranger:
                if begins:
                    stranger.begins()
                await asyncio.Event().wait()
    left.append((address, begins))


@pytest.mark.parametrize(
    ("here", "loses"),
    [
        ([("a", False), ("b", False), ("b", False)], ("b", False)),
        ([("a", False), ("a", True), ("b", False)], ("a", False)),
        ([("a", True), ("a", False), ("b", False)], ("a", False)),
        ([("a", True), ("b", True), ("b", True)], ("b", True)),
        ([("a", True), ("b", False), ("c", False)], ("b", False)),
    ],
)
def test_full_door_evicts_unstarted_peer_of_busiest_address(here, loses):
    async def crowd():
        strangers, left = Strangers(patience_s=1000.0, places=3), []
        everybody = []
        for address, begins in here:
            await strangers.make_room()
            everybody.append(asyncio.create_task(stand(strangers, address, begins, left)))
            await asyncio.sleep(0)
        assert left == []
        await strangers.make_room()
        await asyncio.sleep(0)
        assert left == [loses]
        await strangers.make_room()  # there is a place by now
        assert left == [loses]
        for task in everybody:
            task.cancel()
        await asyncio.gather(*everybody, return_exceptions=True)

    asyncio.run(crowd())


def test_started_greeting_has_full_time_and_unstarted_less():
    async def look():
        loop, strangers = asyncio.get_running_loop(), Strangers(patience_s=1000.0)
        async with asyncio.timeout(None) as timeout:
            with strangers.enter("a", timeout) as stranger:
                silent_until = timeout.when()
                stranger.begins()
                return silent_until - loop.time(), timeout.when() - loop.time()

    silent_s, speaking_s = asyncio.run(look())
    assert silent_s < 10 < 900 < speaking_s <= 1000


class Wire:
    """The two halves of a connection: the test's input, and the sent bytes."""

    def __init__(self):
        self.reader, self.sent = asyncio.StreamReader(), []
        self.writer = self

    def write(self, data):
        self.sent.append(data)


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


def test_peer_is_doubted_then_lost_after_missed_beats():
    async def listen():
        wire = Wire()
        pulse = Pulse(wire, beat_s=0.0)
        reading = asyncio.create_task(pulse.read())
        await turns(1)
        beating, doubts = asyncio.create_task(pulse.beat()), []
        while not beating.done():
            await turns(1)
            doubts.append(pulse.is_in_doubt)
        reading.cancel()
        return wire.sent, doubts

    sent, doubts = asyncio.run(listen())
    assert sent == [chunk(BEAT, b"")] * 4
    assert doubts[0] is False and doubts[-1] is True


def test_messages_beats_and_busy_readers_keep_a_peer():
    async def listen():
        wire = Wire()
        pulse = Pulse(wire, beat_s=0.0)
        beating = asyncio.create_task(pulse.beat())
        await turns(50)  # nobody reads
        assert not beating.done()
        for _ in range(10):
            reading = asyncio.create_task(pulse.read())
            await turns(2)
            wire.reader.feed_data(chunk(BEAT, b""))
            await turns(2)
            assert not reading.done()  # a beat is for the pulse alone
            wire.reader.feed_data(chunk(DATA, b"said"))
            assert await reading == (DATA, b"said")
        assert not beating.done() and not pulse.is_in_doubt
        beating.cancel()

    asyncio.run(listen())


def test_agent_rests_longer_after_each_wrong_answer():
    agent = Agent("node7", 4)
    agent.fails(is_wrong=False)
    assert agent.is_last_choice and not agent.rests()
    agent.fails(is_wrong=True)
    assert agent.rests()
    agent.succeeds()
    assert not agent.rests() and not agent.is_last_choice
