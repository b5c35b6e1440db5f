"""The store of compiled objects on disk."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from segue import config
from segue.backends.native import cache
from segue.backends.native.cache import Store

NAME = cache.key("some", "text")
OBJECT = bytes(range(256)) * 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


def file_of(store: Store) -> Path:
    (found,) = store.objects.rglob("*.o")
    return found


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def test_what_is_saved_is_loaded(store: Store, caplog) -> None:
    assert store.load(NAME) is None
    store.save(NAME, OBJECT)
    assert store.load(NAME) == OBJECT
    assert Store(store.root).load(NAME) == OBJECT
    assert warnings(caplog) == []


def test_only_the_user_can_read_and_write(store: Store) -> None:
    before = os.umask(0)
    try:
        store.save(NAME, OBJECT)
    finally:
        os.umask(before)
    path = file_of(store)
    assert path.relative_to(store.objects) == Path(NAME[:2], f"{NAME}.o")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (store.root, store.objects, path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_key_depends_on_every_part_and_where_it_ends(monkeypatch) -> None:
    keys = {cache.key(*parts) for parts in (["a", "b"], ["ab"], ["a", "c"], ["b", "a"], ["a", "b", ""])}
    assert len(keys) == 5
    assert cache.key("a", "b") in keys
    monkeypatch.setattr(cache, "_versions", lambda: ("another",))
    assert cache.key("a", "b") not in keys


def flip_last(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "damage",
    [
        flip_last,
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:10],
        lambda data: b"",
        lambda data: b"X" + data[1:],
        lambda data: data[:8] + b"\xff" + data[9:],
        lambda data: OBJECT,
    ],
    ids=["changed", "truncated", "longer", "part of a header", "empty", "magic", "format", "no header"],
)
def test_a_damaged_file_is_ignored_and_replaced(store: Store, damage, caplog) -> None:
    store.save(NAME, OBJECT)
    path = file_of(store)
    path.write_bytes(damage(path.read_bytes()))
    assert store.load(NAME) is None
    assert store.load(NAME) is None
    assert len(warnings(caplog)) == 1
    assert str(path) in warnings(caplog)[0]
    store.save(NAME, OBJECT)
    assert store.load(NAME) == OBJECT


def test_a_file_under_another_name_is_not_taken(store: Store) -> None:
    store.save(NAME, OBJECT)
    other = cache.key("other")
    target = store.objects / other[:2] / f"{other}.o"
    target.parent.mkdir(mode=0o700, exist_ok=True)
    file_of(store).rename(target)
    assert store.load(other) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_ignored_and_replaced(store: Store, mode: int, caplog) -> None:
    store.save(NAME, OBJECT)
    file_of(store).chmod(mode)
    assert store.load(NAME) is None
    assert len(warnings(caplog)) == 1
    store.save(NAME, OBJECT)
    assert store.load(NAME) == OBJECT


def test_a_link_is_ignored_and_replaced(store: Store, tmp_path: Path) -> None:
    store.save(NAME, OBJECT)
    path = file_of(store)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.load(NAME) is None
    store.save(NAME, OBJECT)
    assert store.load(NAME) == OBJECT
    assert not path.is_symlink()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
@pytest.mark.parametrize("part", ["", "objects"])
def test_a_directory_that_others_can_write_is_not_used(store: Store, mode: int, part: str, caplog) -> None:
    store.save(NAME, OBJECT)
    (store.root / part).chmod(mode)
    other = cache.key("other")
    assert store.load(NAME) is None
    store.save(other, OBJECT)
    assert store.load(other) is None
    assert list(store.objects.rglob("*.o")) == [file_of(store)]
    assert len(warnings(caplog)) == 1
    assert "others can write it" in warnings(caplog)[0]


def test_a_directory_of_somebody_else_is_not_used(store: Store, caplog, monkeypatch) -> None:
    store.save(NAME, OBJECT)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert store.load(NAME) is None
    store.save(NAME, OBJECT)
    assert len(warnings(caplog)) == 1
    assert f"belongs to another user ({me})" in warnings(caplog)[0]


def test_a_file_of_somebody_else_is_not_used(store: Store, caplog) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    store.save(NAME, OBJECT)
    os.chown(file_of(store), 12345, -1)
    assert store.load(NAME) is None
    assert len(warnings(caplog)) == 1


def test_without_a_place_there_is_one_warning(tmp_path: Path, caplog) -> None:
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "cache")
    for _ in range(3):
        assert store.load(NAME) is None
        store.save(NAME, OBJECT)
    assert len(warnings(caplog)) == 1


def test_a_read_only_directory_is_read(store: Store, caplog) -> None:
    if os.geteuid() == 0:
        pytest.skip("root can write everywhere")
    store.save(NAME, OBJECT)
    other = cache.key("other")
    folders = [store.root, store.objects, *store.objects.iterdir()]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert store.load(NAME) == OBJECT
        for _ in range(2):
            store.save(other, OBJECT)
            assert store.load(other) is None
        assert len(warnings(caplog)) == 1
    finally:
        for folder in folders:
            folder.chmod(0o700)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_takes_no_file_leaves_no_parts(store: Store, reason: int, caplog, monkeypatch) -> None:
    def full(source: str, target: str) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "replace", full)
    for _ in range(2):
        store.save(NAME, OBJECT)
        assert store.load(NAME) is None
    assert [f for f in store.root.rglob("*") if f.is_file()] == []
    assert len(warnings(caplog)) == 1


def used_at(store: Store, name: str, when: float) -> None:
    os.utime(store.objects / name[:2] / f"{name}.o", (when, when))


def test_what_was_used_longest_ago_goes_first(store: Store) -> None:
    names = [cache.key(str(i)) for i in range(10)]
    for i, name in enumerate(names):
        store.save(name, OBJECT)
        used_at(store, name, 1000 + i)
    size = file_of_size(store)
    assert store.load(names[0]) == OBJECT  # is used now
    cache.evict(store.objects, 10 * size)
    assert [store.load(n) is not None for n in names] == [True] * 10
    for i, name in enumerate(names[1:]):
        used_at(store, name, 1000 + i)
    cache.evict(store.objects, 4 * size)
    assert [store.load(n) is not None for n in names] == [True] + [False] * 7 + [True] * 2


def file_of_size(store: Store) -> int:
    return next(store.objects.rglob("*.o")).stat().st_size


def test_the_first_save_of_a_process_looks_at_the_size(store: Store, caplog) -> None:
    for i in range(20):
        store.save(cache.key(str(i)), OBJECT)
        used_at(store, cache.key(str(i)), 1000 + i)
    with config.patch(cache_bytes=10 * file_of_size(store)):
        later = Store(store.root)
        later.save(NAME, OBJECT)
    assert later.load(NAME) == OBJECT
    assert len(list(store.objects.rglob("*.o"))) == 9
    assert warnings(caplog) == []


def test_many_saves_stay_bounded(store: Store) -> None:
    with config.patch(cache_bytes=10 * (len(OBJECT) + 100)):
        for i in range(200):
            store.save(cache.key(str(i)), OBJECT)
    assert len(list(store.objects.rglob("*.o"))) <= 10 + 64


def test_files_of_writers_that_died_go(store: Store) -> None:
    store.save(NAME, OBJECT)
    abandoned, under_way = (store.objects / NAME[:2] / f".new-{x}" for x in "ab")
    for path in (abandoned, under_way):
        path.touch()
    os.utime(abandoned, (time.time() - 7200,) * 2)
    cache.evict(store.objects, 1 << 30)
    assert (abandoned.exists(), under_way.exists()) == (False, True)
    assert store.load(NAME) == OBJECT


def test_threads_save_load_and_evict(store: Store, caplog) -> None:
    names = [cache.key(str(i)) for i in range(8)]
    wrong: list[object] = []

    def work() -> None:
        try:
            for i in range(120):
                name = names[i % len(names)]
                store.save(name, OBJECT + name.encode())
                if i % 10 == 0:
                    cache.evict(store.objects, 3 * len(OBJECT))
                found = store.load(name)
                if found not in (None, OBJECT + name.encode()):
                    wrong.append(name)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert warnings(caplog) == []


def test_the_configuration_names_the_store(tmp_path: Path) -> None:
    with config.patch(cache_dir=str(tmp_path / "a")):
        first = cache.current()
        assert first is not None
        assert first.root == tmp_path / "a"
        assert cache.current() is first
    with config.patch(cache=False):
        assert cache.current() is None


def test_the_default_is_in_the_user_s_cache_directory(tmp_path: Path, monkeypatch) -> None:
    import platformdirs

    with config.patch(cache_dir=""):
        found = cache.current()
    assert found is not None
    assert found.root == Path(platformdirs.user_cache_dir("segue", appauthor=False))
