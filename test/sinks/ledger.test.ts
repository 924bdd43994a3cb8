import { readdirSync, readFileSync } from 'node:fs';
import path, { join } from 'node:path';
import { describe, expect } from 'vitest';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import * as notes from '../../src/sinks/ledger/deletes/noted-rows.ts';
import * as places from '../../src/sinks/ledger/deletes/noted-rows.ts';
import * as partitions from '../../src/sinks/ledger/partitions/due-partitions.ts';
import { transitions } from '../../src/sinks/ledger/partitions/transitions.ts';
import { openSeenRows } from '../../src/sinks/ledger/row-blocks.ts';
import { openLedgerFile } from '../../src/sinks/sqlite/sqlite-sink.ts';
import { sqliteTables } from '../../src/sinks/sqlite/sqlite-tables.ts';
import { sqliteFormat, tablesSql } from '../../src/sinks/sqlite/sqlite-schema.ts';
import type { Tx } from '../../src/sql/database.ts';
import { openSqlite } from '../../src/sql/sqlite/open-sqlite.ts';
import { sqliteDialect } from '../../src/sql/sqlite/sqlite-tx.ts';
import { compileStatement } from '../../src/sql/statement.ts';
import { manualClock, members, news } from '../contracts/sink/fixture.ts';
import { it } from '../support/it.ts';
import { readPartitionTable } from '../support/partition-table.ts';

const room = 'sinks/ledger/';
const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => name.split(path.sep).join('/'))
  .sort()
  .map((name) => ({ name, text: readFileSync(path.join('src', name), 'utf8') }));
/** Versions of the tables are made from one another in their own way. */
const makers = /\/(?:(?:jsonl|sqlite)\/schema|ledger-schema|from-[\w-]+)\.ts$/;

/** Mentions of the table in code and SQL that do not read it. */
function countWrites(text: string): number {
  // The driver gets its name, to reserve numbers of its rows.
  const code = text.replaceAll(/^\s*(?:\/|\*).*$|table: '_sync_partitions'/gm, '');
  const mentions = code.match(/_sync_partitions\b(?!\.)/g) ?? [];
  const reads = code.match(/\b(?<!DELETE )(?:FROM|JOIN)\s+(?:\$\{(?:\w+\.)?at\})?_sync_partitions\b/g) ?? [];
  return mentions.length - reads.length;
}

function callersOf(transition: string): readonly string[] {
  return sources
    .filter(({ text }) => new RegExp(`\\btransitions\\.${transition}\\(`).test(text))
    .map(({ name }) => `\`${name.replace(room, '').replace(/\.ts$/, '')}\``);
}

