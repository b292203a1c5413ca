"""The records of a run, one JSON line each; the tag `k` says which."""

from __future__ import annotations

import base64
import hashlib
import zlib

import msgspec
from msgspec import Struct

from assay.model import Job, Missing, RawFact


class Opened(Struct, frozen=True, tag_field="k", tag="opened", omit_defaults=True):
    """A writer began: who it is, so that a second one can tell whether it still lives."""

    verb: str
    at: float
    host: str
    pid: int
    born: str
    tool_version: str


class Evidence(Struct, frozen=True, tag_field="k", tag="evidence"):
    """One raw answer of one node. `id` = sha256 of the answer's JSON; `z` = that JSON, zlib, base64."""

    id: str
    node: str
    probe: str
    z: str


class Answered(Struct, frozen=True, tag_field="k", tag="answered", omit_defaults=True):
    """A node is done: it answered, or it is missing and why. `log` = what it said beside the protocol."""

    node: str
    at: float
    missing: Missing | None = None
    uid: int = -1
    log: str = ""


class Submitted(Struct, frozen=True, tag_field="k", tag="job"):
    """What is known of a job of a scheduler: written before it is asked for, again with its id, and at its end."""

    at: float
    job: Job


class Finished(Struct, frozen=True, tag_field="k", tag="finished"):
    """A writer ended: `complete`, `interrupted` or `failed`."""

    at: float
    exit_reason: str


Record = Opened | Evidence | Answered | Submitted | Finished

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)
_raw_decoder = msgspec.json.Decoder(RawFact)
LIMIT_BYTES = 96 << 20
"""More than any answer or line holds: a file that was mailed may claim to unpack to anything."""


def encode(record: Record) -> bytes:
    """One line, without its end."""
    return _encoder.encode(record)


def decode(line: bytes) -> Record:
    """The record of a line; msgspec.DecodeError when it is none."""
    try:
        return _decoder.decode(line)
    except (UnicodeDecodeError, RecursionError) as e:
        raise msgspec.DecodeError(str(e)) from e


def pack(raw: RawFact) -> Evidence:
    """A raw answer as evidence, addressed by its content."""
    text = _encoder.encode(raw)
    packed = base64.b64encode(zlib.compress(text, 6)).decode()
    return Evidence(hashlib.sha256(text).hexdigest(), raw.node, raw.probe, packed)


def unpack(evidence: Evidence) -> RawFact:
    """The raw answer, its content checked against its address; ValueError when they differ."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(evidence.z), LIMIT_BYTES)
    except (zlib.error, ValueError) as e:
        raise ValueError(f"evidence {evidence.id[:12]} is damaged: {e}") from e
    if unpacker.unconsumed_tail or hashlib.sha256(text).hexdigest() != evidence.id:
        raise ValueError(f"evidence {evidence.id[:12]} is not what its address says")
    try:
        return _raw_decoder.decode(text)
    except RecursionError as e:
        raise ValueError(f"evidence {evidence.id[:12]} is damaged: {e}") from e
