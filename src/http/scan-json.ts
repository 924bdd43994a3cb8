import { isAscii, isUtf8 } from 'node:buffer';
import type { JsonValue } from '../core/json.ts';
import { parseJsonText } from './lossless-json.ts';

/** The records of an answer, by their places in its bytes. */
export type ScannedPage = Readonly<NonNullable<ReturnType<typeof scanPage>>>;

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
export function scanPage(bytes: Buffer, paths: readonly (readonly string[])[], maxDepth: number) {
  const isAsciiOnly = isAscii(bytes);
  if (bytes.length > maxBytes || !(isAsciiOnly || isUtf8(bytes))) return null;
  const scan: Scan = {
    bytes,
    isAscii: isAsciiOnly,
    maxDepth,
    deepest: 0,
    flags: 0,
    hasLongNumbers: false,
  };
  const found: FoundRecords = { places: null, start: 0, end: 0 };
  const behind = findRecords(scan, skipSpace(scan, 0), 0, paths, found);
  const { places, start, end } = found;
  if (places === null || behind === -1 || skipSpace(scan, behind) !== bytes.length) return null;
  const encoding = isAsciiOnly ? 'latin1' : 'utf8';
  return {
    /** The whole answer, after decompression. */
    bytes,
    /** The text of the answer with `[]` for the array of records. */
    rest: `${bytes.toString(encoding, 0, start)}[]${bytes.toString(encoding, end)}`,
    /** Elements of the array. */
    count: places.count,
    /** Element i lies in the bytes from `starts[i]` to before `ends[i]`. */
    starts: places.starts.subarray(0, places.count),
    ends: places.ends.subarray(0, places.count),
    /**
     * An element that is an object has the members from `firstMember[i]` to before `firstMember[i + 1]`, in the order
     * they came in, also those whose name comes again; other elements have none.
     */
    firstMember: places.firstMember.subarray(0, places.count + 1),
    /** `memberWidth` numbers for each member: its name in `names`, start and end of its value, and `valueFlags`. */
    members: places.members.subarray(0, places.memberCount * memberWidth),
    /** Decoded, each once. */
    names: places.names.names as readonly string[],
    isAscii: isAsciiOnly,
    /** Most arrays and objects inside each other. */
    deepest: scan.deepest,
    /** Some integer has 16 digits or more, so that a double may not hold it. */
    hasLongNumbers: scan.hasLongNumbers,
  };
}

/** Where the array of records was found. */
interface FoundRecords {
  places: RecordPlaces | null;
  start: number;
  end: number;
}

/**
 * Reads a value inside `level` objects, to which `paths` lead, or through it. Returns the place behind it, or -1 where
 * it is to be read whole.
 */
