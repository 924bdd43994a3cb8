import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { parseYaml, readYaml } from '../../src/definitions/read-yaml.ts';

describe('reading YAML', () => {
  it('knows the line of every key and element, through anchors too', () => {
    const yaml = parseYaml('x.yaml', 'a: &a\n  b: 1\nc:\n  - x\n  - d: *a\n');
    expect(yaml.data).toEqual({ a: { b: 1 }, c: ['x', { d: { b: 1 } }] });
    expect(yaml.line([])).toBe(1);
    expect(yaml.line(['c', 1, 'd'])).toBe(5);
    expect(yaml.line(['c', 1, 'd', 'b'])).toBe(2);
  });

  it('gives the closest line for a place that does not exist', () => {
    const yaml = parseYaml('x.yaml', 'a:\n  b: 1\n');
    expect(yaml.line(['a', 'missing', 'deeper'])).toBe(1);
    expect(yaml.problem(['a', 'b', 0], 'no')).toEqual({
      file: 'x.yaml',
      line: 2,
      column: 3,
      path: 'a.b.0',
      message: 'no',
    });
  });

  it('takes dates, yes and no for texts', () => {
    expect(parseYaml('x.yaml', 'a: 2020-01-01\nb: yes\n1: no').data).toEqual({
      a: '2020-01-01',
      b: 'yes',
      1: 'no',
    });
  });

  it.each([
    ['broken syntax', 'a: [1', 1],
    ['a key twice', 'a: 1\na: 2', 2],
    ['a key twice inside another one', 'a: { b: 1, c: 2, b: 3 }', 1],
    ['a custom tag', 'a: !!js/function "x"', 1],
    ['two documents', 'a: 1\n---\nb: 1', 2],
    ['an alias without anchor', 'a: *b', 1],
    ['an anchor inside itself', 'a: &a\n  b: *a', 2],
    ['a key that reaches the prototype', 'a:\n  __proto__: { x: 1 }', 2],
    ['a key named prototype', 'prototype: 1', 1],
  ])('refuses %s', (_, text, line) => {
    const yaml = parseYaml('x.yaml', text);
    expect(yaml.data).toBeNull();
    expect(yaml.problems[0]).toMatchObject({ file: 'x.yaml', line });
  });

  it('refuses a bomb of aliases without unfolding it', () => {
    const levels = Array.from({ length: 12 }, (_, level) => {
      const use = level === 0 ? 'x' : `*l${level - 1}`;
      return `l${level}: &l${level} [${Array.from({ length: 9 }, () => use).join(', ')}]`;
    });
    const text = levels.join('\n');
    expect(parseYaml('x.yaml', text).problems).toEqual([
      expect.objectContaining({ message: expect.stringContaining('at most 2000000 values') as string }),
    ]);
  });

  it('takes an anchor that each of many entries uses', () => {
    const text = `a: &a { x: 1 }\nb:\n${'  - *a\n'.repeat(40_000)}`;
    const yaml = parseYaml('x.yaml', text);
    expect(yaml.problems).toEqual([]);
    expect(yaml.line(['b', 39_999, 'x'])).toBe(1);
  });

  it('says that a file is missing, too large or not in UTF-8', ({ folder }) => {
    expect(readYaml(path.join(folder, 'none.yaml')).problems[0]?.message).toMatch(/cannot be read: ENOENT/);
    writeFileSync(path.join(folder, 'large.yaml'), `# ${'x'.repeat(16 * 1024 * 1024)}`);
    expect(readYaml(path.join(folder, 'large.yaml')).problems[0]?.message).toMatch(/at most 16777216 bytes/);
    writeFileSync(path.join(folder, 'latin.yaml'), Buffer.from([0x61, 0x3a, 0x20, 0xe4]));
    expect(readYaml(path.join(folder, 'latin.yaml')).problems[0]?.message).toMatch(/cannot be read/);
  });
});
