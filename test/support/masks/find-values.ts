import { createHash } from 'node:crypto';
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode } from '../../../src/files/private-file.ts';

/**
 * The forms in which a value may be found: as it is, lower-case, as JSON, in CSV, in a URL, in hex, in base64 (also
 * inside a longer text that was encoded), and its plain hashes.
 */
function formsOf(value: string): readonly Buffer[] {
  const spellings = [...new Set([value, value.toLowerCase(), value.toUpperCase()])];
  return spellings.flatMap((text) => {
    const bytes = Buffer.from(text);
    const hashes = ['md5', 'sha1', 'sha256'].flatMap((algorithm) => {
      const digest = createHash(algorithm).update(text).digest();
      return [digest, ...textsOf(digest)];
    });
    const escaped = Array.from(
      text,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ).join('');
    const percent = [...bytes].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
    const json = JSON.stringify(text).slice(1, -1);
    // In CSV, also where it is JSON there.
    const doubled = [text, json].map((one) => one.replaceAll('"', '""'));
    const texts = [json, ...doubled, escaped, encodeURIComponent(text), percent];
    return [bytes, ...hashes, ...texts.map((one) => Buffer.from(one)), ...textsOf(bytes)];
  });
}

function textsOf(bytes: Buffer): readonly Buffer[] {
  const hex = bytes.toString('hex');
  const based = [0, 1, 2].flatMap((before) => {
    // The middle of it is the same wherever the bytes lie in what was encoded.
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replaceAll('=', '');
    const middle = text.slice(before === 0 ? 0 : before + 1, -1);
    return [middle, middle.replaceAll('+', '-').replaceAll('/', '_')];
  });
  return [hex, hex.toUpperCase(), ...based].map((text) => Buffer.from(text));
}

/** The first six bytes of a form, as 24 bits: hashes in hex begin in few ways, of which most are taken. */
function beginning(first: number, next: number): number {
  return Math.imul(first + 31 * next, 0x9e_37_79_b1) >>> 8;
}

/** Looks for values in bytes. Each is random and at least eight characters long, so that none is found by accident. */
export function openSearchFor(values: readonly string[]) {
  const isStart = new Uint8Array(1 << 24);
  const isBeginning = new Uint8Array(1 << 24);
  /** By the first three bytes and the length: many forms begin alike. */
  const byStart = new Map<number, Map<number, Map<string, string>>>();
  for (const value of values) {
    for (const form of formsOf(value)) {
      const start = form.readUIntBE(0, 3);
      isStart[start] = 1;
      isBeginning[beginning(start, form.readUIntBE(3, 3))] = 1;
      const byLength = byStart.get(start) ?? new Map<number, Map<string, string>>();
      const valueByForm = byLength.get(form.length) ?? new Map<string, string>();
      valueByForm.set(form.toString('latin1'), value);
      byStart.set(start, byLength.set(form.length, valueByForm));
    }
  }
  return (bytes: Buffer): ReadonlySet<string> => {
    const found = new Set<string>();
    let start = ((bytes[0] ?? 0) << 8) | (bytes[1] ?? 0);
    for (let at = 2; at + 3 < bytes.length; at += 1) {
      start = ((start << 8) | (bytes[at] ?? 0)) & 0xff_ff_ff;
      if (isStart[start] === 0 || isBeginning[beginning(start, bytes.readUIntBE(at + 1, 3))] === 0) continue;
      for (const [length, valueByForm] of byStart.get(start) ?? []) {
        const value = valueByForm.get(bytes.toString('latin1', at - 2, at - 2 + length));
        if (value !== undefined) found.add(value);
      }
    }
    return found;
  };
}

/** Every file below a folder, and every name. A server may remove some meanwhile. */
export function* contentsOf(folder: string): Generator<{ readonly place: string; readonly bytes: Buffer }> {
  for (const name of readdirSync(folder)) {
    const place = join(folder, name);
    yield { place: `the name of ${place}`, bytes: Buffer.from(name) };
    const kind = lstatSync(place, { throwIfNoEntry: false });
    if (kind === undefined) continue;
    if (kind.isDirectory()) yield* contentsOf(place);
    else if (kind.isSymbolicLink()) yield { place, bytes: Buffer.from(readlinkSync(place)) };
    else if (kind.isFile()) yield { place, bytes: bytesOf(place) };
  }
}

function bytesOf(place: string): Buffer {
  try {
    return readFileSync(place);
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return Buffer.alloc(0);
    throw error;
  }
}
