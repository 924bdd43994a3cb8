import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { tableName } from '../../../src/sinks/postgres/records/names.ts';
import { quoted } from '../../../src/sql/quoted.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { members, news } from '../../contracts/sink/fixture.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { repeats, startSeed } from '../../support/trials.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

const program = testProgram('sinks/postgres/host-process.mjs');
/** More than are stored before the last kill. */
const pages = 1_000_000;
const rowsPerPage = 5;
const hosts = 3;
const kills = repeats('KILLS', { share: 2, full: 300 });
const seed = startSeed(7);

interface Told {
  readonly kind: 'stored' | 'done';
  readonly epoch: number;
  readonly page: number;
}

interface Host {
  readonly child: ChildProcess;
  /** Of the lease that it was heard of with; 0: it waits for one. */
  epoch: number;
}

// Proves promise 1.1
it(
  'loses, doubles and tears nothing when hosts that share a connector are killed one after the other, and a reader of its numbers misses nothing',
  async () => {
    const kind = await postgresSinkKind();
    const bench = benchOfTest(kind);
    await (await bench.open())[Symbol.asyncDispose]();
    const told: Told[] = [];
    const begin = (): Host => {
      const child = fork(program, [JSON.stringify(kind.options(bench.folder)), String(pages)]);
      const host: Host = { child, epoch: 0 };
      child.on('message', (message) => {
        const one = message as Told;
        told.push(one);
        host.epoch = one.epoch;
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      return host;
    };
    const until = async (is: () => boolean): Promise<void> => {
      while (!is()) await pause(5);
    };
    const running = Array.from({ length: hosts }, begin);
    await until(() => told.length > 0);
    const reader = readOn(bench);

    const random = seededRandom(seed);
    const kill = async (host: Host): Promise<void> => {
      const gone = once(host.child, 'exit');
      host.child.kill('SIGKILL');
      await gone;
    };
    let ofHolders = 0;
    for (let killed = 0; killed < kills; killed += 1) {
      const enough = told.length + 1 + Math.floor(random() * 10);
      await until(() => told.length >= enough);
      await pause(random() * 50);
      const newest = Math.max(...running.map(({ epoch }) => epoch));
      const holder = running.findIndex(({ epoch }) => epoch === newest);
      // Most of the time the one that writes, otherwise one that waits or is only starting.
      const index = random() < 0.7 ? holder : Math.floor(random() * hosts);
      const host = running[index];
      if (host === undefined) throw new RangeError('a host should be running');
      if (index === holder) ofHolders += 1;
      await kill(host);
      running[index] = begin();
    }
    const before = told.length;
    await until(() => told.length > before);
    for (const host of running) await kill(host);
    const read = await reader.end();

    const rows = await bench.rows();
    const seqs = rows.map(({ _seq }) => Number(_seq)).toSorted((one, other) => one - other);
    console.log(
      `${kills} kills (seed ${seed}), ${ofHolders} of the host that wrote: ${rows.length} rows, of ${told.length} pages told; a reader saw ${read.length}`,
    );
    const keys = new Set(rows.map(({ id }) => Number(id)));
    const storedPages = Math.max(...told.map(({ page }) => page)) + 1;
    expect(rows.length, 'what was told is stored').toBeGreaterThanOrEqual(storedPages * rowsPerPage);
    expect(rows.length % rowsPerPage, 'no page torn').toBe(0);
    expect(
      Array.from({ length: rows.length }, (_, key) => key).filter((key) => !keys.has(key)),
      'none lost in between',
    ).toEqual([]);
    expect(new Set(seqs).size, 'no number twice').toBe(rows.length);
    expect(read, 'the reader saw each change, once').toEqual(seqs);
    const epochs = rows
      .toSorted((one, other) => Number(one['_seq']) - Number(other['_seq']))
      .map(({ _run_id: run }) => Number((run as string).slice(1)));
    expect(epochs, 'no holder that was overtaken has stored anything').toEqual(
      epochs.toSorted((one, other) => one - other),
    );
    expect(new Set(epochs).size, 'several took part').toBeGreaterThan(ofHolders / 2);
    const sums = 'sum(fetched)::integer AS fetched, sum(inserted)::integer AS inserted';
    expect(await bench.ledger(`SELECT ${sums} FROM _sync_counts`), 'no page twice').toEqual([
      { fetched: rows.length, inserted: rows.length },
    ]);
    const pagesTold = told.map((one) => one.page);
    expect(new Set(pagesTold).size, 'what was told is told once').toBe(pagesTold.length);
  },
  180_000 + 10_000 * kills,
);

/** Reads in plain SQL what is above the highest number that it has seen, again and again. */
function readOn(bench: Bench): { readonly end: () => Promise<readonly number[]> } {
  const seen: number[] = [];
  let isOver = false;
  const reading = (async () => {
    for (;;) {
      const isLast = isOver;
      const found = await bench.ledger(
        `SELECT _seq::double precision AS seq FROM ${quoted(tableName(news, members))} WHERE _seq > ${seen.at(-1) ?? 0} ORDER BY _seq`,
      );
      seen.push(...found.map(({ seq }) => Number(seq)));
      if (isLast && found.length === 0) return seen;
      await pause(10);
    }
  })();
  // `end` reports a failure.
  reading.catch(() => undefined);
  return {
    end: async () => {
      isOver = true;
      return await reading;
    },
  };
}
