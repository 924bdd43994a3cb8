import path from 'node:path';
import Database from 'better-sqlite3';
import type { EntityTable } from '../../src/core/records.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import type { SinkOptions } from '../../src/sinks/sink-access.ts';
import { type Row, sameRow, jsonlRows, sqliteRows } from './expected-rows.ts';

export interface SampleSink {
  options(folder: string): SinkOptions;
  /** The same as a config file has it below the sink's name. */
  settings(folder: string): Readonly<Record<string, string>>;
  /** Live rows as a reader of the sink finds them. */
  rows(folder: string, connector: string, table: EntityTable): ReadonlyMap<string, Row>;
  /** What a statement on the sink's ledger gives. */
  ledger(folder: string, sql: string): readonly unknown[];
}

export type SampleSinkType = 'sqlite' | 'jsonl' | 'postgres';

/** The file sinks in a folder. */
export const sampleSinks: Readonly<Record<'sqlite' | 'jsonl', SampleSink>> = {
  sqlite: {
    options: (folder) => ({
      type: 'sqlite',
      name: 'test',
      path: path.join(folder, 'test.db'),
      durability: 'normal',
    }),
    settings: (folder) => ({ type: 'sqlite', path: path.join(folder, 'test.db'), durability: 'normal' }),
    rows: (folder, connector, table) => sqliteRows(path.join(folder, 'test.db'), connector, table),
    ledger: (folder, sql) => askFile(path.join(folder, 'test.db'), sql),
  },
  jsonl: {
    options: (folder) => ({
      type: 'jsonl',
      name: 'test',
      directory: path.join(folder, 'lake'),
      durability: 'normal',
    }),
    settings: (folder) => ({ type: 'jsonl', directory: path.join(folder, 'lake'), durability: 'normal' }),
    rows: (folder, connector, table) => jsonlRows(path.join(folder, 'lake'), connector, table),
    ledger: (folder, sql) => askFile(path.join(folder, 'lake/_ledger.db'), sql),
  },
};

/** One in PostgreSQL starts its server, so it is made where it is asked for. */
export async function sampleSinkOf(type: SampleSinkType): Promise<SampleSink> {
  return type === 'postgres'
    ? (await import('./all-sample-sinks.ts')).allSampleSinks.postgres
    : sampleSinks[type];
}

function askFile(file: string, sql: string): readonly unknown[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare(sql).all();
  } finally {
    db.close();
  }
}

export interface Differences {
  readonly lost: number;
  readonly superfluous: number;
  readonly different: number;
  readonly example: string | null;
}

/** Compares every table of a definition with the truth. Readers throw on torn lines and doubled rows. */
export function differencesFrom(
  truth: ReadonlyMap<string, ReadonlyMap<string, Row>>,
  definition: Definition,
  rowsOf: (table: EntityTable) => ReadonlyMap<string, Row>,
): Differences {
  let [lost, superfluous, different] = [0, 0, 0];
  let example: string | null = null;
  for (const { table, explodedTable } of definition.entities.values()) {
    for (const one of explodedTable === null ? [table] : [table, explodedTable]) {
      const expected = truth.get(one.entity) ?? new Map<string, Row>();
      const stored = rowsOf(one);
      for (const [key, row] of expected) {
        const found = stored.get(key);
        if (found === undefined) lost += 1;
        else if (!sameRow(found, row)) different += 1;
        else continue;
        example ??= `${one.entity} ${key}`;
      }
      for (const key of stored.keys()) {
        if (expected.has(key)) continue;
        superfluous += 1;
        example ??= `${one.entity} ${key}`;
      }
    }
  }
  return { lost, superfluous, different, example };
}

export const noDifferences: Differences = { lost: 0, superfluous: 0, different: 0, example: null };
