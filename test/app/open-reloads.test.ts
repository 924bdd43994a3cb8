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
async function follow(folder: string, { apply, watch = true, onOutcome }: Followed): Promise<void> {
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
  write(configOf('20d', watch));
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
  'tries a config again after growing pauses while Redis is unreachable (watch: %s)',
  async (watch, { folder }) => {
    const outcomes: (readonly [string, number])[] = [];
    await follow(folder, {
      watch,
      apply: (turn) => {
        if (turn <= 40) unreachable();
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
    const pauses = outcomes.slice(1).map(([, afterS]) => afterS);
    // Each try takes ten seconds, and the last pause five minutes.
    // The first one begins with a look at the files, which are still after the next.
    expect(pauses[0]).toBe(watch ? 20 : 22);
    expect(pauses.slice(1, 5)).toEqual([30, 50, 90, 170]);
    for (const pause of pauses.slice(5)) expect(pause).toBeGreaterThanOrEqual(300);
    expect(Math.max(...pauses)).toBeLessThan(320);
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

it('waits for a change of a followed config that cannot be used, also one made during the reload', async ({
  folder,
}) => {
  const outcomes: string[] = [];
  let applied = 0;
  await follow(folder, {
    apply: () => {
      applied += 1;
      if (applied === 1) throw new SyncError('another file', { code: 'SINK_INCOMPATIBLE', recovery: 'stop' });
    },
    onOutcome: (outcome, _afterS, write) => {
      outcomes.push(outcome);
      if (outcomes.length === 1) void afterTurns(1_000).then(() => write(configOf('broken')));
      if (outcomes.length === 2) write(configOf('300d'));
      return outcome === 'applied' ? 'stop' : 'follow';
    },
  });
  expect(outcomes).toEqual(['refused', 'refused', 'applied']);
  expect(applied).toBe(2);
});

/** A look takes one: these are more than half an hour. */
async function afterTurns(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
