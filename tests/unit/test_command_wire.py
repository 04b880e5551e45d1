"""Property values that the stand-in for the command plugin reads from the engine's messages."""

from __future__ import annotations

from google.protobuf import json_format, struct_pb2

from rehearsal.engine.command import wire


def test_a_secret_whose_value_is_null_is_not_taken_for_an_unknown_value():
    sent = json_format.ParseDict(
        {"empty": {wire.MARK: wire.SECRET, "value": None}, "unknown": {wire.MARK: wire.OUTPUT}}, struct_pb2.Struct()
    )
    found = wire.read(sent)
    assert (wire.reveal(found["empty"]), wire.reveal(found["unknown"])) == (None, wire.UNKNOWN)
    assert [wire.has_unknown(found[name]) for name in ("empty", "unknown")] == [False, True]
