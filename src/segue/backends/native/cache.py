"""Objects on disk, so that what was compiled once is only linked by later processes.

A file is used only if it belongs to this user, nobody else can write it, and its checksum is right.  Whatever is wrong
with the cache costs time, never a result: a warning, and the object is compiled.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import struct
import tempfile
import threading
import time
from pathlib import Path

from segue import config
from segue.report.logs import logger

FORMAT = 1
"""Changes whenever files of an earlier Segue must not be read any more."""

_HEADER = struct.Struct("<8sIQ32s")
"""Magic, format, length of the object, checksum of key and object."""
_MAGIC = b"SEGUEOBJ"
_TEMPORARY = ".new-"
_SCAN_EVERY = 64
"""Writes between two looks at the total size; the first write of a process looks, too."""
_ABANDONED = 3600.0
"""Seconds after which a temporary file is taken for one whose writer died."""


def key(*parts: str) -> str:
    """The name of an object: a hash of everything that it depends on, and of all versions involved."""
    digest = hashlib.sha256()
    for part in (*_versions(), *parts):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def current() -> Store | None:
    """The store that the configuration names; None if the cache is off."""
    if not config.cache:
        return None
    folder: str = config.cache_dir
    return _store(folder or _default_folder())


class Store:
    """The objects in one directory.

    Args:
        root: the directory; made when the first object is saved.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = root / "objects"
        self._writes = 0
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    def load(self, name: str) -> bytes | None:
        """The object of that name; None if there is none, or none that can be trusted."""
        path = self._path(name)
        try:
            if not self._is_safe():
                return None
            data = _read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("disk", f"cannot read {path}: {error}")
            return None
        image = _unpacked(name, data)
        if image is None:
            self._warn("content", f"{path} is damaged or not Segue's; its code is compiled again")
            return None
        with contextlib.suppress(OSError):  # gone already, or on a read-only disk: only eviction wants the time
            os.utime(path)
        return image

    def save(self, name: str, image: bytes) -> None:
        """Store an object; nothing happens if that is not possible."""
        path = self._path(name)
        try:
            for folder in (self.root, self.objects, path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_safe():
                return
            _write(path, _HEADER.pack(_MAGIC, FORMAT, len(image), _checksum(name, image)) + image)
            if self._is_time_to_evict():
                evict(self.objects, config.cache_bytes)
        except OSError as error:
            self._warn("disk", f"cannot write to {self.root}: {error}")

    def _path(self, name: str) -> Path:
        return self.objects / name[:2] / f"{name}.o"

    def _is_safe(self) -> bool:
        """Whether only this user can put files here."""
        for folder in (self.root, self.objects):
            why = _distrust(folder.stat())
            if why:
                self._warn("folder", f"{folder} is not used: {why}")
                return False
        return True

    def _is_time_to_evict(self) -> bool:
        with self._lock:
            self._writes += 1
            return self._writes % _SCAN_EVERY == 1

    def _warn(self, kind: str, message: str) -> None:
        """Warn once per kind of trouble."""
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning("cache of compiled code: %s", message)


def evict(folder: Path, limit: int) -> None:
    """Remove what was used longest ago until nine tenths of `limit` bytes are left, if there is more than `limit`."""
    entries = []
    for entry in _files(folder):
        with contextlib.suppress(FileNotFoundError):  # another process evicts too
            found = entry.stat(follow_symlinks=False)
            if not entry.name.startswith(_TEMPORARY):
                entries.append((found.st_mtime, found.st_size, entry.path))
            elif found.st_mtime < time.time() - _ABANDONED:
                os.unlink(entry.path)
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        if total <= limit * 9 // 10:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def _files(folder: Path) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    for part in os.scandir(folder):
        if part.is_dir(follow_symlinks=False):
            found += os.scandir(part.path)
    return found


def _distrust(found: os.stat_result) -> str:
    """Why a file or directory cannot be trusted; empty if it can."""
    if found.st_uid != os.geteuid():
        return f"it belongs to another user ({found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write it (mode {stat.S_IMODE(found.st_mode):o})"
    return ""


def _read(path: Path) -> bytes:
    """The content of a file; empty if the file cannot be trusted."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
        found = os.fstat(stream.fileno())
        return stream.read() if stat.S_ISREG(found.st_mode) and not _distrust(found) else b""


def _write(path: Path, data: bytes) -> None:
    """Make a file that is there with all its content, or not at all."""
    file, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)  # mode 0600
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _unpacked(name: str, data: bytes) -> bytes | None:
    """The object in a file's content; None if it is not what was saved under that name."""
    if len(data) < _HEADER.size:
        return None
    magic, version, length, checksum = _HEADER.unpack_from(data)
    image = data[_HEADER.size :]
    right = (magic, version, length, checksum) == (_MAGIC, FORMAT, len(image), _checksum(name, image))
    return image if right else None


def _checksum(name: str, image: bytes) -> bytes:
    return hashlib.sha256(name.encode() + image).digest()


@functools.cache
def _versions() -> tuple[str, ...]:
    import llvmlite
    import torch
    from llvmlite import binding

    import segue

    llvm = ".".join(map(str, binding.llvm_version_info))
    return (str(FORMAT), segue.__version__, str(torch.__version__), llvmlite.__version__, llvm)


@functools.cache
def _default_folder() -> str:
    import platformdirs

    return platformdirs.user_cache_dir("segue", appauthor=False)


@functools.cache
def _store(folder: str) -> Store:
    return Store(Path(folder).expanduser())
