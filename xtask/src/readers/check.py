"""Reads logs of `write_log` with a reader that is not ours, and checks the values of each record.

check.py READER FILE... prints, for each file: its number of records, the first and the last id, whether ids have gaps, and how many of
the records the chunks' headers do not count. Values that do not follow from the record's id, a wrong checksum, a counted record that is
missing and one that is in neither place end it with a message.
"""

import base64
import re
import struct
import sys

NAMES = ("EventID", "EventRecordID", "Number", "Text", "Bytes", "Guid")


def of_xml(xml):
    from lxml import etree

    root = etree.fromstring(re.sub(r"<\?xml[^>]*\?>", "", xml))
    values = {}
    for element in root.iter():
        name = etree.QName(element).localname
        if name == "Data":
            name = element.get("Name")
        if name in NAMES:
            values[name] = element.text or ""
    return values


def evtx(path):
    from evtx import PyEvtxParser

    for record in PyEvtxParser(path).records():
        yield of_xml(record["data"])


def libevtx(path):
    import pyevtx

    log = pyevtx.file()
    log.open(path)
    for number in range(log.get_number_of_records()):
        yield of_xml(log.get_record(number).get_xml_string().rstrip("\0"))
    # Records behind the last one that the header of a chunk counts, as after a kill.
    for number in range(log.get_number_of_recovered_records()):
        yield of_xml(log.get_recovered_record(number).get_xml_string().rstrip("\0"))
    log.close()


def python_evtx(path):
    from Evtx.Evtx import Evtx

    with Evtx(path) as log:
        for chunk in log.chunks():
            if not chunk.check_magic():
                continue
            if not chunk.verify():
                sys.exit(f"{path}: the checksum of the chunk at {chunk.offset():#x} is wrong")
            for record in chunk.records():
                yield of_xml(record.xml())


def dissect(path):
    from dissect.eventlog import evtx as reader

    with open(path, "rb") as file:
        for record in reader.Evtx(file):
            names = {name.removesuffix("_text"): value for name, value in record.items()}
            yield {name: names.get(name) for name in NAMES}


def plain(value):
    if isinstance(value, bytes):
        value = value.decode()
    return str(value).strip("{}").lower()


def check(values):
    number = int(values["EventRecordID"])
    text = f"text {number} <grüße> " + "x" * (number % 90)
    expected = {
        "EventID": number % 60000,
        "Number": number,
        "Text": text,
        "Bytes": number.to_bytes(8, "little")[:3].hex(),
    }
    # One of the readers has binary values in Base64.
    if values["Bytes"] == base64.b64encode(number.to_bytes(8, "little")[:3]).decode():
        del expected["Bytes"]
    for name, value in expected.items():
        if plain(values[name]).strip() != plain(value).strip():
            sys.exit(f"record {number}: {name} is {values[name]!r}, not {value!r}")
    if len(plain(values["Guid"])) != 36:
        sys.exit(f"record {number}: Guid is {values['Guid']!r}")
    return number


def places(path):
    """The ids that the chunks' headers count, and those of whole records behind the headers' ends: writes that a kill cut."""
    with open(path, "rb") as file:
        data = file.read()
    counted, behind = [], []
    for start in range(4096, len(data), 65536):
        chunk = data[start : start + 65536]
        if chunk[:8] != b"ElfChnk\0":
            continue
        first, last = struct.unpack_from("<QQ", chunk, 24)
        counted += range(first, last + 1)
        (at,) = struct.unpack_from("<I", chunk, 48)
        while at + 28 <= len(chunk):
            signature, size, number = struct.unpack_from("<IIQ", chunk, at)
            is_whole = 28 <= size <= len(chunk) - at and chunk[at + size - 4 : at + size] == chunk[at + 4 : at + 8]
            if signature != 0x2A2A or not is_whole or number != last + 1:
                break
            behind.append(number)
            last = number
            at += size
    return counted, behind


READERS = {"evtx": evtx, "libevtx": libevtx, "python-evtx": python_evtx, "dissect": dissect}

if __name__ == "__main__":
    for path in sys.argv[2:]:
        ids = sorted(check(values) for values in READERS[sys.argv[1]](path))
        if not ids:
            print(f"{path}\t0\t0\t0\twhole\t0")
            continue
        # A copy keeps its records' ids, and numbers the records of its chunks anew.
        if ".backup." in path:
            uncounted = 0
        else:
            counted, behind = places(path)
            missing, strange = set(counted) - set(ids), set(ids) - set(counted) - set(behind)
            if missing or strange:
                sys.exit(f"{path}: missing {sorted(missing)}, in no place {sorted(strange)}")
            uncounted = len(ids) - len(counted)
        is_whole = ids == list(range(ids[0], ids[-1] + 1))
        print(f"{path}\t{len(ids)}\t{ids[0]}\t{ids[-1]}\t{'whole' if is_whole else 'gaps'}\t{uncounted}")
