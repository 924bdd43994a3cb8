import { describe, expect, it } from 'vitest';
import { contentDisposition } from '../../../src/service/execution.ts';

/** As a client reads it: the extended name where there is one. */
function namesIn(header: string): { readonly plain: string; readonly exact: string } {
  const [, plain = '', extended] =
    /^attachment; filename="([^"\\]*)"(?:; filename\*=UTF-8''([A-Za-z0-9!#$&+\-.^_`|~%]*))?$/.exec(header) ??
    [];
  return { plain, exact: extended === undefined ? plain : decodeURIComponent(extended) };
}

describe('the name of a file in a header', () => {
  it.each([
    ['report.pdf', 'report.pdf', 'report.pdf'],
    ['two words (final) [2].txt', 'two words (final) [2].txt', 'two words (final) [2].txt'],
    ['Überblick März.csv', 'Überblick März.csv', '_berblick M_rz.csv'],
    ['週報 📝.txt', '週報 📝.txt', '__ _.txt'],
    [
      'notes "draft", 100% done; really.txt',
      'notes _draft_, 100% done; really.txt',
      'notes _draft_, 100_ done; really.txt',
    ],
    ['back\\slash.txt', 'slash.txt', 'slash.txt'],
    ['../../etc/passwd', 'passwd', 'passwd'],
    ['..\\..\\hosts', 'hosts', 'hosts'],
    ['C:\\Users\\ada.csv', 'ada.csv', 'ada.csv'],
    ['..', 'file', 'file'],
    ['.hidden', 'hidden', 'hidden'],
    ['CON', '_CON', '_CON'],
    ["it's *here*'.txt", "it's _here_'.txt", "it's _here_'.txt"],
    [
      'two\r\nX-Injected: yes\u0000\u001b[31m.txt',
      'twoX-Injected_ yes[31m.txt',
      'twoX-Injected_ yes[31m.txt',
    ],
    ['invoice\u202Efdp.txt', 'invoicefdp.txt', 'invoicefdp.txt'],
    ['%2e%2e%2f', '%2e%2e%2f', '_2e_2e_2f'],
    ['\u007f', 'file', 'file'],
  ])('%j is made harmless as %j, and as %j for clients that know ASCII alone', (name, exact, plain) => {
    const header = contentDisposition(name);
    expect(header).toMatch(/^[ -~]+$/);
    expect(namesIn(header)).toEqual({ plain, exact });
  });

  it('is left out where there is none', () => {
    expect(contentDisposition('')).toBe('attachment');
  });

  it('with a lone surrogate gets U+FFFD in its place', () => {
    expect(namesIn(contentDisposition('half\ud83d.txt')).exact).toBe('half\ufffd.txt');
  });

  it('is cut between two signs where it is longer than names can be, before its extension', () => {
    for (const name of [`${'a'.repeat(300)}.pdf`, `${'ж'.repeat(300)}.pdf`, `${'📝'.repeat(1_000)}.pdf`]) {
      const { exact } = namesIn(contentDisposition(name));
      expect(Buffer.byteLength(exact)).toBeLessThanOrEqual(150);
      expect(Buffer.byteLength(exact)).toBeGreaterThan(145);
      expect(exact.endsWith('.pdf')).toBe(true);
      expect(name.startsWith(exact.slice(0, -4))).toBe(true);
    }
    const { exact } = namesIn(contentDisposition(`a.${'b'.repeat(100_000)}`));
    expect(exact).toBe(`a.${'b'.repeat(148)}`);
  });
});
