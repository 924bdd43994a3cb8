import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { openReloads } from '../../src/app/open-reloads.ts';
import { SyncError } from '../../src/core/errors.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { instantClock } from '../support/instant-clock.ts';
import { it } from '../support/it.ts';

const configOf = (freshWithin: string, watch = true): string =>
  [
    `watch: ${watch}`,
    'api: { baseUrl: "http://127.0.0.1:1", clientId: a, clientSecret: b }',
    'sinks: { main: { type: sqlite, path: ./main.db } }',
    `connectors: { notes: { definition: workspace-notes, id: n, sink: main, freshWithin: ${freshWithin} } }`,
  ].join('\n');

interface Followed {
  /** Takes over a config; `turn` counts from 1. */
  readonly apply: (turn: number) => void;
  /** Changes to one with mistakes first. */
  readonly broken?: boolean;
  /** False: a person asks for the reload. */
  readonly watch?: boolean;
  /** Hears each outcome with the seconds since the one before. */
  readonly onOutcome: (
    outcome: string,
    afterS: number,
    write: (text: string) => void,
    stop: () => void,
  ) => 'stop' | 'follow';
}

/** Writes a changed config and follows it, with a clock whose waits are over at once. */
async function follow(
  folder: string,
  { apply, watch = true, broken = false, onOutcome }: Followed,
): Promise<void> {
  const file = path.join(folder, 'config.yaml');
  const write = (text: string): void => writeFileSync(file, text);
  const over = new AbortController();
  const clock = instantClock();
  const read = () => Promise.resolve().then(() => ({ settings: readSettings({ file, env: {} }) }));
  write(configOf('1d', watch));
  let turn = 0;
  let lastMs = clock.now();
  const reloads = openReloads({
    first: await read(),
    read,
    apply: () => Promise.resolve().then(() => apply((turn += 1))),
    onReload: ({ outcome }) => {
      const afterS = Math.round((clock.now() - lastMs) / 1000);
      lastMs = clock.now();
      if (onOutcome(outcome, afterS, write, () => over.abort()) === 'stop') over.abort();
    },
    log: await openLog({ level: 'fatal', write: () => undefined }),
    clock,
    signal: over.signal,
  });
  write(configOf(broken ? 'broken' : '20d', watch));
  if (!watch) await reloads.reload();
  await reloads.followFiles();
}

function unreachable(): never {
  throw new SyncError('Redis at 127.0.0.1:6379 does not answer.', {
    code: 'QUEUE_UNAVAILABLE',
    recovery: 'stop',
  });
}

it.for([true, false])(
  'tries a config again each minute while Redis is unreachable (watch: %s)',
  async (watch, { folder }) => {
    const outcomes: (readonly [string, number])[] = [];
    await follow(folder, {
      watch,
      apply: (turn) => {
        if (turn <= 8) unreachable();
      },
      onOutcome: (outcome, afterS) => {
        outcomes.push([outcome, afterS]);
        return outcome === 'applied' ? 'stop' : 'follow';
      },
    });
    expect(outcomes.map(([outcome]) => outcome)).toEqual([
      ...Array.from({ length: 8 }, () => 'refused'),
      'applied',
    ]);
    // The files are still after a second look.
    for (const [, afterS] of outcomes.slice(1)) expect([60, 62]).toContain(afterS);
  },
);

it('leaves a config that changed after it was refused to the next reload, without watch', async ({
  folder,
}) => {
  const outcomes: string[] = [];
  await follow(folder, {
    watch: false,
    apply: unreachable,
    onOutcome: (outcome, _afterS, write, stop) => {
      outcomes.push(outcome);
      if (outcomes.length === 3) {
        write(configOf('300d', false));
        void afterTurns(1_000).then(stop);
      }
      return 'follow';
    },
  });
  expect(outcomes).toEqual(['refused', 'refused', 'refused']);
});

it('waits for a change of a followed config with mistakes, also one made during the reload', async ({
  folder,
}) => {
  const outcomes: string[] = [];
  let applied = 0;
  await follow(folder, {
    apply: () => (applied += 1),
    broken: true,
    onOutcome: (outcome, _afterS, write) => {
      outcomes.push(outcome);
      if (outcomes.length === 1) void afterTurns(1_000).then(() => write(configOf('broken, too')));
      if (outcomes.length === 2) write(configOf('300d'));
      return outcome === 'applied' ? 'stop' : 'follow';
    },
  });
  expect(outcomes).toEqual(['refused', 'refused', 'applied']);
  expect(applied).toBe(1);
});

/** A look takes one: these are more than half an hour. */
async function afterTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}

it('reads what the files say when runs of an older config are over', async ({ folder }) => {
  const file = path.join(folder, 'config.yaml');
  const read = () => Promise.resolve({ settings: readSettings({ file, env: {} }) });
  writeFileSync(file, configOf('1d', false));
  const applied: boolean[] = [];
  const reloads = openReloads({
    first: await read(),
    makeRoom: () => Promise.resolve(writeFileSync(file, configOf('1d', true))),
    read,
    apply: ({ settings }) => Promise.resolve(void applied.push(settings.watch)),
    log: await openLog({ level: 'fatal', write: () => undefined }),
    clock: instantClock(),
    signal: new AbortController().signal,
  });
  await reloads.reload();
  expect(applied).toEqual([true]);
});
