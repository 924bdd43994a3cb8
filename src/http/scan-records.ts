import { MemberNames } from './member-names.ts';
import { skipColon, skipNested, skipPlainScalar, skipSpace, skipString, type Scan } from './skip-json.ts';

/** Numbers that `members` has for each member: name, start and end of the value. */
export const memberWidth = 3;

/** The elements of an array by their places, and the members of those that are objects. */
export class RecordPlaces {
  readonly names: MemberNames;
  count = 0;
  memberCount = 0;
  starts = new Uint32Array(1_024);
  ends = new Uint32Array(1_024);
  firstMember = new Uint32Array(1_024);
  members: Uint32Array<ArrayBuffer>;

  constructor(scan: Scan) {
    this.names = new MemberNames(scan);
    // As many as records mostly have: growing would copy them, and leave the smaller tables to be collected.
    this.members = new Uint32Array(Math.max(1_024, Math.ceil(scan.bytes.length / 12)));
  }

  begin(start: number): void {
    if (this.count + 1 === this.starts.length) {
      this.starts = doubled(this.starts);
      this.ends = doubled(this.ends);
      this.firstMember = doubled(this.firstMember);
    }
    this.starts[this.count] = start;
    this.firstMember[this.count] = this.memberCount;
  }

  end(end: number): void {
    this.ends[this.count] = end;
    this.count += 1;
    this.firstMember[this.count] = this.memberCount;
  }

  add(name: number, start: number, end: number): void {
    const at = this.memberCount * memberWidth;
    if (at + memberWidth > this.members.length) this.members = doubled(this.members);
    const { members } = this;
    members[at] = name;
    members[at + 1] = start;
    members[at + 2] = end;
    this.memberCount += 1;
  }
}

function doubled(numbers: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(numbers.length * 2);
  larger.set(numbers);
  return larger;
}

/**
 * Reads an array, inside `openAround` objects, into `places`. `start`: at its bracket. Returns the place behind the
 * array, or -1 where it cannot be read.
 */
export function scanRecords(scan: Scan, start: number, openAround: number, places: RecordPlaces): number {
  const { bytes } = scan;
  if (openAround >= scan.maxDepth) return -1;
  let at = skipSpace(scan, start + 1);
  if (bytes[at] === 0x5d) return at + 1;
  for (;;) {
    places.begin(at);
    at =
      bytes[at] === 0x7b
        ? scanMembers(scan, at, openAround + 1, places)
        : skipValue(scan, at, openAround + 1);
    if (at === -1) return -1;
    places.end(at);
    if ((bytes[at] ?? 0) <= 0x20) at = skipSpace(scan, at);
    const byte = bytes[at];
    at += 1;
    if (byte === 0x5d) return at;
    if (byte !== 0x2c) return -1;
    if ((bytes[at] ?? 0) <= 0x20) at = skipSpace(scan, at);
  }
}

/** Any value, inside `openAround` arrays and objects. */
export function skipValue(scan: Scan, start: number, openAround: number): number {
  switch (scan.bytes[start] ?? 0) {
    case 0x22:
      return skipString(scan, start + 1);
    case 0x7b:
    case 0x5b:
      return skipNested(scan, start, openAround);
    default:
      return skipPlainScalar(scan, start);
  }
}

function scanMembers(scan: Scan, start: number, openAround: number, places: RecordPlaces): number {
  const { bytes } = scan;
  const { names } = places;
  if (openAround >= scan.maxDepth) return -1;
  let at = skipSpace(scan, start + 1);
  if (bytes[at] === 0x7d) return at + 1;
  let name = -1;
  for (;;) {
    if (bytes[at] !== 0x22) return -1;
    name = names.read(at + 1, name);
    if (name === -1) return -1;
    at = skipColon(scan, names.end);
    if (at === -1) return -1;
    const valueStart = at;
    at = skipValue(scan, at, openAround + 1);
    if (at === -1) return -1;
    places.add(name, valueStart, at);
    let next = bytes[at] ?? 0;
    if (next <= 0x20) next = bytes[(at = skipSpace(scan, at))] ?? 0;
    at += 1;
    if (next === 0x7d) return at;
    if (next !== 0x2c) return -1;
    if ((bytes[at] ?? 0) <= 0x20) at = skipSpace(scan, at);
  }
}
