import { describe, expect } from 'vitest';
import { lineBytes } from '../../../src/sinks/jsonl/line-bytes.ts';
import { it } from '../../support/it.ts';

describe('lines as bytes', () => {
  it('are those of the joined texts, whatever their lengths, beyond a chunk too', () => {
    const pieces = ['a', 'é', '漢', '😀', '\u0000', '\ud800'];
    const lengths = [0, 1, 999, 60_000, 87_381, 87_382, 262_144, 300_000, 5];
    const texts = lengths.flatMap((length) => pieces.map((piece) => `${piece.repeat(length)}\n`));
    const lines = lineBytes();
    for (const text of texts) lines.add(text);
    const written = Buffer.concat(lines.chunks());
    expect(written.equals(Buffer.from(texts.join('')))).toBe(true);
  });

  it('are none after they were cleared', () => {
    const lines = lineBytes();
    expect(lines.isEmpty()).toBe(true);
    lines.add('one\n');
    expect(lines.isEmpty()).toBe(false);
    lines.clear();
    expect(lines.isEmpty()).toBe(true);
    lines.add('two\n');
    expect(Buffer.concat(lines.chunks()).toString()).toBe('two\n');
  });
});