function findRecords(
  scan: Scan,
  start: number,
  level: number,
  paths: readonly (readonly string[])[],
  found: FoundRecords,
): number {
  const { bytes } = scan;
  if (bytes[start] === 0x5b && paths.some((path) => path.length === level)) {
    if (found.places !== null) return -1;
    found.places = new RecordPlaces(scan);
    found.start = start;
    return (found.end = scanRecords(scan, start, level, found.places));
  }
  const isWay = level < scan.maxDepth && paths.some((path) => path.length > level);
  if (bytes[start] !== 0x7b || !isWay) return skipValue(scan, start, level);
  const met = new Set<string>();
  let at = skipSpace(scan, start + 1);
  if (bytes[at] === 0x7d) return at + 1;
  for (;;) {
    const nameEnd = bytes[at] === 0x22 ? skipString(scan, at + 1) : -1;
    const valueStart = nameEnd === -1 ? -1 : skipColon(scan, nameEnd);
    if (valueStart === -1) return -1;
    const name = decodeString(scan, at, nameEnd);
    const further = paths.filter((path) => path[level] === name);
    if (further.length > 0 && met.has(name)) return -1;
    met.add(name);
    const end = findRecords(scan, valueStart, level + 1, further, found);
    if (end === -1) return -1;
    at = skipSpace(scan, end);
    if (bytes[at] === 0x7d) return at + 1;
    if (bytes[at] !== 0x2c) return -1;
    at = skipSpace(scan, at + 1);
  }
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

/** Numbers that `members` has for each member: name, start, end and flags of the value. */
export const memberWidth = 4;

/** Facts about the text of a value, as bits. */
export const valueFlags = {
  /** It has letters outside ASCII. */
  wide: 1,
  /** It has a backslash. */
  escaped: 2,
  /** It has line ends, or characters written as numbers (`\u00e9`). */
  uneven: 4,
} as const;

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

  add(name: number, start: number, end: number, flags: number): void {
    const at = this.memberCount * memberWidth;
    if (at + memberWidth > this.members.length) this.members = doubled(this.members);
    const { members } = this;
    members[at] = name;
    members[at + 1] = start;
    members[at + 2] = end;
    members[at + 3] = flags;
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
    scan.flags = 0;
    at = skipValue(scan, at, openAround + 1);
    if (at === -1) return -1;
    places.add(name, valueStart, at, scan.flags);
    let next = bytes[at] ?? 0;
    if (next <= 0x20) next = bytes[(at = skipSpace(scan, at))] ?? 0;
    at += 1;
    if (next === 0x7d) return at;
    if (next !== 0x2c) return -1;
    if ((bytes[at] ?? 0) <= 0x20) at = skipSpace(scan, at);
  }
}

/** An answer with more different names is refused: its names are data. */
const maxNames = 10_000;
/** Names that are compared after the last one before the name is looked up. */
const maxGuesses = 3;

/**
 * The names of members, each with a number. Records mostly have the same names in the same order: the next one is
 * guessed from the last, and its bytes are compared, so that no string is made of a known name.
 */
export class MemberNames {
  readonly names: string[] = [];
  /** Behind the closing quote of the name that was read last. */
  end = 0;
  readonly #scan: Scan;
  readonly #numbers = new Map<string, number>();
  /** Where each name was met first, behind its opening quote, and how many bytes it has with the closing one. */
  readonly #starts: number[] = [];
  readonly #lengths: number[] = [];
  /** The name that followed a name when it was looked up last; the first element: the first name of an object. */
  readonly #nextNames: number[] = [-1];

  constructor(scan: Scan) {
    this.#scan = scan;
  }

  /** The number of the name whose text begins at `start`, -1 where it cannot be read. `last`: the one before, or -1. */
  read(start: number, last: number): number {
    let guess = this.#nextNames[last + 1] ?? -1;
    for (let guesses = 0; guess !== -1 && guesses < maxGuesses; guesses += 1) {
      if (this.#isAt(guess, start)) return guess;
      guess = this.#nextNames[guess + 1] ?? -1;
    }
    const number = this.#lookUp(start);
    if (number !== -1) this.#nextNames[last + 1] = number;
    return number;
  }

  #isAt(number: number, start: number): boolean {
    const { bytes } = this.#scan;
    const length = this.#lengths[number] ?? 0;
    const first = this.#starts[number] ?? 0;
    for (let at = 0; at < length; at += 1) if (bytes[first + at] !== bytes[start + at]) return false;
    this.end = start + length;
    return true;
  }

