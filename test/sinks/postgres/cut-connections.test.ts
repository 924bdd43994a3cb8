import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { noCounts } from '../../../src/core/records.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import {
  Bench,
  entityReport,
  identity,
  member,
  members,
  onlyPartition,
  page,
  report,
  sealed,
} from '../../contracts/sink/fixture.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { seededRandom } from '../../support/seeded-random.ts';

/* A connection that is cut at COMMIT says nothing of what became of the transaction. */

const pages = 40;
const rowsPerPage = 5;

it('stores each page once, whether a COMMIT whose answer was lost had come through or not', async () => {
  const kind = await postgresSinkKind();
  const bench = new Bench(kind);
  onTestFinished(async () => await bench.close());
  const options = kind.options(bench.folder);
  if (options.type !== 'postgres') throw new Error('should be a sink in PostgreSQL');
  const cutter = await startCutter(options.connection.hosts[0]?.port ?? 0);
  onTestFinished(() => cutter.close());
  const hosts = [{ host: '127.0.0.1', port: cutter.port }];
  const sink = await openSink(
    { ...options, connection: { ...options.connection, hosts } },
    { clock: bench.clock },
  );
  const lease = await sink.acquire(identity());
  const plan = bench.plan('r1');
  const started = { lease, run: plan.run };
  await sink.startRun(lease, plan);
  const { id } = await onlyPartition(sink, lease);
  cutter.cutCommits(seededRandom(1));
  for (let index = 0; index < pages; index += 1) {
    const keys = Array.from({ length: rowsPerPage }, (_, row) => String(index * rowsPerPage + row));
    const isLast = index === pages - 1;
    const [committed] = await sink.commit(lease, [
      page(
        started,
        id,
        keys.map((key) => member(key)),
        {
          position: { kind: 'offset', offset: (index + 1) * rowsPerPage },
          seal: isLast ? sealed : null,
        },
      ),
    ]);
    expect(committed?.counts[0]?.counts).toEqual({
      ...noCounts,
      fetched: rowsPerPage,
      inserted: rowsPerPage,
    });
  }
  const rows = pages * rowsPerPage;
  await sink.finish(
    lease,
    plan.run,
    report(started, { entities: [entityReport(members, { fetched: rows, inserted: rows })] }),
  );
  await sink[Symbol.asyncDispose]();
  expect(Math.min(cutter.cuts().stored, cutter.cuts().dropped), 'both were tried').toBeGreaterThan(3);
  const stored = await bench.rows();
  expect(stored).toHaveLength(rows);
  expect(new Set(stored.map(({ _seq }) => _seq)).size, 'no number twice').toBe(rows);
  expect(await bench.ledger('SELECT epoch FROM _sync_leases'), 'nobody took it').toEqual([{ epoch: 1 }]);
}, 120_000);

interface Cuts {
  /** COMMITs that came through to the server, and whose answer did not. */
  stored: number;
  /** COMMITs that the server never got. */
  dropped: number;
}

/** Passes everything on and, once told to, cuts half of the connections that send COMMIT: behind it, or in front of it. */
async function startCutter(port: number): Promise<{
  readonly port: number;
  cutCommits(random: () => number): void;
  cuts(): Cuts;
  close(): void;
}> {
  const counted: Cuts = { stored: 0, dropped: 0 };
  let random: (() => number) | null = null;
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1');
    const end = (): void => {
      client.destroy();
      upstream.end();
    };
    client.on('error', end).on('close', end);
    upstream.on('error', end).on('close', end);
    upstream.on('data', (bytes) => client.write(bytes));
    client.on('data', (bytes) => {
      const chance = random !== null && bytes.includes('COMMIT\0') ? random() : 1;
      if (chance < 0.25) counted.dropped += 1;
      else upstream.write(bytes);
      if (chance >= 0.25 && chance < 0.5) counted.stored += 1;
      if (chance < 0.5) end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('should listen on a port');
  return {
    port: address.port,
    cutCommits: (given) => void (random = given),
    cuts: () => counted,
    close: () => void server.close(),
  };
}
