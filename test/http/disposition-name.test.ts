import { expect, it } from 'vitest';
import { dispositionName } from '../../src/http/exchange.ts';

it.each([
  [null, null],
  ['', null],
  ['attachment', null],
  ['attachment; filename=plain.txt', 'plain.txt'],
  ['attachment; filename="with space.txt"', 'with space.txt'],
  [String.raw`attachment; filename="a\"b\\c.txt"`, String.raw`a"b\c.txt`],
  ['attachment; filename="fallback.txt"; filename*=UTF-8\'\'%e2%82%ac%20rates.txt', '€ rates.txt'],
  ["attachment; filename*=UTF-8'de'Gr%C3%B6%C3%9Fe.txt; filename=x", 'Größe.txt'],
  ["attachment; filename*=iso-8859-1''Gr%f6%dfe.txt", 'Größe.txt'],
  ["attachment; filename*=utf-16''%00a; filename=b", 'b'],
  ["attachment; filename*=UTF-8''%ff%fe; filename=b", 'b'],
  ["attachment; filename*=UTF-8''%zz.txt", '%zz.txt'],
  ['attachment; filename=""', null],
  ['attachment; FileName = upper.txt', 'upper.txt'],
  // UTF-8 bytes as a header carries them.
  [`attachment; filename="${Buffer.from('Größe.txt').toString('latin1')}"`, 'Größe.txt'],
  ['attachment; filename="Gr\u00f6\u00dfe.txt"', 'Größe.txt'],
  ['attachment; filename="../../etc/passwd"', '../../etc/passwd'],
])('%j names %j', (header, name) => {
  expect(dispositionName(header)).toBe(name);
});

it('cuts a long name, and finds none in what never ends', () => {
  expect(dispositionName(`attachment; filename="${'a'.repeat(5_000)}"`)).toBe('a'.repeat(1_000));
  expect(dispositionName(`attachment; filename="${'\\'.repeat(16_000)}`)).toBeNull();
  expect(dispositionName(`attachment; ${'filename="'.repeat(1_600)}`)).not.toContain(';');
});
