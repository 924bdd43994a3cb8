import { setImmediate } from 'node:timers/promises';
import { diceFor, mix, type Dice } from '../dice.ts';

export interface FileKind {
  readonly contentType: string;
  /** Makes a row of a file of lines; null: its bytes are noise. */
  readonly line: ((seed: number, row: number) => string) | null;
  readonly head: Buffer;
  readonly tail: Buffer;
}

/** By the end of a file's name. */
export function fileKindOf(name: string): FileKind {
  return kinds.get(name.toLowerCase().split('.').at(-1) ?? '') ?? binary;
}

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
export function* fileChunks({ seed, kind, size }: FileContent): Generator<Uint8Array> {
  const { head, tail } = kind;
  const bodySize = size - head.length - tail.length;
  for (let offset = 0, index = 0; offset < size; offset += chunkSize, index += 1) {
    const chunk = Buffer.alloc(Math.min(chunkSize, size - offset));
    if (kind.line === null) fillNoise(chunk, mix(seed, index));
    else fillLines(chunk, seed, index, kind.line);
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
const binary: FileKind = { contentType: 'application/octet-stream', line: null, head: none, tail: none };

/** One pixel's worth of header; what follows it is noise, so no program shows such a file. */
const pngHead = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex');
const pngTail = Buffer.from('0000000049454e44ae426082', 'hex');
const pdfHead = Buffer.from('%PDF-1.7\n%\u00e2\u00e3\u00cf\u00d3\n', 'latin1');
const zipHead = Buffer.from('504b0304140000000800', 'hex');

const kinds: ReadonlyMap<string, FileKind> = new Map([
  ['txt', { ...binary, contentType: 'text/plain; charset=utf-8', line: textLine }],
  ['csv', { ...binary, contentType: 'text/csv', line: csvRow }],
  ['png', { ...binary, contentType: 'image/png', head: pngHead, tail: pngTail }],
  ['pdf', { ...binary, contentType: 'application/pdf', head: pdfHead, tail: Buffer.from('\n%%EOF\n') }],
  ['zip', { ...binary, contentType: 'application/zip', head: zipHead }],
]);
