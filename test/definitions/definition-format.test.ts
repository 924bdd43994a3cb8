import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { definitionFile } from '../../src/definitions/definition-file.ts';
import { upstreamFile } from '../../src/definitions/upstream/upstream-file.ts';

const format = readFileSync(new URL('../../docs/definition-format.md', import.meta.url), 'utf8');
const inCode = new Set(format.match(/```[^]*?```|`[^`]+`/g)?.flatMap((code) => code.match(/[\w-]+/g) ?? []));

/** Keys at every depth of the schemas, the words that stand for a choice, and what is used where a key is absent. */
const found = { keys: new Set<string>(), words: new Set<string>(), defaults: new Set<string>() };
for (const schema of [definitionFile(), upstreamFile()]) {
  walk(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }));
}

function walk(part: unknown): void {
  if (Array.isArray(part)) for (const one of part) walk(one);
  if (typeof part !== 'object' || part === null || Array.isArray(part)) return;
  for (const [name, inner] of Object.entries(part)) {
    if (name === 'properties') walkProperties(inner as object);
    else if (name === 'enum' || name === 'const') addWords(inner);
    else if (name !== 'default' && name !== 'required') walk(inner);
  }
}

function walkProperties(properties: object): void {
  for (const [key, schema] of Object.entries(properties) as [string, { readonly default?: unknown }][]) {
    found.keys.add(key);
    if (['string', 'number', 'boolean'].includes(typeof schema.default)) {
      found.defaults.add(`${key} (${String(schema.default)})`);
    }
    walk(schema);
  }
}

function addWords(values: unknown): void {
  for (const value of [values].flat()) if (typeof value === 'string') found.words.add(value);
}

describe('docs/definition-format.md', () => {
  it('names every key of the schema', () => {
    expect(found.keys.size).toBeGreaterThan(150);
    expect([...found.keys].filter((key) => !inCode.has(key))).toEqual([]);
  });

  it('names every value that a key may have', () => {
    expect(found.words.size).toBeGreaterThan(60);
    expect([...found.words].filter((word) => !inCode.has(word))).toEqual([]);
  });

  it('names what is used where a key is absent', () => {
    const plain = format.replaceAll('`', '').replaceAll(/\s+/g, ' ');
    const isNamed = (one: string): boolean => {
      const [, key = '', value = ''] = /^(.*) \((.*)\)$/.exec(one) ?? [];
      const escaped = value.replaceAll(/[^\w]/g, '.');
      return new RegExp(String.raw`\b${key}\b[^.;(]{0,120}\((?:[^)]*\b)?${escaped}`).test(plain);
    };
    expect(found.defaults.size).toBeGreaterThan(10);
    expect([...found.defaults].filter((one) => !isNamed(one))).toEqual([]);
  });
});
