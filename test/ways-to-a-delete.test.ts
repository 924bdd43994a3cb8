import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

const source = path.resolve('src');

/** Files of `src` with a line that matches, by path, with how many of their lines do. */
function linesWith(pattern: RegExp): Readonly<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const entry of readdirSync(source, { recursive: true, encoding: 'utf8' }).sort()) {
    if (!entry.endsWith('.ts')) continue;
    const lines = readFileSync(path.join(source, entry), 'utf8').split('\n');
    const count = lines.filter((line) => pattern.test(line) && !/^\s*(\/\/|\/?\*)/.test(line)).length;
    if (count > 0) found[entry.split(path.sep).join('/')] = count;
  }
  return found;
}

/**
 * A new line in one of these lists is a new way to a delete: it must pass `deleteRows` with a permission that the
 * guards or a person gave, and be added here knowingly.
 */
// Proves promise 4
it('marks a row as deleted by one statement, which the gate alone calls', () => {
  expect(linesWith(/\b_?deleted_at\s*=\s*(\?|:|excluded|'|CASE|iif)/i)).toEqual({
    'sinks/records/mark-rows.ts': 1,
  });
  expect(linesWith(/\.tombstone\((row|number)\b|table\??\.tombstone\(/)).toEqual({
    'sinks/ledger/deletes/ledger-deletes.ts': 1,
  });
});

it('reaches the gate from three places: missing rows, rows below deleted records, and a person who names a record or a run', () => {
  expect(linesWith(/(?<!function )\bdeleteRows\(/)).toEqual({
    'sinks/ledger/deletes/ledger-deletes.ts': 3,
    'sinks/ledger/repair/ledger-repair.ts': 2,
  });
  expect(linesWith(/permission: .*'(judged|along|allowed)'(?! \|)/)).toEqual({
    'sinks/ledger/deletes/ledger-deletes.ts': 2,
    'sinks/ledger/repair/ledger-repair.ts': 2,
  });
});

it('asks for deletes only where the guards have judged, and where a person named a record with --allow-deletes', () => {
  expect(linesWith(/deletes\.tombstone\(/)).toEqual({ 'engine/sweep/sweep-run.ts': 1 });
  expect(linesWith(/deletes\.tombstoneBelow\(/)).toEqual({ 'engine/sweep/sweep-run.ts': 1 });
  expect(linesWith(/repair\.tombstoneRecord\(/)).toEqual({ 'app/refetch-record.ts': 1 });
});

it('lets deletes pass without the guards only if a person allowed it, and in stores derived from other records', () => {
  expect(linesWith(/deletes\.allow\(/)).toEqual({ 'engine/sweep/sweep-run.ts': 1 });
  expect(linesWith(/allowDeletes: true/)).toEqual({
    'app/acts.ts': 1,
    'service/store/store-process.ts': 1,
  });
  // "Review deletes", which a person confirms.
  expect(linesWith(/'allow-deletes': async/)).toEqual({ 'app/acts.ts': 1 });
});
