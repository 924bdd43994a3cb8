import { Mark, skipColon, skipPlainScalar, skipSpace, skipString, isDigit, type Scan } from './skip-json.ts';

/** Values nested deeper count as not canonical: fewer levels than `canonicalJson` can write. */
const canonicalDepth = 100;
/** The places of the last name in each open object: names of canonical JSON ascend. 0: none yet. */
const lastNames = new Uint32Array(canonicalDepth);
let isObjectAt = new Uint8Array(256);

/**
 * A whole array or object, inside `openAround` others. `start`: at its opening bracket. Sets `Mark.notCanonical` unless
 * the bytes are what `canonicalJson` writes of this value.
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
      if (depth >= canonicalDepth) scan.marks |= Mark.notCanonical;
      else lastNames[depth] = 0;
      if (depth === isObjectAt.length) isObjectAt = doubled(isObjectAt);
      isObject = byte === 0x7b;
      isObjectAt[depth] = isObject ? 1 : 0;
      at += 1;
      byte = bytes[at] ?? 0;
      if (byte <= 0x20) byte = bytes[(at = skipSpace(scan, at))] ?? 0;
      if (byte !== (isObject ? 0x7d : 0x5d)) {
        if (isObject) at = skipName(scan, at, depth);
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
    if (isObject) at = skipName(scan, at, depth);
    if (at === -1) return -1;
  }
}

function doubled(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(bytes.length * 2);
  larger.set(bytes);
  return larger;
}

/** A name and its colon, to the first byte of the value. */
function skipName(scan: Scan, start: number, depth: number): number {
  const { bytes } = scan;
  if (bytes[start] !== 0x22) return -1;
  const end = skipString(scan, start + 1);
  if (end === -1) return -1;
  if ((scan.marks & Mark.notCanonical) === 0) {
    if (!isCanonicalName(scan, lastNames[depth] ?? 0, start + 1)) scan.marks |= Mark.notCanonical;
    lastNames[depth] = start + 1;
  }
  return skipColon(scan, end);
}

/**
 * Whether a name comes behind the one before it, and is none that JavaScript puts elsewhere: one that begins with a
 * digit may be an index, and letters beyond ASCII sort by other units than bytes. Both places: behind the quote.
 */
function isCanonicalName(scan: Scan, last: number, start: number): boolean {
  const { bytes } = scan;
  if (isDigit(bytes[start] ?? 0) || (bytes[start] === 0x5f && isPrototypeName(bytes, start))) return false;
  for (let at = start; bytes[at] !== 0x22; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte >= 0x80 || byte === 0x5c) return false;
  }
  if (last === 0) return true;
  let at = 0;
  while (bytes[last + at] === bytes[start + at] && bytes[last + at] !== 0x22) at += 1;
  if (bytes[start + at] === 0x22) return false;
  return bytes[last + at] === 0x22 || (bytes[last + at] ?? 0) < (bytes[start + at] ?? 0);
}

const prototypeName = Buffer.from('__proto__"');

function isPrototypeName(bytes: Uint8Array, start: number): boolean {
  for (let at = 0; at < prototypeName.length; at += 1) {
    if (bytes[start + at] !== prototypeName[at]) return false;
  }
  return true;
}
