import { describe, expect, it } from 'vitest';
import { readBody, textOfBody, UnreadableBodyError } from '../../src/http/exchange.ts';

describe('the text of a body', () => {
  it.each([
    ['ASCII', 'plain text'],
    ['Latin letters', 'Łódź, bücher'],
    ['letters of two code units', 'a 😀 b'],
    ['nothing', ''],
  ])('is read whole: %s', async (_, text) => {
    expect(textOfBody(await readBody(new TextEncoder().encode(text), null, 1_000))).toBe(text);
  });

  it('is only that part of the memory that it fills', async () => {
    const memory = new TextEncoder().encode('before{"a":1}behind');
    expect(textOfBody(await readBody(memory.subarray(6, 13), null, 1_000))).toBe('{"a":1}');
  });

  it('leaves a byte order mark out', async () => {
    expect(textOfBody(await readBody(Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d), null, 1_000))).toBe('{}');
  });

  it.each([
    ['a cut letter', Uint8Array.of(0x61, 0xc5)],
    ['ISO 8859-1', Uint8Array.of(0x62, 0xfc, 0x63)],
  ])('is refused where it is no UTF-8: %s', async (_, bytes) => {
    await expect(readBody(bytes, null, 1_000)).rejects.toThrow(UnreadableBodyError);
  });
});