describe('partitions as a state machine', () => {
  it('writes _sync_partitions only by named transitions, and by copies', () => {
    const writers = sources.filter(({ name, text }) => !makers.test(name) && countWrites(text) > 0);
    expect(writers.map(({ name }) => name)).toEqual(
      ['held-connectors', 'ledger-copies', 'partitions/transitions'].map((name) => `${room}${name}.ts`),
    );
  });

  it('draws the states of rows in the decision about deletes', () => {
    const decision = 'internals/decisions/0009-a-delete-needs-a-walk-a-confirmation-and-a-limit.md';
    const [drawn] = /```mermaid[^`]*```/.exec(readFileSync(path.join('docs', decision), 'utf8')) ?? [];
    expect(drawn).toContain('live --> missing');
  });

  it('prints them all in docs/internals/partitions.md, with the files that run each', () => {
    const names = Object.keys(transitions);
    const printed = readPartitionTable();
    expect(printed.map(({ name }) => name)).toEqual(names);
    expect(printed.map(({ by }) => by)).toEqual(names.map((name) => callersOf(name).join(', ')));
  });
});

it('loads what it has stored again once too many blocks were in memory', async ({ folder }) => {
  const clock = manualClock();
  const file = join(folder, 'warehouse.db');
  await using ledger = await openLedgerFile({
    file,
    format: sqliteFormat,
    records: sqliteTables,
    durability: 'normal',
    clock,
  });
  const seen = openSeenRows(news, 1);
  // One row of each of 1,100 chunks, then their neighbours.
  const rows = Array.from({ length: 1_100 }, (_, index) => index * 4_096);
  for (const batch of [rows, rows.map((row) => row + 1)]) {
    await ledger.db.transact(async (tx) => {
      await seen.load(tx, members, batch);
      for (const row of batch) seen.mark(members, row, true);
      seen.save(tx);
    });
  }
  const filled = await ledger.db.read(
    async (tx) => await tx.rows<{ bits: Buffer }>('SELECT bits FROM _sync_seen ORDER BY chunk'),
  );
  expect(filled.map(({ bits }) => [bits[0], bits[512]])).toEqual(rows.map(() => [3, 3]));
});

/** Prepares what it is given, without any rows, and notes how SQLite would do it. */
function planningTx(): { readonly tx: Tx; readonly plans: string[] } {
  const db = openSqlite(':memory:');
  db.exec(tablesSql);
  const plans: string[] = [];
  const plan = (sql: string): void => {
    const { text, parameters } = compileStatement(sql, sqliteDialect);
    const values = Object.fromEntries(parameters.map((_, index) => [`p${index + 1}`, null]));
    const steps = db.prepare(`EXPLAIN QUERY PLAN ${text}`).all(values) as { readonly detail: string }[];
    plans.push(...steps.map(({ detail }) => detail));
  };
  const tx: Tx = {
    dialect: sqliteDialect,
    rows: async (sql) => {
      plan(sql);
      return await Promise.resolve([]);
    },
    first: async (sql) => {
      plan(sql);
      return await Promise.resolve(undefined);
    },
    run: async (sql) => {
      plan(sql);
      return await Promise.resolve(0);
    },
    put: plan,
  };
  return { tx, plans };
}

describe('statements of partitions and deletes', () => {
  it('are prepared by SQLite and lead through no whole table', async () => {
    const { tx, plans } = planningTx();
    for (const run of Object.values(transitions)) {
      await (run as (tx: Tx, values: object) => unknown)(tx, { connector: 'service', rows: [] });
    }
    const connector = 'service' as ConnectorName;
    const of = { connector, entity: 'items' as EntityName };
    const chain = { ...of, origin: 1, since: '2026-03-01T00:00:00.000Z' as never };
    const asking = { ...of, run: 'run' as never, now: chain.since, limit: 10 };
    const at = [{ row: 1, partition: 1 }];
    const missed = [{ row: 1, partition: 1, needs: 'get' as const }];
    places.meetElsewhere(tx, chain, at);
    notes.endMissing(tx, of, [1]);
    await Promise.all([
      places.leavePlaces(tx, of, at),
      places.forgetRows(tx, of, [1]),
      places.dropShared(tx, { ids: [1] }),
      places.readShared(tx, of, [{ partition: 1, after: 0 }], 10),
      places.otherPlaces(tx, of, [1]),
      places.placesById(tx, [1]),
      notes.noteMissing(tx, chain, missed),
      notes.noteOrphans(tx, chain, missed),
      notes.suspectRows(tx, chain, missed),
      notes.allowMissing(tx, of),
      notes.noteFoundGone(tx, { ...asking, rows: [1] }),
      notes.vouchForRows(tx, { ...asking, rows: [1] }),
      notes.dropOwnerless(tx, { connector }),
      notes.notedRows(tx, { ...of, rows: [1] }),
      notes.countNoted(tx, { connector }),
      notes.openMissing(tx, { ...of, after: 0, limit: 10 }),
      notes.countBelowDeleted(tx, { connector }),
      notes.askForRows(tx, asking),
      notes.readyRows(tx, asking, 'allowed'),
      notes.orphansGone(tx, asking),
      partitions.knownPartitions(tx, { connector, window: '' }, []),
      partitions.partitionsById(tx, connector, []),
      partitions.partitionsBelow(tx, connector, [{ entity: of.entity, keyText: '[1]' }]),
      partitions.isLeft(tx, { connector, window: '', entities: [], origin: 1 }),
      partitions.countReady(tx, { connector, window: '' }),
      partitions.leftWork(tx, { connector, window: '', entities: [] }),
      partitions.readLeftovers(tx, { ...of, window: '', origin: 1, after: 0 }),
      partitions.fullOrigins(tx, [1]),
      partitions.livePartitions(tx, [1]),
    ]);
    const whole = plans.filter((step) =>
      /^SCAN (?:\w*_sync|one|also|m|p)\b|^SEARCH .* sqlite_autoindex__sync_partitions_1 \(connector=\?\)$/.test(
        step,
      ),
    );
    // `dropConnector`.
    expect(whole).toHaveLength(1);
  });
});
