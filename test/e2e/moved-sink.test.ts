import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { eventually } from '../support/jobs/worker-bench.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { useWorkers, type Workers } from '../support/use-workers.ts';
import { isRunFinished, isRunStarted, type LogLine, type WorkerProcess } from '../support/worker-process.ts';

const schedule = '{ cron: "* * * * * *" }';
const isOf =
  (connector: string) =>
  (line: LogLine): boolean =>
    line['connector'] === connector;
const isLost = ({ msg }: LogLine): boolean =>
  msg.startsWith('this sink was moved or replaced, or is out of reach');
const isBack = ({ msg }: LogLine): boolean => msg === 'this sink is back in place';

let world: Workers;
let worker: WorkerProcess;
let url: string;

describe('a SQLite sink under a running worker', () => {
  // Proves promise 12
  it('is not served while its file is moved away, others continue, and it resumes when the file is back', async () => {
    await start(5);
    await worker.until((line) => isRunFinished(line) && isOf('news')(line));
    const [place, away] = [placeOf(), path.join(world.folder, 'away')];
    renameSync(place, away);
    const lost = await worker.until(isLost);
    expect(lost).toMatchObject({ sink: 'test', found: `nothing is at ${place}` });
    const ready = await readiness();
    expect(ready.status).toBe(503);
    expect(ready.text).toContain('sink test was moved or replaced, or is out of reach');
    expect(ready.text).not.toContain(world.folder);
    await nextRunOf('wiki');
    await nextRunOf('wiki');
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/connector="news"[^\n]*entity=/);
    expect(existsSync(place)).toBe(false);
    expect(
      worker.lines.filter((line) => isRunStarted(line) && isOf('news')(line) && line.time > lost.time),
    ).toEqual([]);
    const from = worker.lines.length;
    renameSync(away, place);
    await worker.until(isBack);
    await worker.until((line) => isRunFinished(line) && isOf('news')(line), from);
    expect((await readiness()).status).toBe(200);
    expect(worker.lines.filter(isLost)).toHaveLength(1);
    await stop();
    expect(world.differences('news')).toMatchObject({ lost: 0, superfluous: 0, different: 0 });
  });

  // Proves promise 12
  it('gets nothing of an active run when another sink takes its place, and a restored copy resumes that run', async () => {
    await start(100);
    await worker.until((line) => isRunStarted(line) && isOf('news')(line));
    await eventually(() => Promise.resolve(world.calls('news') > 20));
    const [away, other] = [path.join(world.folder, 'away'), path.join(world.folder, 'other-one')];
    await makeSink(other);
    const before = contents(other);
    moveAll(world.folder, away);
    moveAll(other, world.folder);
    const lost = await worker.until(isLost);
    expect(String(lost['found'])).toMatch(/^another sink is at /);
    await worker.until((line) => line.msg === 'job ended' && isOf('news')(line));
    await nextRunOf('wiki');
    expect(worker.lines.some((line) => isRunFinished(line) && isOf('news')(line))).toBe(false);
    moveAll(world.folder, other);
    expect(contents(other)).toEqual(before);
    const from = worker.lines.length;
    const copy = path.join(world.folder, 'copy');
    cpSync(away, copy, { recursive: true });
    moveAll(copy, world.folder);
    await worker.until(isBack);
    const resumed = await worker.until((line) => isRunStarted(line) && isOf('news')(line), from);
    expect(resumed['continues']).toBeTruthy();
    await worker.until((line) => isRunFinished(line) && isOf('news')(line), from);
    await stop();
    expect(world.differences('news')).toMatchObject({ lost: 0, superfluous: 0, different: 0 });
  });
});

// Proves promise 12
it('does not read the write-ahead log of a sink into a file that was put beside it', async () => {
  await start(5);
  await worker.until((line) => isRunFinished(line) && isOf('news')(line));
  const place = placeOf();
  const other = path.join(world.folder, 'other-one');
  await makeSink(other);
  renameSync(place, path.join(world.folder, 'away'));
  renameSync(path.join(other, 'test.db'), place);
  const { found } = await worker.until(isLost);
  expect(found).toBe(`another file is at ${place}, and ${place}-wal is still that of the sink`);
});

async function start(latencyMs: number): Promise<void> {
  world = await useWorkers({
    connectors: [
      { name: 'news', definition: 'email-marketing', size: 'tiny', schedule },
      { name: 'wiki', definition: 'workspace-notes', size: 'tiny', schedule, sink: 'second' },
    ],
    latencyMs,
  });
  worker = world.start({ sinkWatchMs: 200, busyDelayMs: 200 }, { listen: { host: '127.0.0.1', port: 0 } });
  const { http } = await worker.until(({ msg }) => msg === 'ready for scheduled runs');
  url = String(http);
}

async function stop(): Promise<void> {
  worker.child.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
}

async function readiness(): Promise<{ readonly status: number; readonly text: string }> {
  const answer = await fetch(`${url}/readyz`);
  return { status: answer.status, text: await answer.text() };
}

function nextRunOf(connector: string): Promise<LogLine> {
  return worker.until((line) => isRunFinished(line) && isOf(connector)(line), worker.lines.length);
}

/** The file of the sink that is moved. */
const placeOf = (): string => path.join(world.folder, 'test.db');

/** Moves a sink with what SQLite keeps beside it. Locks stay: a database's other files belong to it, they do not. */
function moveAll(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  const isMoved = (name: string): boolean => /^test\.db(-wal|-shm)?$/.test(name);
  for (const name of readdirSync(from).filter(isMoved)) {
    renameSync(path.join(from, name), path.join(to, name));
  }
}

async function makeSink(folder: string): Promise<void> {
  mkdirSync(folder);
  await using _made = await openSink(sampleSinks.sqlite.options(folder), { clock: systemClock });
}

/** Of every file, byte for byte. Reading a SQLite file may leave an empty log beside it. */
function contents(folder: string): Readonly<Record<string, string>> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return Object.fromEntries(
    files
      .filter(({ name }) => !/-(wal|shm)$/.test(name))
      .map(({ parentPath, name }) => path.join(parentPath, name))
      .map((file) => [
        path.relative(folder, file),
        createHash('sha256').update(readFileSync(file)).digest('hex'),
      ]),
  );
}