  #lookUp(start: number): number {
    const end = skipString(this.#scan, start);
    if (end === -1) return -1;
    this.end = end;
    const name = decodeString(this.#scan, start - 1, end);
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    const number = this.names.length;
    if (number === maxNames) return -1;
    this.names.push(name);
    this.#numbers.set(name, number);
    this.#starts.push(start);
    this.#lengths.push(end - start);
    this.#nextNames.push(-1);
    return number;
  }
}

/** A string with its quotes. */
export function decodeString({ bytes, isAscii }: Scan, start: number, end: number): string {
  const text = bytes.toString(isAscii ? 'latin1' : 'utf8', start + 1, end - 1);
  // `as`: a string literal makes a string.
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

/**
 * State that the scanner of an answer shares with the functions that read its values, one after the other. They return
 * the position behind the value, or -1 for invalid JSON.
 */
export interface Scan {
  readonly bytes: Buffer;
  readonly isAscii: boolean;
  /** More arrays and objects inside each other than this are refused. */
  readonly maxDepth: number;
  /** Most arrays and objects inside each other, below the records' own. */
  deepest: number;
  /** `valueFlags` of what was read since they were cleared. */
  flags: number;
  hasLongNumbers: boolean;
}

/** A longer number is refused: with an exponent of two digits, a double can hold every shorter one. */
const maxNumberLength = 200;

/** Bytes inside a string: 0 ends the plain part, and the first bit says that there is a letter outside ASCII. */
const plainBytes = new Uint8Array(256).fill(2, 0x20, 0x80).fill(2 | valueFlags.wide, 0x80);
plainBytes[0x22] = 0;
plainBytes[0x5c] = 0;

/** Past spaces, tabs and line ends. */
export function skipSpace(scan: Scan, start: number): number {
  const { bytes } = scan;
  let at = start;
  for (let byte = bytes[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;) {
    if (byte === 0x0a || byte === 0x0d) scan.flags |= valueFlags.uneven;
    at += 1;
    byte = bytes[at];
  }
  return at;
}

/** `start`: behind the opening quote. */
export function skipString(scan: Scan, start: number): number {
  const { bytes } = scan;
  let at = start;
  let met = 0;
  for (;;) {
    for (let plain = plainBytes[bytes[at] ?? 0] ?? 0; plain !== 0; plain = plainBytes[bytes[at] ?? 0] ?? 0) {
      met |= plain;
      at += 1;
    }
    if (bytes[at] === 0x22) {
      scan.flags |= met & valueFlags.wide;
      return at + 1;
    }
    if (bytes[at] !== 0x5c) return -1;
    scan.flags |= valueFlags.escaped;
    at = skipEscape(scan, at + 1);
    if (at === -1) return -1;
  }
}

/** `start`: behind the backslash. */
function skipEscape(scan: Scan, start: number): number {
  switch (scan.bytes[start] ?? 0) {
    case 0x22: // "
    case 0x5c: // \
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
    case 0x2f: // /
      return start + 1;
    case 0x75: // u
      scan.flags |= valueFlags.uneven;
      for (let at = start + 1; at <= start + 4; at += 1) if (!isHexDigit(scan.bytes[at] ?? 0)) return -1;
      return start + 5;
    default:
      return -1;
  }
}

function isHexDigit(byte: number): boolean {
  const lower = byte | 0x20;
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66);
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** A number, true, false or null. */
export function skipPlainScalar(scan: Scan, start: number): number {
  const { bytes } = scan;
  switch (bytes[start] ?? 0) {
    case 0x74:
      return isWord(bytes, start, 0x72, 0x75, 0x65) ? start + 4 : -1;
    case 0x6e:
      return isWord(bytes, start, 0x75, 0x6c, 0x6c) ? start + 4 : -1;
    case 0x66:
      return bytes[start + 1] === 0x61 && isWord(bytes, start + 1, 0x6c, 0x73, 0x65) ? start + 5 : -1;
    default:
      return skipNumber(scan, start);
  }
}

function isWord(bytes: Uint8Array, at: number, second: number, third: number, fourth: number): boolean {
  return bytes[at + 1] === second && bytes[at + 2] === third && bytes[at + 3] === fourth;
}

function skipNumber(scan: Scan, start: number): number {
  const { bytes } = scan;
  const whole = bytes[start] === 0x2d ? start + 1 : start;
  const point = skipDigits(bytes, whole);
  if (point === whole || (bytes[whole] === 0x30 && point > whole + 1)) return -1;
  const next = bytes[point];
  if (next !== 0x2e && next !== 0x65 && next !== 0x45) {
    if (point - whole > 15) scan.hasLongNumbers = true;
    return point - start > maxNumberLength ? -1 : point;
  }
  let end = point;
  if (next === 0x2e) {
    end = skipDigits(bytes, point + 1);
    if (end === point + 1) return -1;
  }
  if (bytes[end] === 0x65 || bytes[end] === 0x45) end = skipExponent(bytes, end + 1);
  return end - start > maxNumberLength ? -1 : end;
}

function skipDigits(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isDigit(bytes[at] ?? 0)) at += 1;
  return at;
}

/** `start`: behind the letter. Three digits may lead out of a double's range, upwards: refused. */
function skipExponent(bytes: Uint8Array, start: number): number {
  const isSigned = bytes[start] === 0x2d || bytes[start] === 0x2b;
  const first = isSigned ? start + 1 : start;
  const end = skipDigits(bytes, first);
  return end === first || (end - first > 2 && bytes[start] !== 0x2d) ? -1 : end;
}

/** Past the colon and the spaces around it. */
export function skipColon(scan: Scan, start: number): number {
  const { bytes } = scan;
  let at = start;
  if ((bytes[at] ?? 0) <= 0x20) at = skipSpace(scan, at);
  if (bytes[at] !== 0x3a) return -1;
  at += 1;
  return (bytes[at] ?? 0) <= 0x20 ? skipSpace(scan, at) : at;
}

/** Marks the open levels that are objects. */
let isObjectAt = new Uint32Array(256);

/**
 * A whole array or object, inside `openAround` others. `start`: at its opening bracket.
 */
export function skipNested(scan: Scan, start: number, openAround: number): number {
  const { bytes, maxDepth } = scan;
  let at = start;
  // Levels below the outermost bracket.
  let depth = -1;
  let isObject = false;
  for (;;) {
    let byte = bytes[at] ?? 0;
    // A value begins here.
    if (byte === 0x22) at = skipString(scan, at + 1);
    else if (byte !== 0x7b && byte !== 0x5b) at = skipPlainScalar(scan, at);
    else {
      depth += 1;
      if (depth + openAround >= scan.deepest) {
        if (depth + openAround >= maxDepth) return -1;
        scan.deepest = depth + openAround + 1;
      }
      if (depth === isObjectAt.length) isObjectAt = doubled(isObjectAt);
      isObject = byte === 0x7b;
      isObjectAt[depth] = isObject ? 1 : 0;
      at += 1;
      byte = bytes[at] ?? 0;
      if (byte <= 0x20) byte = bytes[(at = skipSpace(scan, at))] ?? 0;
      if (byte !== (isObject ? 0x7d : 0x5d)) {
        if (isObject) at = skipName(scan, at);
        if (at === -1) return -1;
        continue;
      }
    }
    if (at === -1) return -1;
    // A value ended here: a comma, or the end of what holds it.
    for (;;) {
      byte = bytes[at] ?? 0;
      if (byte <= 0x20) byte = bytes[(at = skipSpace(scan, at))] ?? 0;
      at += 1;
      if (byte === 0x2c) break;
      if (byte !== (isObject ? 0x7d : 0x5d)) return -1;
      depth -= 1;
      if (depth === -1) return at;
      isObject = isObjectAt[depth] === 1;
    }
    if ((bytes[at] ?? 0) <= 0x20) at = skipSpace(scan, at);
    if (isObject) at = skipName(scan, at);
    if (at === -1) return -1;
  }
}

/** A name and its colon, to the first byte of the value. */
function skipName(scan: Scan, start: number): number {
  if (scan.bytes[start] !== 0x22) return -1;
  const end = skipString(scan, start + 1);
  if (end === -1) return -1;
  return skipColon(scan, end);
}
