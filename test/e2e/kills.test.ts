import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as after } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { afterAll, afterEach, beforeEach, describe, expect } from 'vitest';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import type { EntityTable } from '../../src/core/records.ts';
import type { Service } from '../../src/service/start-service.ts';
import { allSampleSinks, shareOf, triedSampleSinks } from '../support/all-sample-sinks.ts';
import { type Row, sameRow } from '../support/expected-rows.ts';
import { it } from '../support/it.ts';
import { killedSync } from '../support/killed-sync.ts';
import { openRevisionWorld, type RevisionWorld } from '../support/revision-world.ts';
import {
  builtInDefinition,
  sampleConnectors,
  startSampleService,
  storedByDefault,
  tablesOf,
} from '../support/sample-service.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import {
  openScheduledWorld,
  scheduledSinks,
  type ScheduledConnector,
  type ScheduledWorld,
} from '../support/scheduled-world.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { text } from '../support/service/served-api.ts';
import { StoppedError, stopAtStep } from '../support/stop-at-step.ts';
import { allEntities, entityNamed, syncOnce, testCredentials, type SyncOnce } from '../support/sync-once.ts';
import { hasMoreKills, isLong, repeats, startSeed } from '../support/trials.ts';
import {
  isRunFinished,
  isRunStarted,
  startWorkerProcess,
  type WorkerProcess,
} from '../support/worker-process.ts';

const seed = startSeed();
const concurrency = 4;
/** Of one walk: eight received and not yet stored, one asked for. */
const pagesInFlight = 9;

describe('crashes', () => {
  let service: Service;
  let folder: string;

  it.beforeAll(async ({ fileFolder: made }) => {
    service = await startSampleService('tiny');
    folder = made;
  });

  afterAll(() => service.close());

  /** Another thirteenth of the steps every time, of `npm test` a thirty-first; STRIDE=1 tries them all. */
  const stride = Number(process.env['STRIDE'] ?? (isLong ? 13 : 47));
  /** A step in PostgreSQL takes a server's answers. */
  const strideOf = (type: string): number => (type === 'postgres' && !isLong ? 3 : 1) * stride;
  const offset = seed % stride;

  const connectors = { mailing: 'email-marketing', notes: 'workspace-notes' } as const;

  describe.each(Object.entries(allSampleSinks))(
    'a run into %s that stops at any one step',
    (sinkName, sink) => {
      // The mailing account in the other kinds of sink: `npm run test:long`.
      // Proves promise 1
      it.each(shareOf(sinkName, Object.entries(connectors), ([id]) => id === 'notes'))(
        `is resumed by the next one, and nothing of %s is lost, doubled or read far too often (seed ${seed})`,
        async (connectorId, name) => {
          const definition = builtInDefinition(name);
          const truth = storedByDefault(name, 'tiny');
          let undisturbedCalls = 0;

          for (
            let stopAt = Number.MAX_SAFE_INTEGER, total = 0, next = 1;
            next <= total || total === 0;
            next += strideOf(sinkName)
          ) {
            const home = path.join(folder, `${sinkName}-${connectorId}-${next}`);
            mkdirSync(home, { recursive: true });
            const run: SyncOnce = {
              baseUrl: service.url,
              definition,
              connectorId,
              sink: sink.options(home),
              entities: allEntities(definition),
              concurrency: 3,
            };
            if (total > 0) stopAt = next;
            const stop = stopAtStep(stopAt);
            let calls = 0;
            const counting = {
              ...run,
              onEvent: (event: { kind: string }) => (calls += event.kind === 'page-requested' ? 1 : 0),
            };
            await syncOnce({ ...counting, wrapSource: stop.wrapSource, wrapSink: stop.wrapSink }).catch(
              (error: unknown) => {
                if (!(error instanceof StoppedError)) throw error;
              },
            );
            if (total === 0) {
              total = stop.reached().steps;
              undisturbedCalls = calls;
              next = 1 + offset - strideOf(sinkName);
              expect(total).toBeGreaterThan(50);
              continue;
            }
            const report = await syncOnce(counting);
            const where = `stopped at step ${next} of ${total}, ${stop.reached().last}, seed ${seed}`;
            expect({ where, outcome: report.outcome }).toEqual({ where, outcome: 'ok' });
            const differences = differencesFrom(truth, definition, (table) => sink.rows(home, name, table));
            expect({ where, ...differences }).toEqual({ where, ...noDifferences });
            // Stopped with nothing left to read, the next run is a run of its own. Of each of three walks, five pages
            // may be in flight.
            const allowed = (report.continues === null ? 2 : 1.1) * undisturbedCalls + 15;
            expect({ where, tooMany: Math.max(0, calls - allowed) }).toEqual({ where, tooMany: 0 });
            rmSync(home, { recursive: true, force: true });
          }
        },
        120_000,
      );
    },
  );
});

