import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { interpolate } from '../../src/settings/config-files.ts';
import { missingHere } from '../../src/settings/texts.ts';
import { it, type ConfigFolder } from '../support/settings/config-folder.ts';

let folder: ConfigFolder;
let notes: string[];
it.beforeEach(({ configs }) => {
  folder = configs;
  notes = [];
});

describe('putting values into the config file', () => {
  it('replaces variables anywhere in a text, with defaults for missing and empty ones', () => {
    expect(run({ a: 'x${A}y${B:-b}${EMPTY:-e}', n: [{ b: '${A}' }] }, { A: '1', EMPTY: '' })).toEqual({
      a: 'x1ybe',
      n: [{ b: '1' }],
    });
    expect(run('${A:-}', {})).toBe('');
    expect(run('${A:-redis://h:1/}', {})).toBe('redis://h:1/');
    expect(notes).toEqual([]);
  });

  it('leaves keys, numbers and escaped references alone', () => {
    expect(run({ '${A}': 1, b: true, c: null, d: '$${A} $A $' }, { A: 'x' })).toEqual({
      '${A}': 1,
      b: true,
      c: null,
      d: '${A} $A $',
    });
  });

  it('does not look again at what it put in', () => {
    expect(run('${A}', { A: '${B} $& ${file:/etc/passwd}', B: 'no' })).toBe('${B} $& ${file:/etc/passwd}');
  });

  it.each([
    ['${A}', 'the environment variable A is not set'],
    ['${EMPTY}', 'the environment variable EMPTY is empty'],
    ['${toString}', 'the environment variable toString is not set'],
    ['${A', 'expected } after ${'],
    ['${A B}', 'expected ${NAME}'],
    ['${}', 'expected ${NAME}'],
    ['${file:none}', 'cannot be read (ENOENT)'],
    ['${file:.}', 'expected a file, got something else'],
  ])('notes what is wrong with %s', (text, expected) => {
    run({ deep: [text] }, { EMPTY: '' });
    expect(notes).toHaveLength(1);
    expect(notes[0]).toContain(`deep.0: ${expected.slice(0, 3) === 'can' ? 'the secret file' : expected}`);
    expect(notes[0]).toContain(expected);
  });

  it('says which values came from outside', () => {
    const { hidden } = interpolate({ a: ['x', '${A}'] }, { folder: folder.path, env: { A: '1' } });
    expect(hidden).toEqual(new Set(['a.1']));
  });
});

describe('a secret file', () => {
  it('is read relative to the config file, without its last line end', () => {
    mkdirSync(path.join(folder.path, 'sub'));
    folder.write('sub/secret', 'hu sh\n\r\n');
    symlinkSync('sub/secret', path.join(folder.path, 'link'));
    expect(run('${file:./link}', {})).toBe('hu sh\n');
  });

  it.each([0o640, 0o604, 0o620, 0o601])('is refused when others may touch it (%i)', (mode) => {
    folder.write('secret', 'hush');
    chmodSync(path.join(folder.path, 'secret'), mode);
    expect(run('${file:secret}', {})).toBe(missingHere);
    expect(notes[0]).toContain('others may read or change the secret file');
  });

  it('is refused when it is too large or no text, and its content is never shown', () => {
    folder.write('large', 'hush'.repeat(20_000));
    folder.write('binary', '');
    execFileSync('sh', ['-c', `printf 'hush\\377' > "${path.join(folder.path, 'binary')}"`]);
    run(['${file:large}', '${file:binary}'], {});
    expect(notes[0]).toContain('expected a secret of at most 65536 bytes');
    expect(notes[1]).toContain('cannot be read (');
    expect(notes.join('\n')).not.toContain('hush');
  });

  it('does not wait for a pipe', () => {
    execFileSync('mkfifo', ['-m', '600', path.join(folder.path, 'pipe')]);
    run('${file:pipe}', {});
    expect(notes[0]).toContain('expected a file, got something else');
  });
});

function run(data: unknown, env: Record<string, string>): unknown {
  const { data: put, unresolved } = interpolate(data, { folder: folder.path, env });
  for (const { at, message } of unresolved) notes.push(`${at.map(String).join('.')}: ${message}`);
  return put;
}
