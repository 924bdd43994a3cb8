import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, vi } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import type * as FileAccess from '../../src/sinks/file-access.ts';
import type * as Transitions from '../../src/sinks/ledger/partitions/transitions.ts';
import { schemaVersion } from '../../src/sinks/sqlite-next/schema.ts';
import { describeFileSink } from '../contracts/file-sink-contract.ts';
import { fileSinkKind } from '../contracts/file-sink/file-sink-kind.ts';
import { seenTransitions, wrongMoves } from '../support/sinks/observed-partitions.ts';
import { byKey, columnValue } from '../support/sinks/stored-record.ts';

/** SQLite sinks of this file are those whose rules are the ones of PostgreSQL. */
vi.mock('../../src/sinks/file-access.ts', async (importOriginal) => {
  const original = await importOriginal<typeof FileAccess>();
  const { sqliteNextAccess } = await import('../../src/sinks/sqlite-next/sqlite-access.ts');
  return { ...original, sqliteAccess: sqliteNextAccess };
});

/** Every move of a partition, in all tests of this file, is one that the table of transitions names. */
vi.mock('../../src/sinks/ledger/partitions/transitions.ts', async (importOriginal) => {
  const { transitions } = await importOriginal<typeof Transitions>();
  const { observedTransitions } = await import('../support/sinks/observed-partitions.ts');
  return { transitions: observedTransitions(transitions) };
});

/** Other processes know it by this. */
process.env['SQLITE_NEXT'] = 'yes';

const ledgerFile = (folder: string): string => join(folder, 'warehouse.db');

function readTable(folder: string, connector: string, table: EntityTable, where: string) {
  const db = new Database(ledgerFile(folder), { readonly: true }).defaultSafeIntegers();
  try {
    const name = `${connector.replaceAll('-', '_')}__${table.entity}`;
    const rows = db.prepare<[], Record<string, unknown>>(`SELECT * FROM "${name}" WHERE ${where}`).all();
    return rows.map((row) => ({
      ...Object.fromEntries(table.columns.map(({ name, type }) => [name, columnValue(type, row[name])])),
      _extra: columnValue('object', row['_extra']),
      _seq: columnValue('integer', row['_seq']),
      _changed_at: columnValue('string', row['_changed_at']),
      _run_id: columnValue('string', row['_run_id']),
      deletedAt: columnValue('string', row['_deleted_at']),
    }));
  } finally {
    db.close();
  }
}

function readRows(folder: string, connector: string, table: EntityTable): readonly JsonObject[] {
  const rows = readTable(folder, connector, table, '_deleted_at IS NULL');
  return byKey(
    rows.map(({ deletedAt: _deletedAt, ...row }) => row),
    table.key,
  );
}

const kind = fileSinkKind({
  options: (folder) => ({ type: 'sqlite', name: 'warehouse', path: ledgerFile(folder), durability: 'full' }),
  ledgerFile,
  version: schemaVersion,
  readRows,
  readChanges: (folder, connector, table) =>
    readTable(folder, connector, table, '1 ORDER BY _seq').map(({ deletedAt, ...row }) => ({
      ...row,
      _op: deletedAt === null ? 'upsert' : 'delete',
    })),
});

describeFileSink('SQLite', kind);

/** A source that asks for quiet is a test of the engine. */
const elsewhere = ['putFirstBack'];

it('has led partitions through every transition by now, and only as their table says', async () => {
  const { transitions } = await import('../../src/sinks/ledger/partitions/transitions.ts');
  expect(Object.keys(transitions).filter((name) => !seenTransitions.has(name))).toEqual(elsewhere);
  expect(wrongMoves).toEqual([]);
});