describe('kills at random', () => {
  const kills = repeats('KILLS', { share: 1, full: 200 });
  const size = isLong ? 'small' : { members: 300 };

  let service: Service;
  let calls = 0;
  /** Calls of a whole sync that is not killed, by connector: the same for every sink. */
  const undisturbed = new Map<string, number>();

  beforeEach(async () => {
    calls = 0;
    service = await startSampleService(size, {
      latencyMs: 3,
      wrap: (account) => ({
        list: (entity, params) => {
          calls += 1;
          return account.list(entity, params);
        },
        get: (entity, params) => account.get(entity, params),
      }),
    });
  });

  afterEach(() => service.close());

  describe.each(triedSampleSinks)('a sync into %s that is killed again and again', (type, sink) => {
    // Proves promise 1
    it(`loses, duplicates and tears nothing, and fetches little twice (${kills} kills, seed ${seed})`, async ({
      folder,
    }) => {
      const random = seededRandom(seed);
      const connectors = sampleConnectors.filter(([id]) => isLong || id === 'mailing');
      const config = path.join(folder, 'config.yaml');
      const { path: file } = { path: undefined, ...sink.settings(folder) };
      const entries = connectors.map(
        ([id, definition]) =>
          `  ${definition}: { definition: ${definition}, id: ${id}, sink: test, concurrency: ${concurrency}, rateLimit: { requestsPerSecond: 1000 } }`,
      );
      writeFileSync(
        config,
        [
          `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
          `sinks: { test: ${JSON.stringify(sink.settings(folder))} }`,
          `connectors:`,
          ...entries,
        ].join('\n'),
      );
      const phases = new Map<string, number>();
      /** Calls and kills since the connector's work last started from the beginning. */
      const chain = new Map<string, { calls: number; kills: number }>();
      const firstChain = new Map<string, { calls: number; kills: number }>();

      for (let done = 0; done < kills;) {
        for (const [, connector] of connectors) {
          const before = calls;
          const { code, phase, stderr } = await killedSync(config, connector, [], random() * 90);
          const so = chain.get(connector) ?? { calls: 0, kills: 0 };
          so.calls += calls - before;
          chain.set(connector, so);
          if (code === null) {
            done += 1;
            so.kills += 1;
            phases.set(phase, (phases.get(phase) ?? 0) + 1);
          } else {
            expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
            if (!firstChain.has(connector)) firstChain.set(connector, so);
            chain.delete(connector);
          }
        }
      }
      for (const [, connector] of connectors) {
        const before = calls;
        const { code, stderr } = await killedSync(config, connector, [], null);
        expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
        const so = chain.get(connector) ?? { calls: 0, kills: 0 };
        so.calls += calls - before;
        if (!firstChain.has(connector)) firstChain.set(connector, so);

        const definition = builtInDefinition(connector);
        const differences = differencesFrom(storedByDefault(connector, size), definition, (table) =>
          sink.rows(folder, connector, table),
        );
        expect({ seed, connector, ...differences }).toEqual({ seed, connector, ...noDifferences });
        if (undisturbed.has(connector)) continue;
        const beforeAnother = calls;
        await killedSync(config, connector, ['--full'], null);
        undisturbed.set(connector, calls - beforeAnother);
      }
      if (file !== undefined) {
        const db = new Database(file, { readonly: true });
        expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
        db.close();
      }
      for (const [connector, { calls: used, kills: survived }] of firstChain) {
        const allowed = 1.1 * (undisturbed.get(connector) ?? 0) + survived * pagesInFlight * concurrency;
        console.log(
          `${type} ${connector}: ${used} calls over ${survived} kills, undisturbed ${undisturbed.get(connector)}`,
        );
        expect({ seed, connector, tooMany: Math.max(0, Math.ceil(used - allowed)) }).toEqual({
          seed,
          connector,
          tooMany: 0,
        });
      }
      console.log(
        `${type}: killed after ${[...phases].map(([phase, times]) => `${phase} ${times}`).join(', ')} (seed ${seed})`,
      );
    }, 400_000);
  });
});

describe('kills between revisions', () => {
  const killsPerWorld = Math.ceil(repeats('KILLS', { share: 100, full: 100 }) / 4);
  /** The larger account takes minutes: only with SIZE=small. */
  const size = process.env['SIZE'] === 'small' ? 'small' : 'tiny';
  const revisions = 10;

  type SinkType = keyof typeof allSampleSinks;

  describe.runIf(hasMoreKills).each(Object.keys(allSampleSinks) as SinkType[])(
    'revisions synced into %s by runs that are killed',
    (type) => {
      // Proves promise 2
      it.each(sampleConnectors)(
        `%s: end where the account is (${killsPerWorld} kills, seed ${seed})`,
        async (connectorId, definitionName) => {
          await using world = await openRevisionWorld({ definitionName, sink: type, size });
          const random = seededRandom(seed);
          const config = writeConfig(world, type, connectorId);
          const killedAfter = new Map<string, number>();
          const sync = async (flags: readonly string[], afterMs: number | null): Promise<number | null> => {
            const { code, phase, stderr } = await killedSync(config, definitionName, flags, afterMs);
            if (code === null) killedAfter.set(phase, (killedAfter.get(phase) ?? 0) + 1);
            else expect({ code, stderr, seed }).toEqual({ code: 0, stderr, seed });
            return code;
          };
          await sync([], null);
          let kills = 0;
          for (let revision = 1; revision <= revisions; revision += 1) {
            world.moveTo(revision);
            const isFull = revision % 3 === 0 || revision === revisions;
            const killsNow = Math.ceil((killsPerWorld * revision) / revisions) - kills;
            for (let done = 0; done < killsNow;) {
              const code = await sync(isFull ? ['--full'] : [], random() * (isFull ? 200 : 60));
              // The ledger of a JSONL sink has what a killed run committed; the next one writes it as lines.
              const ahead = type === 'jsonl' && code === null ? [] : watermarksAhead(world, type);
              expect({ seed, revision, ahead }).toEqual({ seed, revision, ahead: [] });
              if (code === null) done += 1;
              else if (random() < 0.3) break;
            }
            kills += killsNow;
            await sync(isFull ? ['--full'] : [], null);
            expect({ seed, revision, lost: lostFrom(world) }).toEqual({ seed, revision, lost: [] });
          }
          await sync(['--full'], null);
          expect({ seed, lost: lostFrom(world), alive: stillStored(world) }).toEqual({
            seed,
            lost: [],
            alive: [],
          });
          console.log(
            `${type} ${definitionName}: killed after ${[...killedAfter].map(([phase, times]) => `${phase} ${times}`).join(', ')} (seed ${seed})`,
          );
        },
        300_000,
      );
    },
  );

  function writeConfig(world: RevisionWorld, type: SinkType, connectorId: string): string {
    const config = path.join(world.folder, 'config.yaml');
    writeFileSync(
      config,
      [
        `api: { baseUrl: "${world.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
        `sinks: { test: ${JSON.stringify(allSampleSinks[type].settings(world.folder))} }`,
        // Days of changes pass in seconds: the guards would take them for one day's.
        `guards: { maxDeleteShare: 1 }`,
        `connectors:`,
        `  ${world.definitionName}: { definition: ${world.definitionName}, id: ${connectorId}, sink: test, rateLimit: { requestsPerSecond: 1000 } }`,
      ].join('\n'),
    );
    return config;
  }

  /** Records of the account that are not stored as they are. */
  function lostFrom(world: RevisionWorld): string[] {
    const truth = world.truth();
    return tablesOf(world.definitionName).flatMap((table) => {
      const stored = world.stored(table);
      return [...(truth.get(table.entity) ?? [])].flatMap(([key, row]) => {
        const found = stored.get(key);
        const isStored = found !== undefined && sameRow(lasting(table, found), lasting(table, row));
        return isStored ? [] : [`${table.entity} ${key}`];
      });
    });
  }

  /** Without a list's counters: where nothing else changes they are stored again after a day only. */
  function lasting({ entity }: EntityTable, row: Row): Row {
    return entity === 'lists' ? { ...row, columns: { ...row.columns, stats: null } } : row;
  }

  /** Rows that are alive in the sink and gone from the account; what is in the trash stays, with what is below it. */
  function stillStored(world: RevisionWorld): string[] {
    const truth = world.truth();
    return tablesOf(world.definitionName).flatMap((table) =>
      [...world.stored(table)].flatMap(([key, { columns }]) => {
        if (truth.get(table.entity)?.has(key) === true) return [];
        const parent = columns['parent'] ?? null;
        const page = columns['page_id'] ?? (isJsonObject(parent) ? parent['page_id'] : undefined);
        const isKept =
          world.isTrashed(table.entity, text(columns['id'])) ||
          (table.entity !== 'pages' && typeof page === 'string' && world.isTrashed('pages', page));
        return isKept ? [] : [`${table.entity} ${key}`];
      }),
    );
  }

  /** Where the value of a record stands that an incremental walk of its entity goes by. */
  const changeFields = [
    { entity: 'list_members', field: 'last_changed', param: 'list_id' },
    { entity: 'pages', field: 'last_edited_time', param: null },
    { entity: 'data_sources', field: 'last_edited_time', param: null },
  ] as const;

  interface Watermark {
    readonly params: string;
    readonly watermark: string;
  }

  /** Records that a watermark says are stored and that are not. */
  function watermarksAhead(world: RevisionWorld, type: SinkType): string[] {
    const truth = world.truth();
    return changeFields.flatMap(({ entity, field, param }) => {
      const rows = truth.get(entity);
      if (rows === undefined) return [];
      const stored = world.stored(entityNamed(builtInDefinition(world.definitionName), entity).table);
      const marks = allSampleSinks[type].ledger(
        world.folder,
        `SELECT params, watermark FROM _sync_partitions WHERE entity = '${entity}' AND watermark IS NOT NULL`,
      ) as readonly Watermark[];
      return marks.flatMap(({ params, watermark }) =>
        [...rows].flatMap(([key, row]) => {
          const ofPartition =
            param === null || (JSON.parse(params) as JsonObject)[param] === row.columns[param];
          const value = Date.parse(text(row.columns[field]));
          const found = stored.get(key);
          const isStored = found !== undefined && sameRow(found, row);
          return !ofPartition || isStored || !(value <= Date.parse(watermark)) ? [] : [`${entity} ${key}`];
        }),
      );
    });
  }
});

describe('kills of workers', () => {
  const kills = repeats('KILLS', { share: 30, full: 30 });
  const workers = 3;
  const timings = { lockMs: 1000, stalledMs: 500, reconcileMs: 5000, busyDelayMs: 300, drainDelayS: 1 };

  const connectors: readonly ScheduledConnector[] = [
    { name: 'news-one', definition: 'email-marketing', size: 'small', schedule: '{ cron: "*/4 * * * * *" }' },
    { name: 'news-two', definition: 'email-marketing', size: 'tiny', schedule: '{ cron: "*/2 * * * * *" }' },
    { name: 'wiki-one', definition: 'workspace-notes', size: 'small', schedule: '{ cron: "*/4 * * * * *" }' },
    { name: 'wiki-two', definition: 'workspace-notes', size: 'tiny', schedule: '{ cron: "*/2 * * * * *" }' },
    {
      name: 'wiki-three',
      definition: 'workspace-notes',
      size: 'tiny',
      schedule: '{ cron: "*/3 * * * * *" }',
    },
  ];

  let world: ScheduledWorld;
  const started: WorkerProcess[] = [];

  afterEach(async () => {
    for (const { child } of started) child.kill('SIGKILL');
    await Promise.all(started.splice(0).map(({ ended }) => ended));
    await world[Symbol.asyncDispose]();
  });

  function startWorker(): WorkerProcess {
    const worker = startWorkerProcess(world, timings);
    started.push(worker);
    return worker;
  }

  // Proves promise 12
  it.runIf(hasMoreKills).each(scheduledSinks)(
    `loses, doubles and overlaps nothing while workers are killed again and again (%s, ${kills} kills, seed ${seed})`,
    async (sinkType) => {
      world = await openScheduledWorld({ connectors, latencyMs: 15, concurrency, sinkType });
      const random = seededRandom(seed);
      const undisturbed = await callsOfOneRun();
      let living = Array.from({ length: workers }, startWorker);
      for (let done = 0; done < kills; done += 1) {
        // Killing an idle worker proves little: a worker with an open run is killed, some time into it.
        const victim = await Promise.race(living.map((worker) => busy(worker)));
        // When a kill comes is part of the experiment, not a wait for something.
        await after(random() * 400);
        victim.child.kill('SIGKILL');
        await victim.ended;
        living = [...living.filter((worker) => worker !== victim), startWorker()];
      }
      const calmSince = new Date().toISOString();
      await Promise.all(
        connectors.map(({ name }) => Promise.race(living.map((worker) => calmRun(worker, name, calmSince)))),
      );
      for (const { child } of living) child.kill('SIGTERM');
      for (const { ended } of living) expect(await ended).toEqual({ code: 0, signal: null });

      const spans = runSpans();
      const runs = storedRuns();
      for (const { name } of connectors) {
        expect({ name, seed, ...world.differences(name) }).toEqual({ name, seed, ...noDifferences });
        expect({ name, overlapping: overlaps(spans.filter(({ connector }) => connector === name)) }).toEqual({
          name,
          overlapping: [],
        });
        const own = runs.filter(({ connector }) => connector === name);
        const killed = own.filter(({ report }) => report === null).length;
        const anew = own.filter(({ continues }) => continues === null).length;
        const used = world.calls(name);
        const allowed = 1.1 * (undisturbed.get(name) ?? 0) * anew + killed * pagesInFlight * concurrency;
        console.log(
          `${name}: ${own.length} runs, ${anew} begun anew, ${killed} killed, ${used} calls (${undisturbed.get(name)} for an undisturbed run)`,
        );
        expect({ name, seed, tooMany: Math.max(0, Math.ceil(used - allowed)) }).toEqual({
          name,
          seed,
          tooMany: 0,
        });
      }
      expect(runs.filter(({ state }) => state !== 'ok' && state !== 'interrupted')).toEqual([]);
      expect(started.flatMap(({ stray }) => stray)).toEqual([]);
    },
    900_000,
  );

  /** A worker of its own lets every connector run once, and is gone again before the others come. */
  async function callsOfOneRun(): Promise<ReadonlyMap<string, number>> {
    const worker = startWorker();
    const calls = new Map<string, number>();
    for (const { name } of connectors) {
      await worker.until((line) => isRunFinished(line) && line['connector'] === name);
    }
    worker.child.kill('SIGTERM');
    await worker.ended;
    const complete = storedRuns().filter(({ state, continues }) => state === 'ok' && continues === null);
    for (const { name } of connectors) {
      const own = complete.find(({ connector }) => connector === name);
      calls.set(name, own === undefined ? 0 : (JSON.parse(own.report ?? '{}') as { calls: number }).calls);
    }
    return calls;
  }

  /** Resolves with the worker once it has a run that has not ended. */
  async function busy(worker: WorkerProcess): Promise<WorkerProcess> {
    const isIdle = worker.lines.filter(isRunStarted).length === worker.lines.filter(isRunFinished).length;
    if (isIdle) await worker.until(isRunStarted, worker.lines.length);
    return worker;
  }

  async function calmRun(worker: WorkerProcess, connector: string, since: string): Promise<void> {
    await worker.until(
      (line) =>
        isRunFinished(line) &&
        line['connector'] === connector &&
        line['outcome'] === 'ok' &&
        line.time > since,
    );
  }

  interface RunSpan {
    readonly connector: unknown;
    readonly run: unknown;
    readonly from: string;
    readonly to: string;
  }

  /** When each run was active, by the processes' own logs: of a killed one up to the last line of its process. */
  function runSpans(): readonly RunSpan[] {
    return started.flatMap(({ lines }) => {
      const last = lines.at(-1)?.time ?? '';
      return lines.filter(isRunStarted).map((line) => ({
        connector: line['connector'],
        run: line['run'],
        from: line.time,
        to: lines.find((end) => isRunFinished(end) && end['run'] === line['run'])?.time ?? last,
      }));
    });
  }

  function overlaps(spans: readonly RunSpan[]): readonly string[] {
    const sorted = spans.toSorted((left, right) => (left.from < right.from ? -1 : 1));
    return sorted.flatMap((span, index) => {
      const before = sorted[index - 1];
      return before !== undefined && before.to > span.from
        ? [`${String(before.run)} and ${String(span.run)}`]
        : [];
    });
  }

  interface StoredRun {
    readonly connector: string;
    readonly state: string;
    readonly continues: string | null;
    readonly report: string | null;
  }

  function storedRuns(): readonly StoredRun[] {
    return world.ledger('SELECT connector, state, continues, report FROM _sync_runs') as readonly StoredRun[];
  }
});
