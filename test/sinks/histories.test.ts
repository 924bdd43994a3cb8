import { isThenAt } from '../contracts/sink/history.ts';
import { afterEach, describe, expect, it } from 'vitest';
import type { EntityTable } from '../../src/core/records.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import { Bench, hourMs, type LedgerRow } from '../contracts/sink/fixture.ts';
import { History, storedState, change, members, tables, type World } from '../support/histories/history.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const histories = repeats('TRIALS', { share: 1, full: 1_000 });
const seed = startSeed(1);
const runsEach = isLong ? 8 : 5;

describe('random histories', () => {
  const open: Bench[] = [];
  afterEach(async () => {
    for (const bench of open.splice(0)) await bench.close();
  });

  it(
    `leave the same rows, partitions, missing rows and reports in SQLite and PostgreSQL (${histories} histories, seed ${seed})`,
    { timeout: 60_000 + 20_000 * histories },
    async () => {
      const kinds = [sqliteKind, await postgresSinkKind()];
      for (let number = 0; number < histories; number += 1) {
        const benches = kinds.map((kind) => new Bench(kind));
        open.push(...benches);
        const history = await History.begin(seededRandom(seed * 1_000_003 + number), benches);
        for (let run = 0; run < runsEach; run += 1) {
          try {
            await history.run();
            const [expected, ...found] = await Promise.all(
              benches.map(async (bench) => await storedState(bench)),
            );
            for (const one of found) expect(one).toEqual(expected);
            const [derived, ...others] = await Promise.all(benches.map(derivedColumns));
            for (const one of others) expect(one).toEqual(derived);
          } catch (error) {
            console.log(
              `history ${number} of seed ${seed}, run ${run}: ${history.steps.slice(-30).join(', ')}`,
            );
            throw error;
          }
        }
        for (const bench of open.splice(0)) await bench.close();
      }
    },
  );
});

/** What is derived from other columns, and is stored because rules ask for it. */
async function derivedColumns(bench: Bench): Promise<unknown> {
  return await Promise.all(
    [
      'entity, name, last_row FROM _sync_tables ORDER BY entity',
      'run, resume_at FROM _sync_runs ORDER BY run',
      'run, entity, depth_limited FROM _sync_counts ORDER BY run, entity',
      `entity, params, backfill, params_hash, parent_hash, failure_code, last_page_size, last_page_records
       FROM _sync_partitions ORDER BY entity, params, backfill`,
      'key, key_hash FROM _sync_downloads ORDER BY entity, key',
    ].map(async (columns) => await bench.ledger(`SELECT ${columns}`)),
  );
}

const changes = repeats('TRIALS', { share: 15, full: 1_000 });

const mostRuns = 20 + changes;
/** To compare everything takes longer with each version: in long histories now and then, and at the end. */
const checkedEach = changes > 100 ? 10 : 1;
/** Of the service in front of each run, beside those of the history. */
const changesMore = 12;
/** From this run on versions are kept: they begin with the rows that there are. */
const firstRun = 3;

describe('versions of rows', () => {
  const open: Bench[] = [];
  afterEach(async () => {
    for (const bench of open.splice(0)) await bench.close();
  });

  // Proves promise 14.1
  it(
    `are what each row was at every change number, in SQLite and PostgreSQL, through kills, deletes and repairs (${changes} changes, seed ${seed})`,
    { timeout: 120_000 + 1_000 * changes },
    async () => {
      const random = seededRandom(seed * 7_919);
      const benches = [sqliteKind, await postgresSinkKind()].map((kind) => new Bench(kind));
      open.push(...benches);
      let runs = 0;
      for (const bench of benches) {
        keepVersions(bench, () => runs >= firstRun);
        evolveAtTheEnd(bench);
      }
      const history = await History.begin(random, benches);
      const { world } = history.saved();
      let before = 0;
      for (let watched = 0; watched < changes;) {
        runs += 1;
        expect(runs, 'a run changes something').toBeLessThan(mostRuns);
        // A clock may go back: by more than the hour that each run takes.
        // Or stand still: each run then changes what it does at the time of the one before.
        const jump = random() < 0.15 ? -Math.floor(random() * 4 * hourMs) : random() < 0.15 ? -hourMs : 0;
        for (const bench of benches) {
          bench.clock.advance(jump);
          await watch(bench);
        }
        if (random() < 0.05) changeMask(world);
        for (let more = changesMore; more > 0; more -= 1) change(world, random);
        await history.run();
        if (runs % checkedEach === 0) await Promise.all(benches.map(check));
        const [ended = 0] = await Promise.all(benches.map(closedVersions));
        // A reset takes its versions along.
        watched += Math.max(0, ended - before);
        before = ended;
      }
      await Promise.all(benches.map(check));
    },
  );
});

