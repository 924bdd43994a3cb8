import { setImmediate } from 'node:timers/promises';
import { diceFor, mix, type Dice } from '../dice.ts';

/** What a file is made of. */
export type FileKind = 'text' | 'csv' | 'png' | 'pdf' | 'zip' | 'binary';

const kinds: Readonly<Record<string, FileKind>> = {
  txt: 'text',
  csv: 'csv',
  png: 'png',
  pdf: 'pdf',
  zip: 'zip',
};

/** By the end of a file's name. */
export function fileKindOf(name: string): FileKind {
  return kinds[name.toLowerCase().split('.').at(-1) ?? ''] ?? 'binary';
}

export const contentTypes: Readonly<Record<FileKind, string>> = {
  text: 'text/plain; charset=utf-8',
  csv: 'text/csv',
  png: 'image/png',
  pdf: 'application/pdf',
  zip: 'application/zip',
  binary: 'application/octet-stream',
};

export interface FileContent {
  /** The same number makes the same bytes. */
  readonly seed: number;
  readonly kind: FileKind;
  /** In bytes, at least 100. */
  readonly size: number;
}

const chunkSize = 64 * 1024;

/**
 * The bytes of a file, chunk by chunk: the right magic at its start (and end, where the kind has one), and in between
 * words, rows or noise. Rejects with the signal's reason when that is aborted.
 */
export async function* fileBytes(content: FileContent, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for (const chunk of fileChunks(content)) {
    // Between two chunks others get their turn, as they do with bytes from a network.
    await setImmediate();
    signal.throwIfAborted();
    yield chunk;
  }
}

/** The same without a pause, for a checksum. */
export function* fileChunks(content: FileContent): Generator<Uint8Array> {
  const { head, tail } = frames[content.kind];
  const bodySize = content.size - head.length - tail.length;
  for (let offset = 0, index = 0; offset < content.size; offset += chunkSize, index += 1) {
    const chunk = Buffer.alloc(Math.min(chunkSize, content.size - offset));
    fill(chunk, content, index);
    // Where the frame reaches into the chunk; a head is shorter than a chunk, a tail may lie in two.
    if (offset === 0) head.copy(chunk);
    tail.copy(
      chunk,
      Math.max(0, head.length + bodySize - offset),
      Math.max(0, offset - head.length - bodySize),
    );
    yield chunk;
  }
}

function fill(chunk: Buffer, { seed, kind }: FileContent, index: number): void {
  if (kind === 'text' || kind === 'csv') fillLines(chunk, seed, index, kind === 'text' ? textLine : csvRow);
  else fillNoise(chunk, mix(seed, index));
}

/** Whole lines, then dots to the end: a cut sign would be no text. */
function fillLines(
  chunk: Buffer,
  seed: number,
  index: number,
  line: (seed: number, row: number) => string,
): void {
  let at = 0;
  for (let row = 0; ; row += 1) {
    const text = Buffer.from(line(seed, index * 10_000 + row));
    if (at + text.length >= chunk.length) break;
    text.copy(chunk, at);
    at += text.length;
  }
  chunk.fill('.', at);
  chunk.write('\n', chunk.length - 1);
}

const words = 'the agreement größer between отчёт page 会議 and delivery “quoted” naïve total'.split(' ');

function textLine(seed: number, row: number): string {
  const dice = diceFor(seed, row);
  return `${Array.from({ length: 6 + dice.below(8) }, () => wordOf(dice)).join(' ')}\n`;
}

function wordOf(dice: Dice): string {
  return words[dice.below(words.length)] ?? '';
}

function csvRow(seed: number, row: number): string {
  if (row === 0) return 'number,name,amount\n';
  const dice = diceFor(seed, row);
  return `${row},"${wordOf(dice)}, ${wordOf(dice)}",${(dice.below(1_000_000) / 100).toFixed(2)}\n`;
}

/** A xorshift generator: a large file is to cost no more than its way through the network. */
function fillNoise(chunk: Buffer, seed: number): void {
  let state = seed | 1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state;
  };
  const whole = chunk.length - (chunk.length % 4);
  for (let at = 0; at < whole; at += 4) chunk.writeInt32LE(next(), at);
  for (let at = whole; at < chunk.length; at += 1) chunk[at] = next() & 0xff;
}

const none = Buffer.alloc(0);

/** One pixel's worth of header; what follows it is noise, so no program shows such a file. */
const pngHead = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex');

const frames: Readonly<Record<FileKind, { readonly head: Buffer; readonly tail: Buffer }>> = {
  text: { head: none, tail: none },
  csv: { head: none, tail: none },
  png: { head: pngHead, tail: Buffer.from('0000000049454e44ae426082', 'hex') },
  pdf: {
    head: Buffer.from('%PDF-1.7\n%\u00e2\u00e3\u00cf\u00d3\n', 'latin1'),
    tail: Buffer.from('\n%%EOF\n'),
  },
  zip: { head: Buffer.from('504b0304140000000800', 'hex'), tail: none },
  binary: { head: none, tail: none },
};
