import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { Bench } from '../../contracts/sink/fixture.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { seededRandom } from '../../support/seeded-random.ts';

const program = fileURLToPath(new URL('host-process.ts', import.meta.url));
const pages = 400;
const rowsPerPage = 5;
const hosts = 3;
const kills = 8;

interface Told {
  readonly kind: 'stored' | 'done';
  readonly epoch: number;
  readonly page: number;
}

it('loses, doubles and tears nothing when hosts that share a connector are killed one after the other', async () => {
  const kind = await postgresSinkKind();
  const bench = new Bench(kind);
  onTestFinished(async () => await bench.close());
  await (await bench.open())[Symbol.asyncDispose]();
  const told: Told[] = [];
  const running = new Set<ChildProcess>();
  const holders = new Map<number, ChildProcess>();
  const begin = (): void => {
    const child = fork(program, [JSON.stringify(kind.options(bench.folder)), String(pages)], {
      execArgv: ['--import', 'tsx'],
    });
    running.add(child);
    child.on('message', (message) => {
      const one = message as Told;
      told.push(one);
      holders.set(one.epoch, child);
    });
    child.once('exit', () => running.delete(child));
  };
  onTestFinished(() => {
    for (const child of running) child.kill('SIGKILL');
  });
  const random = seededRandom(7);
  for (let index = 0; index < hosts; index += 1) begin();
  const newest = (): number => Math.max(0, ...told.map(({ epoch }) => epoch));
  const until = async (is: () => boolean): Promise<void> => {
    while (!is()) await pause(5);
  };
  for (let killed = 0; killed < kills; killed += 1) {
    const before = newest();
    await until(() => newest() > before);
    await pause(random() * 150);
    const holder = holders.get(newest());
    if (told.some((one) => one.kind === 'done')) break;
    if (holder === undefined) throw new Error('somebody should hold the connector');
    const gone = once(holder, 'exit');
    holder.kill('SIGKILL');
    await gone;
    begin();
  }
  await until(() => told.some((one) => one.kind === 'done'));

  const rows = await bench.rows();
  expect(rows).toHaveLength(pages * rowsPerPage);
  expect(new Set(rows.map(({ _seq }) => _seq)).size, 'no number twice').toBe(rows.length);
  const epochs = rows
    .toSorted((one, other) => Number(one['_seq']) - Number(other['_seq']))
    .map(({ _run_id: run }) => Number((run as string).slice(1)));
  expect(epochs, 'nobody who was overtaken has stored anything').toEqual(
    epochs.toSorted((one, other) => one - other),
  );
  expect(new Set(epochs).size, 'several took part').toBeGreaterThan(kills / 2);
  const sums = 'sum(fetched)::integer AS fetched, sum(inserted)::integer AS inserted';
  expect(await bench.ledger(`SELECT ${sums} FROM _sync_counts`), 'no page twice').toEqual([
    { fetched: rows.length, inserted: rows.length },
  ]);
  const pagesTold = told.filter((one) => one.kind === 'stored').map((one) => one.page);
  expect(new Set(pagesTold).size, 'what was told is told once').toBe(pagesTold.length);
}, 180_000);