/** Every member comes out of a changed mask as another record. */
function changeMask({ members: masked }: World): void {
  for (const member of masked.values()) member.version += 1_000;
}

function keepVersions(bench: Bench, isOn: () => boolean): void {
  const plan = bench.plan.bind(bench);
  const versions = new Set(tables.map(({ entity }) => entity));
  bench.plan = (run, change) => plan(run, { ...change, ...(isOn() ? { versions } : {}) });
}

/** As a run does whose settings say so: fields of members that were met get a column. */
function evolveAtTheEnd(bench: Bench): void {
  const openSink = bench.open.bind(bench);
  bench.open = async () => {
    const sink = await openSink();
    return {
      ...sink,
      finish: async (lease, run, report) => {
        await sink.drift.evolve(lease, run, members);
        await sink.finish(lease, run, report);
      },
    };
  };
}

/** What of a table is compared, as text: all databases say it alike. */
function textsOf({ columns }: EntityTable, of: string): string {
  const texts = columns.filter(({ type }) => type === 'string' || type === 'integer');
  return texts.map(({ name }) => `CAST(${of}${name} AS TEXT)`).join(` || '|' || `);
}

/**
 * From now on the database itself notes what each row is with each change number. Of a table that was reset the notes
 * begin again.
 */
async function watch(bench: Bench): Promise<void> {
  const isSqlite = bench.kind.options('/nowhere').type === 'sqlite';
  const isThere = async (kind: string, name: string): Promise<boolean> =>
    (
      await bench.ledger(
        isSqlite
          ? `SELECT 1 FROM sqlite_schema WHERE type = '${kind}' AND name = '${name}'`
          : kind === 'trigger'
            ? `SELECT 1 FROM pg_trigger WHERE tgname = '${name}' AND tgrelid::regclass::text LIKE 'news%'`
            : `SELECT 1 WHERE to_regclass('${name}') IS NOT NULL`,
      )
    ).length > 0;
  for (const table of tables) {
    const [name, noted] = [`news__${table.entity}`, `noted_${table.entity}`];
    if (!(await isThere('table', name)) || (await isThere('trigger', noted))) continue;
    const cells = (of: string): string =>
      `${of}_row, ${of}_seq, ${of}_deleted_at IS NULL, ${textsOf(table, of)}`;
    const insert = `INSERT INTO ${noted} SELECT ${cells('NEW.')}`;
    await bench.ledger(`DROP TABLE IF EXISTS ${noted}`);
    await bench.ledger(
      `CREATE TABLE ${noted} AS SELECT ${cells('')} FROM ${name}`.replace(cells(''), named(table)),
    );
    if (isSqlite) {
      for (const what of ['INSERT', 'UPDATE']) {
        await bench.ledger(
          `CREATE TRIGGER ${noted}${what === 'UPDATE' ? '' : '_new'} AFTER ${what} ON ${name} BEGIN ${insert}; END`,
        );
      }
    } else {
      await bench.ledger(
        `CREATE OR REPLACE FUNCTION ${noted}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${insert}; RETURN NULL; END $$`,
      );
      await bench.ledger(
        `CREATE TRIGGER ${noted} AFTER INSERT OR UPDATE ON ${name} FOR EACH ROW EXECUTE FUNCTION ${noted}()`,
      );
    }
  }
}

