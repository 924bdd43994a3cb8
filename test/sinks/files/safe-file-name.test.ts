import { describe, expect, it } from 'vitest';
import { safeBase, safeFileName } from '../../../src/sinks/files/safe-file-name.ts';

describe('the name of a stored file', () => {
  // Proves promise 15.1
  it('begins with 16 hex digits of its key, so that two records never share one', () => {
    expect(safeFileName('["a1"]', 'notes.txt')).toMatch(/^[0-9a-f]{16}-notes\.txt$/);
    expect(safeFileName('["a1"]', 'notes.txt')).toBe(safeFileName('["a1"]', 'notes.txt'));
    expect(safeFileName('["a1"]', 'notes.txt')).not.toBe(safeFileName('["a2"]', 'notes.txt'));
    expect(safeFileName('["a1"]', null)).toMatch(/^[0-9a-f]{16}-file$/);
  });

  it.each([
    ['Größe & 100 %.txt', 'Größe & 100 %.txt'],
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\windows\\system.ini', 'system.ini'],
    ['/', 'file'],
    ['..', 'file'],
    ['', 'file'],
    ['folder/', 'folder'],
    ['.bashrc', 'bashrc'],
    ['...hidden', 'hidden'],
    ['ends.with.dots...', 'ends.with.dots'],
    ['  spaces  ', 'spaces'],
    ['con', '_con'],
    ['CON.txt', '_CON.txt'],
    ['com1.log', '_com1.log'],
    ['lpt\u00b9', '_lpt\u00b9'],
    ['console.txt', 'console.txt'],
    ['a\u0000b\nc\u001b[2Jd.txt', 'abc[2Jd.txt'],
    ['invoice\u202egpj.exe', 'invoicegpj.exe'],
    ['zero\u200bwidth\ufeff.txt', 'zerowidth.txt'],
    ['line\u2028end', 'lineend'],
    ['e\u0301te\u0301', '\u00e9t\u00e9'],
    ['lone \ud800 surrogate', 'lone \ufffd surrogate'],
    ['a<b>c:d"e|f?g*h', 'a_b_c_d_e_f_g_h'],
    ['stream.txt:hidden', 'stream.txt_hidden'],
    ['__proto__', '__proto__'],
    ['-rf', '-rf'],
  ])('makes of %j the harmless %j', (name, base) => {
    expect(safeBase(name)).toBe(base);
  });

  it('is at most 150 bytes behind the digits, cut between characters, with its extension', () => {
    for (const name of [`${'a'.repeat(400)}.pdf`, `${'ß'.repeat(400)}.pdf`, `${'😀'.repeat(400)}.pdf`]) {
      const base = safeBase(name);
      expect(Buffer.byteLength(base)).toBeLessThanOrEqual(150);
      expect(Buffer.byteLength(base)).toBeGreaterThan(140);
      expect(base.endsWith('.pdf')).toBe(true);
      expect(base.isWellFormed()).toBe(true);
    }
    expect(safeBase(`a.${'b'.repeat(400)}`)).toBe(`a.${'b'.repeat(148)}`);
    expect(safeBase('.'.repeat(100_000))).toBe('file');
  });
});
