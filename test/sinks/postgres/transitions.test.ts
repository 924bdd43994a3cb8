import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { transitions as named } from '../../../src/sinks/ledger/partitions/transitions.ts';
import { transitions } from '../../../src/sinks/ledger/partitions/transitions.ts';

const room = path.join('src', 'sinks', 'postgres');
const texts = readdirSync(room, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(path.join(room, name), 'utf8'));

describe('partitions in PostgreSQL', () => {
  it('change by the named transitions, but for one: rows and ledger are one, and no row is lost alone', () => {
    const others = Object.keys(named).filter((name) => !(name in transitions));
    expect(others).toEqual(['distrust']);
    expect(Object.keys(transitions).filter((name) => !(name in named))).toEqual([]);
  });

  it('change by each of them from somewhere', () => {
    const called = new Set(
      texts.flatMap((text) => [...text.matchAll(/\btransitions\.(\w+)\(/g)].map(([, name]) => name)),
    );
    expect(called).toEqual(new Set(Object.keys(transitions)));
  });
});
