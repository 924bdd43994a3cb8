/**
 * What the scanner of an answer shares with the functions that read its values, one after the other. They return the
 * place behind what they read, or -1 where that is no JSON.
 */
export interface Scan {
  readonly bytes: Buffer;
  readonly isAscii: boolean;
  /** More arrays and objects inside each other than this are refused. */
  readonly maxDepth: number;
  /** Bits of `Mark`, set by what was read since they were last cleared. */
  marks: number;
  hasLongNumbers: boolean;
}

export const Mark = {
  /** A string held a backslash. */
  escape: 1,
  /** `canonicalJson` would write this in another way, or may. */
  notCanonical: 2,
} as const;

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
  if (at !== start) scan.marks |= Mark.notCanonical;
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
  scan.marks |= Mark.escape;
  switch (scan.bytes[start] ?? 0) {
    case 0x22: // "
    case 0x5c: // \
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return start + 1;
    case 0x2f: // /
      scan.marks |= Mark.notCanonical;
      return start + 1;
    case 0x75: // u
      scan.marks |= Mark.notCanonical;
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

export function isDigit(byte: number): boolean {
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
  const isNegative = bytes[start] === 0x2d;
  const whole = isNegative ? start + 1 : start;
  const point = skipDigits(bytes, whole);
  const isZero = bytes[whole] === 0x30;
  if (point === whole || (isZero && point > whole + 1)) return -1;
  const next = bytes[point];
  if (next !== 0x2e && next !== 0x65 && next !== 0x45) {
    if (point - whole > 15) {
      scan.hasLongNumbers = true;
      scan.marks |= Mark.notCanonical;
      if (point - start > maxNumberLength) return -1;
    } else if (isZero && isNegative) scan.marks |= Mark.notCanonical;
    return point;
  }
  let end = point;
  if (next === 0x2e) {
    end = skipDigits(bytes, point + 1);
    if (end === point + 1) return -1;
    if (!isCanonicalFraction(bytes, whole, end)) scan.marks |= Mark.notCanonical;
  }
  if (bytes[end] === 0x65 || bytes[end] === 0x45) {
    scan.marks |= Mark.notCanonical;
    end = skipExponent(bytes, end + 1);
  }
  return end - start > maxNumberLength ? -1 : end;
}

function skipDigits(bytes: Uint8Array, start: number): number {
  let at = start;
  while (isDigit(bytes[at] ?? 0)) at += 1;
  return at;
}

/** At most 15 digits, which a double gives back as they are; no zero at the end; not below a millionth. */
function isCanonicalFraction(bytes: Uint8Array, whole: number, end: number): boolean {
  if (end - whole > 16 || bytes[end - 1] === 0x30) return false;
  if (bytes[whole] !== 0x30) return true;
  let at = whole + 2;
  while (bytes[at] === 0x30) at += 1;
  return at - whole - 2 < 6;
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
