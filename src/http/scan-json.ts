import { isAscii, isUtf8 } from 'node:buffer';
import type { JsonValue } from '../core/json.ts';
import { parseJsonText } from './lossless-json.ts';
import { decodeString } from './member-names.ts';
import { memberWidth, RecordPlaces, scanRecords, skipValue } from './scan-records.ts';
import { skipColon, skipSpace, skipString, type Scan } from './skip-json.ts';

/** The records of an answer, by their places in its bytes. */
export interface ScannedPage {
  /** The whole answer, after decompression. */
  readonly bytes: Buffer;
  /** The text of the answer with `[]` for the array of records. */
  readonly rest: string;
  /** Elements of the array. */
  readonly count: number;
  /** Element i lies in the bytes from `starts[i]` to before `ends[i]`. */
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  /**
   * An element that is an object has the members from `firstMember[i]` to before `firstMember[i + 1]`, in the order
   * they came in, also those whose name comes again; other elements have none.
   */
  readonly firstMember: Uint32Array;
  /** `memberWidth` numbers for each member: its name in `names`, start and end of its value. */
  readonly members: Uint32Array;
  /** Decoded, each once. */
  readonly names: readonly string[];
  readonly isAscii: boolean;
  /** Some integer has 16 digits or more, so that a double may not hold it. */
  readonly hasLongNumbers: boolean;
}

/** Places are 32-bit numbers, and V8 computes fast with 31 bits. */
const maxBytes = 2 ** 30;

/**
 * Finds the records of an answer without making values of them: the array at the only one of `paths` (names of objects)
 * that leads to one. Accepts what JSON.parse accepts and nothing else.
 *
 * Null for an answer that is to be read whole: no JSON, no UTF-8, a byte order mark; no such array, or two; a name of a
 * path twice in an object; more than `maxDepth` arrays and objects inside each other; more than 10,000 names of
 * members; a number of more than 200 bytes, or with three digits in an exponent above zero.
 */
export function scanPage(
  bytes: Buffer,
  paths: readonly (readonly string[])[],
  maxDepth: number,
): ScannedPage | null {
  const isAsciiOnly = isAscii(bytes);
  if (bytes.length > maxBytes || !(isAsciiOnly || isUtf8(bytes))) return null;
  const scan: Scan = { bytes, isAscii: isAsciiOnly, maxDepth, hasLongNumbers: false };
  const found = findRecords(scan, paths);
  if (found === null) return null;
  const { places, start, end } = found;
  const encoding = isAsciiOnly ? 'latin1' : 'utf8';
  return {
    bytes,
    rest: `${bytes.toString(encoding, 0, start)}[]${bytes.toString(encoding, end)}`,
    count: places.count,
    starts: places.starts.subarray(0, places.count),
    ends: places.ends.subarray(0, places.count),
    firstMember: places.firstMember.subarray(0, places.count + 1),
    members: places.members.subarray(0, places.memberCount * memberWidth),
    names: places.names.names,
    isAscii: isAsciiOnly,
    hasLongNumbers: scan.hasLongNumbers,
  };
}

interface FoundRecords {
  readonly places: RecordPlaces;
  readonly start: number;
  readonly end: number;
}

/** An object on the way to an array. */
interface OpenObject {
  readonly paths: readonly (readonly string[])[];
  readonly met: Set<string>;
}

/** Reads the whole answer. */
function findRecords(scan: Scan, paths: readonly (readonly string[])[]): FoundRecords | null {
  const { bytes } = scan;
  const open: OpenObject[] = [];
  let found: FoundRecords | null = null;
  let here = paths;
  let at = skipSpace(scan, 0);
  for (;;) {
    // A value begins; `here` are the paths that lead to it, or through it.
    const level = open.length;
    const byte = bytes[at];
    if (byte === 0x5b && here.some((path) => path.length === level)) {
      if (found !== null) return null;
      const places = new RecordPlaces(scan);
      const end = scanRecords(scan, at, level, places);
      found = { places, start: at, end };
      at = end;
    } else if (byte === 0x7b && level < scan.maxDepth && here.some((path) => path.length > level)) {
      open.push({ paths: here, met: new Set() });
      at = skipSpace(scan, at + 1);
    } else at = skipValue(scan, at, level);
    if (at === -1) return null;
    if (open.length === level || bytes[at] === 0x7d) {
      at = skipEnds(scan, at, open);
      if (at === -1) return null;
      if (open.length === 0) return at === bytes.length ? found : null;
    }
    const next = readName(scan, at, open);
    if (next === null) return null;
    ({ at, here } = next);
  }
}

/** From behind a value to the next name of an open object, or to what follows the last one's end. */
function skipEnds(scan: Scan, start: number, open: OpenObject[]): number {
  let at = skipSpace(scan, start);
  for (; open.length > 0 && scan.bytes[at] === 0x7d; open.pop()) at = skipSpace(scan, at + 1);
  if (open.length === 0) return at;
  return scan.bytes[at] === 0x2c ? skipSpace(scan, at + 1) : -1;
}

/** To the value of the next member of the innermost open object. */
function readName(
  scan: Scan,
  start: number,
  open: readonly OpenObject[],
): { readonly at: number; readonly here: OpenObject['paths'] } | null {
  const last = open.at(-1);
  const nameEnd = scan.bytes[start] === 0x22 ? skipString(scan, start + 1) : -1;
  const at = nameEnd === -1 ? -1 : skipColon(scan, nameEnd);
  if (at === -1 || last === undefined) return null;
  const name = decodeString(scan, start, nameEnd);
  const here = last.paths.filter((path) => path[open.length - 1] === name);
  if (here.length > 0) {
    if (last.met.has(name)) return null;
    last.met.add(name);
  }
  return { at, here };
}

/** The JSON text between two places. */
export function textOf({ bytes, isAscii }: ScannedPage, start: number, end: number): string {
  return bytes.toString(isAscii ? 'latin1' : 'utf8', start, end);
}

/** The value between two places. */
export function valueOf(page: ScannedPage, start: number, end: number): JsonValue {
  const { bytes } = page;
  switch (bytes[start] ?? 0) {
    case 0x22: {
      const inside = textOf(page, start + 1, end - 1);
      if (!inside.includes('\\')) return inside;
      break;
    }
    case 0x6e:
      return null;
    case 0x74:
      return true;
    case 0x66:
      return false;
    case 0x5b:
    case 0x7b:
      break;
    default:
      if (!page.hasLongNumbers) return Number(textOf(page, start, end));
  }
  const text = textOf(page, start, end);
  // `as`: JSON.parse returns JSON and nothing else.
  return page.hasLongNumbers ? parseJsonText(text) : (JSON.parse(text) as JsonValue);
}
