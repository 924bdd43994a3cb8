#!/usr/bin/env python3
"""The live rows of an entity in one publication, from a folder of JSON Lines.

    python3 read_publications.py <folder> <connector>/<entity> [<publication>]

Prints the lines as they are in the files. Needs Python 3.9 and nothing else. docs/publications.md describes the format.
"""
import hashlib
import json
import pathlib
import sys


class Vanished(Exception):
    """A manifest or a file was removed by prune since the newest manifest was found."""


def main(folder, name, wanted=None):
    for _ in range(5):
        try:
            return live_rows(pathlib.Path(folder), name, wanted)
        except Vanished as vanished:
            reason = vanished
    sys.exit(f"{reason}: read again later, or another publication")


def live_rows(root, name, wanted):
    newest = wanted or newest_publication(root)
    entity = entity_of(read_manifest(root, newest)[0], name)
    if entity is None:
        sys.exit(f"publication {newest} has no {name}")
    rows, previous = {}, None
    for number in range(entity["base"], newest + 1):
        manifest, sha256 = read_manifest(root, number)
        if previous is not None and manifest["previous"] != previous:
            sys.exit(f"publication {number} does not follow the publication before that is there")
        previous = {"publication": number, "sha256": sha256}
        part = entity_of(manifest, name)
        if part is None or part["generation"] != entity["generation"]:
            sys.exit(f"publication {number} has no rows of this generation of {name}")
        is_first = number == entity["base"]
        files = part["snapshot"]["files"] if is_first and part["snapshot"] else part["files"]
        for file in files:
            apply(rows, read_lines(root, file), entity["key"])
    return newest, rows.values()


def apply(rows, lines, key):
    """Rows come in the order of _seq: a later one replaces, or removes, an earlier one with the same key."""
    for line in lines:
        row = json.loads(line)
        identity = json.dumps([row[column] for column in key])
        if row["_deleted"]:
            rows.pop(identity, None)
        else:
            rows[identity] = line


def newest_publication(root):
    names = [path.stem for path in (root / "_publications").glob("*.json")]
    numbers = [int(name) for name in names if len(name) == 20 and name.isdigit()]
    if not numbers:
        sys.exit(f"{root} has no publication")
    return max(numbers)


def read_manifest(root, number):
    data = read_bytes(root / "_publications" / f"{number:020}.json")
    manifest = json.loads(data)
    if manifest["format"] != 1:
        sys.exit(f"publication {number} has format {manifest['format']}; this reads format 1")
    return manifest, hashlib.sha256(data).hexdigest()


def entity_of(manifest, name):
    found = [one for one in manifest["entities"] if f"{one['connector']}/{one['entity']}" == name]
    return found[0] if found else None


def read_lines(root, file):
    if not file["path"].endswith(".jsonl"):
        sys.exit(f"{file['path']} is not of JSON Lines")
    data = read_bytes(root / file["path"])
    if hashlib.sha256(data).hexdigest() != file["sha256"]:
        sys.exit(f"{file['path']} is damaged: its SHA-256 is not that of the manifest")
    return data.decode("utf-8").split("\n")[:-1]


def read_bytes(path):
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise Vanished(f"{path} is gone") from None


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    publication, lines = main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else None)
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(line)
    print(f"publication {publication}", file=sys.stderr)