function named(table: EntityTable): string {
  return `_row AS r, _seq AS s, _deleted_at IS NULL AS live, ${textsOf(table, '')} AS texts`;
}

/** How many versions have ended. */
async function closedVersions(bench: Bench): Promise<number> {
  const known = await bench.ledger('SELECT entity FROM _sync_versions');
  const counts = known.map(({ entity }) => bench.count(`news__${String(entity)}__versions`));
  return (await Promise.all(counts)).reduce<number>((sum, one) => sum + Number(one), 0);
}

async function check(bench: Bench): Promise<void> {
  await watch(bench);
  for (const table of tables) {
    const known = await bench.ledger(`SELECT since FROM _sync_versions WHERE entity = '${table.entity}'`);
    if (known.length === 0) continue;
    const history = `news__${table.entity}__history`;
    const versions = await bench.ledger(
      `SELECT _row, _seq, _seq_to, _valid_from, _valid_to, _deleted_at FROM ${history} ORDER BY _row, _seq`,
    );
    checkChains(versions);
    await checkTimes(bench, history, versions);
    const wrong = await bench.ledger(
      `SELECT * FROM (
         SELECT n.r, n.s, n.texts, n.live,
           (SELECT count(*) FROM ${history} AS h WHERE ${isThen}) AS found,
           (SELECT min(CASE WHEN h._deleted_at IS NULL THEN 1 ELSE 0 END) FROM ${history} AS h WHERE ${isThen}) AS was_live,
           (SELECT min(${textsOf(table, 'h.')}) FROM ${history} AS h WHERE ${isThen}) AS was
         FROM noted_${table.entity} AS n
         WHERE n.s >= (SELECT min(h._seq) FROM ${history} AS h WHERE h._row = n.r)) AS noted
       WHERE found <> 1 OR was_live <> CAST(live AS INTEGER) OR was <> texts`,
    );
    expect(wrong, `${history} of ${bench.kind.options('/nowhere').type}`).toEqual([]);
  }
}

const isThen = 'h._row = n.r AND h._seq <= n.s AND (h._seq_to > n.s OR h._seq_to IS NULL)';

/** No gap, no overlap, and of each row one open version, the newest. */
function checkChains(versions: readonly LedgerRow[]): void {
  for (const [index, version] of versions.entries()) {
    const next = versions[index + 1];
    const isLast = next?.['_row'] !== version['_row'];
    expect(version['_seq_to'] === null, 'the newest one is open').toBe(isLast);
    expect(version['_valid_to'] === null).toBe(isLast);
    if (isLast) continue;
    expect(version['_seq_to']).toBe(next?.['_seq']);
    expect(version['_valid_to']).toEqual(next?.['_valid_from']);
    expect(Number(version['_seq'])).toBeLessThan(Number(version['_seq_to']));
    expect(timeOf(version['_valid_from'])).toBeLessThan(timeOf(version['_valid_to']));
  }
}

const askedTimes = 12;

/** By the time when a version began, or a moment before it ended, its row is as in that version; deleted: not there. */
async function checkTimes(bench: Bench, history: string, versions: readonly LedgerRow[]): Promise<void> {
  const each = Math.ceil(versions.length / askedTimes);
  for (const version of versions.filter((_, index) => index % each === 0)) {
    const ends = version['_valid_to'] === null ? [] : [timeOf(version['_valid_to']) - 1];
    for (const atMs of [timeOf(version['_valid_from']), ...ends]) {
      const then = `${isThenAt(atMs)} AND _row = ${String(version['_row'])}`;
      const found = await bench.ledger(`SELECT _seq FROM ${history} WHERE ${then}`);
      const isThere = version['_deleted_at'] === null;
      expect(found, `${history} ${atMs}`).toEqual(isThere ? [{ _seq: version['_seq'] }] : []);
    }
  }
}

function timeOf(at: unknown): number {
  return at instanceof Date ? at.getTime() : Date.parse(String(at));
}
