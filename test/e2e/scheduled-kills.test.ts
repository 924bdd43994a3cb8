import { setTimeout as after } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import {
  openScheduledWorld,
  scheduledSinks,
  type ScheduledConnector,
  type ScheduledWorld,
} from '../support/scheduled-world.ts';
import { noDifferences } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import {
  isRunFinished,
  isRunStarted,
  startWorkerProcess,
  type WorkerProcess,
} from '../support/worker-process.ts';
import { hasMoreKills, repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 30, full: 30 });
const seed = startSeed();
const workers = 3;
const concurrency = 4;
/** Of one walk: eight received and not yet stored, one asked for. */
const pagesInFlight = 9;
const timings = { lockMs: 1000, stalledMs: 500, reconcileMs: 5000, busyDelayMs: 300, drainDelayS: 1 };

const connectors: readonly ScheduledConnector[] = [
  { name: 'news-one', definition: 'email-marketing', size: 'small', schedule: '{ cron: "*/4 * * * * *" }' },
  { name: 'news-two', definition: 'email-marketing', size: 'tiny', schedule: '{ cron: "*/2 * * * * *" }' },
  { name: 'wiki-one', definition: 'workspace-notes', size: 'small', schedule: '{ cron: "*/4 * * * * *" }' },
  { name: 'wiki-two', definition: 'workspace-notes', size: 'tiny', schedule: '{ cron: "*/2 * * * * *" }' },
  { name: 'wiki-three', definition: 'workspace-notes', size: 'tiny', schedule: '{ cron: "*/3 * * * * *" }' },
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
      isRunFinished(line) && line['connector'] === connector && line['outcome'] === 'ok' && line.time > since,
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
