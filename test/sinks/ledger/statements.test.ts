import { describe, expect, it } from 'vitest';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import type { Tx } from '../../../src/sql/database.ts';
import { compileStatement } from '../../../src/sql/statement.ts';
import { openSqlite } from '../../../src/sql/sqlite/open-sqlite.ts';
import { sqliteDialect } from '../../../src/sql/sqlite/sqlite-tx.ts';
import { tablesSql } from '../../../src/sinks/sqlite/schema.ts';
import * as notes from '../../../src/sinks/ledger/deletes/noted-rows.ts';
import * as places from '../../../src/sinks/ledger/deletes/places.ts';
import * as partitions from '../../../src/sinks/ledger/partitions/read-partitions.ts';
import { transitions } from '../../../src/sinks/ledger/partitions/transitions.ts';

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
      places.leaveAllPlaces(tx, of, [1]),
      places.dropShared(tx, [1]),
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
      notes.alikeRows(tx, { connector }),
      notes.openMissing(tx, { ...of, after: 0, limit: 10 }),
      notes.countedRows(tx, { ...of, rows: [1] }),
      notes.countBelowDeleted(tx, { connector }),
      notes.askForRows(tx, asking),
      notes.readyRows(tx, asking, 'allowed'),
      notes.orphansGone(tx, asking),
      partitions.knownPartitions(tx, { connector, window: '' }, []),
      partitions.partitionsById(tx, connector, []),
      partitions.partitionsBelow(tx, connector, [{ entity: of.entity, keyText: '[1]' }]),
      partitions.isLeft(tx, { connector, window: '', entities: [], origin: 1 }),
      partitions.countReady(tx, { connector, window: '' }),
      partitions.partitionsOfChain(tx, { connector, window: '', entities: [], origin: 1 }),
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
    // `dropConnector` and `dropSome`.
    expect(whole).toHaveLength(2);
  });
});
