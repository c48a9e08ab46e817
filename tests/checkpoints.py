"""Functions that unpack checkpoints, and pack any contents with the correct checksum."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import numpy as np

from rowsolve.checkpoint.archive import read_archive


def parts_of(path):
    """Return the fingerprint in a checkpoint, and the files in its archive by their names."""
    line, _, body = path.read_bytes().partition(b"\n")
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        return json.loads(line.split(b" ", 3)[3])["fingerprint"], {
            name: archive.read(name) for name in archive.namelist()
        }


def archive_of(members, **options):
    room = io.BytesIO()
    with zipfile.ZipFile(room, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return room.getvalue()


def write_body(path, fingerprint, body):
    head = {"fingerprint": fingerprint, "bytes": len(body)}
    found = hashlib.sha256(json.dumps([fingerprint, len(body)]).encode() + body).hexdigest()
    path.write_bytes(f"rowsolve checkpoint 2 {json.dumps({**head, 'sha256': found})}\n".encode() + body)


def write_parts(path, fingerprint, members):
    write_body(path, fingerprint, archive_of(members))


def state_in(path):
    """Return the state in a checkpoint as plain data."""
    with path.open("rb") as file:
        return read_archive(file)


def as_npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0))
    return file.getvalue()


def from_npy(content):
    return np.lib.format.read_array(io.BytesIO(content))


def places_in(tree, place=()):
    """Yield the place of everything in a tree of JSON, as a tuple of keys."""
    each = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in each:
        yield (*place, key)
        yield from places_in(value, (*place, key))


def at(tree, place):
    for key in place:
        tree = tree[key]
    return tree
