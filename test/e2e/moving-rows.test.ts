import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { JsonValue } from '../../src/core/json.ts';
import { loadDefinitions } from '../../src/definitions/load-definitions.ts';
import type { RunOptions } from '../../src/engine/plan-run.ts';
import { syncConnector } from '../../src/engine/sync-connector.ts';
import { openSink } from '../../src/sinks/registry.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { movingRows, type MovingRecord, type MovingRows } from '../support/moving-rows.ts';
import { allSampleSinks } from '../support/all-sample-sinks.ts';
import type { SampleSink } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { allEntities, identityFor } from '../support/sync-once.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const folderOfDefinitions = fileURLToPath(new URL('../fixtures/definitions', import.meta.url));
const trials = repeats('TRIALS', { share: 1, full: 40 });
const rounds = isLong ? 6 : 3;
const firstSeed = startSeed();
const hourMs = 3_600_000;

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

function movingDefinition() {
  const definition = loadDefinitions([folderOfDefinitions]).get('moving-rows');
  if (definition === undefined) throw new Error('no definition moving-rows');
  return definition;
}

async function sync(sample: SampleSink, rows: MovingRows, run: Partial<RunOptions>): Promise<RunReport> {
  const definition = movingDefinition();
  await using sink = await openSink(sample.options(folder), { clock: rows.clock });
  return await syncConnector({
    identity: identityFor({ definition, connectorId: 'c1' }),
    definition,
    entities: allEntities(definition),
    source: rows.source,
    sink,
    concurrency: 2,
    requestsPerSecond: 10,
    clock: rows.clock,
    onEvent: () => undefined,
    signal: new AbortController().signal,
    run,
  });
}

interface Stored {
  readonly deletedBy: string | null;
  readonly title: JsonValue;
}

function storedIn(sample: SampleSink, entity: string): ReadonlyMap<string, Stored> {
  const rows = sample.ledger(
    folder,
    `SELECT id, ${entity === 'visits' ? 'at' : entity === 'lines' ? 'doc_id' : 'title'} AS row,
       CASE WHEN _deleted_at IS NULL THEN NULL ELSE _run_id END AS deleted_by FROM moving_rows__${entity}`,
  ) as readonly { id: string; row: string; deleted_by: string | null }[];
  return new Map(rows.map(({ id, row, deleted_by }) => [id, { deletedBy: deleted_by, title: row }]));
}

/** Rows that `get` still returned when their parent was deleted: no listing leads to them, so no sync asks again. */
function outlivedParents(sample: SampleSink, entity: string): ReadonlySet<string> {
  const rows = sample.ledger(
    folder,
    `SELECT r.id FROM moving_rows__${entity} AS r JOIN _sync_missing AS m ON m.entity = '${entity}' AND m.row = r._row
     JOIN _sync_partitions AS p ON p.id = m.partition WHERE p.gone = 2 AND m.missed = 0 AND m.is_vouched_for = 1`,
  ) as readonly { id: string }[];
  return new Set(rows.map(({ id }) => id));
}

const entityNames = [...movingDefinition().entities.keys()];

/** Ids that were there from one call to another without a break. */
function throughout(records: readonly MovingRecord[], from: number, to: number): Set<string> {
  return new Set(records.filter(({ bornAt, goneAt }) => bornAt <= from && goneAt > to).map(({ id }) => id));
}

function aliveNow(rows: MovingRows, entity: string): Map<string, MovingRecord> {
  return new Map(
    rows
      .records(entity)
      .filter(({ goneAt }) => goneAt > rows.calls())
      .map((record) => [record.id, record]),
  );
}

const seeds = Array.from({ length: trials }, (_, index) => firstSeed + index);
// Random histories of rows in PostgreSQL are compared with SQLite's in every run of the tests.
const sinks = Object.entries(allSampleSinks).filter(
  ([type]) => type === 'sqlite' || (type === 'postgres' && isLong),
);

describe.each(sinks)(
  'rows that are inserted, deleted, changed and moved between any two calls (%s)',
  (_type, sample) => {
    // Proves promise 3, 4
    it.each(seeds)(
      'are never tombstoned while they are there, and all stored when it is quiet (seed %i)',
      async (seed) => {
        const random = seededRandom(seed);
        const rows = movingRows(random);
        await sync(sample, rows, {});
        for (let round = 0; round < rounds; round += 1) {
          rows.setMoving(true);
          const before = rows.calls();
          const isFull = random() < 0.5;
          const report = await sync(sample, rows, { isFull, allowDeletes: true });
          const after = rows.calls();
          expect(['ok', 'degraded'], `seed ${seed}`).toContain(report.outcome);
          for (const entity of entityNames) {
            const stayed = throughout(rows.records(entity), before, after);
            const stored = storedIn(sample, entity);
            const wronglyDeleted = [...stayed].filter((id) => stored.get(id)?.deletedBy === report.run);
            expect({ seed, round, entity, wronglyDeleted }).toEqual({
              seed,
              round,
              entity,
              wronglyDeleted: [],
            });
            const claim = report.entities.find((one) => one.entity === entity);
            const isProven =
              isFull && claim?.isWhole === true && claim.unordered === 0 && report.outcome === 'ok';
            const missed =
              isProven && !canMove.has(entity) ? [...stayed].filter((id) => !stored.has(id)) : [];
            expect({ seed, round, entity, missed }).toEqual({ seed, round, entity, missed: [] });
          }
          rows.clock.advance(hourMs);
        }

        rows.setMoving(false);
        const quiet = await sync(sample, rows, { allowDeletes: true });
        expect({
          seed,
          outcome: quiet.outcome,
          failures: quiet.failures,
          w: quiet.entities.filter((e) => !e.isWhole),
        }).toEqual({
          seed,
          outcome: 'ok',
          failures: [],
          w: [],
        });
        for (const entity of entityNames) {
          const stored = storedIn(sample, entity);
          const lost = [...aliveNow(rows, entity)].filter(([id]) => {
            const found = stored.get(id);
            return found === undefined || (found.deletedBy !== null && entity !== 'visits');
          });
          expect({ seed, entity, lost: lost.map(([id]) => id) }).toEqual({ seed, entity, lost: [] });
        }
        // What only two full walks make sure of needs both.
        for (let times = 0; times < 2; times += 1) {
          rows.clock.advance(hourMs);
          expect(
            (await sync(sample, rows, { isFull: true, allowDeletes: true })).outcome,
            `seed ${seed}`,
          ).toBe('ok');
        }
        for (const entity of entityNames.filter((name) => name !== 'visits')) {
          const alive = aliveNow(rows, entity);
          const leftBehind = outlivedParents(sample, entity);
          const undeleted = [...storedIn(sample, entity)].filter(
            ([id, { deletedBy }]) => deletedBy === null && !alive.has(id) && !leftBehind.has(id),
          );
          expect({ seed, entity, undeleted }).toEqual({ seed, entity, undeleted: [] });
        }
      },
      120_000,
    );
  },
);

/** From one parent to another: where such a record is met depends on which parent is read first. */
const canMove = new Set<string>(['files', 'lines']);
