"""Reads a trace with the schema that Perfetto publishes, and prints it as JSON.

    python perfetto.py FILE

Names are looked up by their numbers, as Perfetto's own reader does it.
"""

import json
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    TracePacket,
    Trace,
    TrackDescriptor,
    TrackEvent,
)


def has_unknown(message):
    """Whether the schema does not know a field of this message or of one within it."""
    if len(unknown_fields.UnknownFieldSet(message)) > 0:
        return True
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        values = value if field.is_repeated else [value]
        if any(has_unknown(part) for part in values):
            return True
    return False


def argument(annotation, names):
    """The name and the value of an argument."""
    name = names[annotation.name_iid] if annotation.name_iid else annotation.name
    return name, getattr(annotation, annotation.WhichOneof("value"))


def track(descriptor):
    """What a packet says of a track."""
    known = {"uuid": descriptor.uuid, "parent": descriptor.parent_uuid, "name": descriptor.name}
    if descriptor.HasField("process"):
        known["process"] = [descriptor.process.pid, descriptor.process.process_name]
    if descriptor.HasField("thread"):
        thread = descriptor.thread
        known["thread"] = [thread.pid, thread.tid, thread.thread_name]
    if descriptor.HasField("counter"):
        known["counter"] = CounterDescriptor.Unit.Name(descriptor.counter.unit)
    if descriptor.HasField("child_ordering"):
        ordering = descriptor.child_ordering
        known["order"] = TrackDescriptor.ChildTracksOrdering.Name(ordering)
    if descriptor.HasField("sibling_merge_behavior"):
        behavior = descriptor.sibling_merge_behavior
        known["merge"] = TrackDescriptor.SiblingMergeBehavior.Name(behavior)
    return known


def event(packet, tables):
    """What a packet says of an event."""
    happened = packet.track_event
    known = {
        "at": packet.timestamp,
        "track": happened.track_uuid,
        "type": TrackEvent.Type.Name(happened.type),
        "name": tables["names"].get(happened.name_iid, happened.name),
        "categories": [tables["categories"][number] for number in happened.category_iids],
        "arguments": dict(
            argument(annotation, tables["arguments"]) for annotation in happened.debug_annotations
        ),
        "flows": list(happened.flow_ids),
        "ends": list(happened.terminating_flow_ids),
    }
    if happened.HasField("counter_value"):
        known["value"] = happened.counter_value
    if happened.HasField("double_counter_value"):
        known["value"] = happened.double_counter_value
    return known


def main(path):
    trace = Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    tables = {"names": {}, "categories": {}, "arguments": {}}
    is_valid = False
    result = {"tracks": [], "events": [], "clocks": [], "unknown": has_unknown(trace)}
    for packet in trace.packet:
        if packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            is_valid = True
        if packet.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE and not is_valid:
            raise ValueError("a packet uses names before they are valid")
        data = packet.interned_data
        for table, entries in (
            ("names", data.event_names),
            ("categories", data.event_categories),
            ("arguments", data.debug_annotation_names),
        ):
            tables[table].update((entry.iid, entry.name) for entry in entries)
        if packet.HasField("track_descriptor"):
            result["tracks"].append(track(packet.track_descriptor))
        if packet.HasField("track_event"):
            result["events"].append(event(packet, tables))
        for clock in packet.clock_snapshot.clocks:
            result["clocks"].append([clock.clock_id, clock.timestamp])
    json.dump(result, sys.stdout)


main(sys.argv[1])
