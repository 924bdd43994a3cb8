/**
 * What the scanner of an answer shares with the functions that read its values, one after the other. They return the
 * place behind what they read, or -1 where that is no JSON.
 */
export interface Scan {
  readonly bytes: Buffer;
  readonly isAscii: boolean;
  /** More arrays and objects inside each other than this are refused. */
  readonly maxDepth: number;
  hasLongNumbers: boolean;
}

/** A longer number is refused: with an exponent of two digits, a double can hold every shorter one. */
const maxNumberLength = 200;

const isPlain = new Uint8Array(256).fill(1, 0x20);
isPlain[0x22] = 0;
isPlain[0x5c] = 0;

/** Past spaces, tabs and line ends. */
export function skipSpace(scan: Scan, start: number): number {
  const { bytes } = scan;
  let at = start;
  for (let byte = bytes[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;) {
    at += 1;
    byte = bytes[at];
  }
  return at;
}

/** `start`: behind the opening quote. */
export function skipString(scan: Scan, start: number): number {
  const { bytes } = scan;
  let at = start;
  for (;;) {
    while (isPlain[bytes[at] ?? 0] === 1) at += 1;
    if (bytes[at] === 0x22) return at + 1;
    if (bytes[at] !== 0x5c) return -1;
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

/** Of each open level, whether it is an object. */
let isObjectAt = new Uint8Array(256);

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
      if (depth + openAround >= maxDepth) return -1;
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

function doubled(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(bytes.length * 2);
  larger.set(bytes);
  return larger;
}

/** A name and its colon, to the first byte of the value. */
function skipName(scan: Scan, start: number): number {
  if (scan.bytes[start] !== 0x22) return -1;
  const end = skipString(scan, start + 1);
  if (end === -1) return -1;
  return skipColon(scan, end);
}
