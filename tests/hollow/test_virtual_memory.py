"""Virtual memory management: reserve, create, map, and pages that processes hand to each other."""

from __future__ import annotations

import os

import pytest

from hollow.board import Board
from hollow.conftest import MakeRemote
from hollow.remote import Remote, RemoteError

MiB = 1 << 20
INVALID, OUT_OF_MEMORY, ILLEGAL_ADDRESS = 1, 2, 700


def refused(remote: Remote, statement: str) -> int | None:
    with pytest.raises(RemoteError) as caught:
        remote(statement)
    return caught.value.code


def test_reserved_addresses_take_no_bytes_and_created_memory_does(process: MakeRemote, board: Board) -> None:
    remote = process()
    remote("address = reserve(512 * GiB)")
    assert board.used() == 0
    remote("handle = create(32 * MiB)")
    assert board.used() == 32 * MiB  # and no context: cuMemCreate needs none
    remote("release(handle)")
    assert board.used() == 0


@pytest.mark.parametrize("exportable", [False, True])
def test_memory_lives_as_long_as_a_handle_or_a_mapping(process: MakeRemote, board: Board, exportable: bool) -> None:
    remote = process()
    remote("address = reserve(4 * MiB)")
    remote(f"handle = create(4 * MiB, exportable={exportable})")
    remote("map_memory(address, 4 * MiB, handle)")
    remote("release(handle)")
    assert board.used() == 4 * MiB
    remote("unmap(address, 4 * MiB)")
    assert board.used() == 0


def test_memory_beyond_the_device_is_not_created(process: MakeRemote) -> None:
    remote = process()
    remote("create(1000 * MiB)")
    assert refused(remote, "create(26 * MiB)") == OUT_OF_MEMORY
    remote("create(24 * MiB)")


def test_one_handle_mapped_twice_is_the_same_memory(process: MakeRemote) -> None:
    remote = process()
    remote("handle = create(2 * MiB)")
    remote("one, two = mapped(handle, 2 * MiB), mapped(handle, 2 * MiB)")
    remote("write(one, b'tide')")
    assert remote("read(two, 4) == b'tide'")


def test_data_stays_when_memory_is_mapped_elsewhere(process: MakeRemote) -> None:
    remote = process()
    remote("handle = create(2 * MiB)")
    remote("address = mapped(handle, 2 * MiB)")
    remote("write(address, b'tide')")
    remote("unmap(address, 2 * MiB)")
    assert remote("read(mapped(handle, 2 * MiB), 4) == b'tide'")


def test_a_wrong_use_of_virtual_memory_is_refused(process: MakeRemote) -> None:
    remote = process()
    remote("address = reserve(8 * MiB)")
    remote("handle = create(4 * MiB)")
    remote("map_memory(address, 4 * MiB, handle)")
    assert refused(remote, "create(MiB)") == INVALID  # less than the granularity
    assert refused(remote, "map_memory(address, 4 * MiB, handle)") == INVALID  # something is mapped there
    assert refused(remote, "map_memory(address + 6 * MiB, 4 * MiB, handle)") == INVALID  # beyond the reservation
    assert refused(remote, "unmap(address, 2 * MiB)") == INVALID  # a mapping cannot be unmapped in part
    assert refused(remote, "set_access(address, 8 * MiB)") == INVALID  # not all of it is mapped
    assert refused(remote, "call('cuMemAddressFree', c_uint64(address), c_size_t(8 * MiB))") == INVALID  # still mapped
    assert refused(remote, "release(12345)") == INVALID
    assert refused(remote, "export(create(2 * MiB, exportable=False))") == INVALID


def test_mapped_memory_cannot_be_used_before_access_is_set(process: MakeRemote) -> None:
    remote = process()
    remote("address = reserve(2 * MiB)")
    remote("map_memory(address, 2 * MiB, create(2 * MiB))")
    remote("memset(address, 1, 100)")
    assert refused(remote, "finish()") == ILLEGAL_ADDRESS


def test_another_process_sees_the_data_of_imported_memory(process: MakeRemote, board: Board) -> None:
    keeper, job = process(), process()
    keeper("handle = create(2 * MiB)")
    keeper("address = mapped(handle, 2 * MiB)")
    file = keeper.take_file("export(handle)")
    job.send_file(file)
    os.close(file)
    job("address = mapped(import_file(received_file), 2 * MiB)")
    keeper("write(address, b'ebb')")
    assert job("read(address, 3) == b'ebb'")
    job("write(address, b'flow')")
    assert keeper("read(address, 4) == b'flow'")
    assert board.used() == 2 * MiB + 2 * 16 * MiB  # the page counts once; both have a context for their copies


def test_imported_memory_outlives_the_process_that_created_it(process: MakeRemote, board: Board) -> None:
    keeper, job = process(), process()
    keeper("handle = create(2 * MiB)")
    file = keeper.take_file("export(handle)")
    job.send_file(file)
    os.close(file)
    job("handle = import_file(received_file); import os; os.close(received_file)")
    keeper.kill()
    assert board.used() == 2 * MiB
    job("release(handle)")
    assert board.used() == 0


def test_an_exported_file_alone_keeps_memory(process: MakeRemote, board: Board) -> None:
    keeper = process()
    keeper("handle = create(2 * MiB)")
    file = keeper.take_file("export(handle)")
    keeper.kill()
    assert board.used() == 2 * MiB
    os.close(file)
    assert board.used() == 0


def test_memory_of_a_killed_importer_stays_with_its_keeper(process: MakeRemote, board: Board) -> None:
    keeper, job = process(), process()
    keeper("handle = create(2 * MiB)")
    keeper("file = export(handle)")
    file = keeper.take_file("file")
    job.send_file(file)
    os.close(file)
    job("address = mapped(import_file(received_file), 2 * MiB)")
    job.kill()
    assert board.used() == 2 * MiB
    keeper("release(handle)")
    assert board.used() == 2 * MiB  # the keeper's own exported file is still open
    keeper("import os; os.close(file)")
    assert board.used() == 0


def test_thousands_of_handles_need_no_file_descriptors(process: MakeRemote, board: Board) -> None:
    remote = process(HOLLOW_MEMORY="8G")
    remote("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))")
    remote("handles = [create(2 * MiB) for _ in range(2000)]")
    assert board.used() == 4000 * MiB
    remote("[release(handle) for handle in handles]")
    assert board.used() == 0


def test_a_file_that_is_no_page_is_not_imported(process: MakeRemote) -> None:
    remote = process()
    remote("import os; file = os.open('/dev/zero', os.O_RDWR)")
    assert refused(remote, "import_file(file)") == INVALID


def test_a_forked_child_has_no_share_in_its_parents_memory(process: MakeRemote, board: Board) -> None:
    remote = process()
    remote("handle = create(2 * MiB)")
    # The child outlives its parent, holding what fork gave it.
    remote("import os, time; child = os.fork(); _ = child or (time.sleep(60), os._exit(0))")
    child = remote("child")
    remote.kill()
    assert board.used() == 0
    os.kill(child, 9)
