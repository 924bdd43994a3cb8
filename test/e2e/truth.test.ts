import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect } from 'vitest';
import { instant, systemClock } from '../../src/core/clock.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import { readRecords, type Source } from '../../src/source/source.ts';
import { it } from '../support/it.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import { sampleConnectors } from '../support/sample-service.ts';
import { isLong } from '../support/trials.ts';

const revisions = isLong ? 8 : 1;

/** A service whose time is the run's; with `isRead`, its records are read before their bytes are seen. */
const sourceAt =
  (nowMs: number, isRead: boolean) =>
  (source: Source): Source => ({
    ...source,
    list: async (request, signal) => {
      const page = await source.list(request, signal);
      const records = isRead ? readRecords([...page.records]) : page.records;
      return { ...page, records, serverTime: instant(nowMs) };
    },
    stats: () => ({ ...source.stats(), serverTime: instant(nowMs) }),
  });

/** Counts the records that are recognized. */
const counting =
  (count: { recognized: number }) =>
  (sink: Sink): Sink => ({
    ...sink,
    stored: {
      ...sink.stored,
      same: async (...asked) => {
        const rows = await sink.stored.same(...asked);
        count.recognized += rows.filter((row) => row !== null && row !== 'other').length;
        return rows;
      },
    },
  });

const untold = ['report', 'table_id', 'raw_key', 'holder'];

/** All that is stored, without what is random or says how long something took. Runs are numbered. */
function contents(world: RevisionWorld): readonly string[] {
  const db = new Database(path.join(world.folder, 'test.db'), { readonly: true });
  try {
    const runs = db.prepare<[], string>('SELECT run FROM _sync_runs ORDER BY number').pluck().all();
    const tables = db
      .prepare<[], string>(
        `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
         AND name NOT IN ('_sync_raw', '_sync_meta', '_sync_commits') ORDER BY name`,
      )
      .pluck()
      .all();
    const numbered = (text: string): string =>
      runs.reduce((sum, run, index) => sum.replaceAll(run, `run ${index}`), text);
    return tables.flatMap((table) =>
      (db.prepare(`SELECT * FROM "${table}"`).all() as Record<string, unknown>[])
        .map((row) => {
          // The service makes up a request_id for every answer, which is a part of what is volatile.
          const random = 'request_id' in row ? ['request_id', '_volatile_hash'] : untold;
          const told = Object.entries(row).filter(([name]) => !random.includes(name));
          return numbered(
            `${table} ${told.map(([name, value]) => `${name}=${Buffer.isBuffer(value) ? value.toString('hex') : String(value)}`).join(' ')}`,
          );
        })
        .toSorted(),
    );
  } finally {
    db.close();
  }
}

describe.each(sampleConnectors.map(([, name]) => name))('the records of %s', (definitionName) => {
  it('come to the same whether they are recognized by their bytes or read', async () => {
    await using byBytes = await openRevisionWorld({ definitionName, sink: 'sqlite', size: 'tiny' });
    await using whole = await openRevisionWorld({ definitionName, sink: 'sqlite', size: 'tiny' });
    const count = { recognized: 0 };
    const startMs = Date.parse('2027-01-01T00:00:00Z');
    for (let revision = 0; revision <= revisions; revision += 1) {
      for (const isFull of [false, true]) {
        const nowMs = startMs + (revision * 2 + Number(isFull)) * 13 * 60 * 60 * 1000;
        const clock = { ...systemClock, now: () => nowMs };
        const shared = { clock, concurrency: 1 };
        const reports = [
          await byBytes.sync(
            { isFull },
            { ...shared, wrapSource: sourceAt(nowMs, false), wrapSink: counting(count) },
          ),
          await whole.sync({ isFull }, { ...shared, wrapSource: sourceAt(nowMs, true) }),
        ];
        const told = reports.map(({ outcome, entities }) => ({ revision, isFull, outcome, entities }));
        expect(told[0]).toEqual(told[1]);
        expect(contents(byBytes)).toEqual(contents(whole));
      }
      byBytes.moveTo(revision + 1);
      whole.moveTo(revision + 1);
    }
    expect(count.recognized).toBeGreaterThan(0);
  }, 200_000);
});
