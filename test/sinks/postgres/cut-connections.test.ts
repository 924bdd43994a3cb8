import { expect, it, onTestFinished } from 'vitest';
import { openSink } from '../../../src/sinks/registry.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  isCommit,
  startPostgresProxy,
  type Passing,
  type PostgresProxy,
} from '../../support/postgres-proxy.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { shortenWaits } from '../../support/shorten-waits.ts';
import { atPort, PagedRun } from '../../support/sinks/paged-run.ts';
import { repeats, startSeed } from '../../support/trials.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/* A connection that is cut at COMMIT says nothing of what became of the transaction. */

const pages = repeats('TRIALS', { share: 20, full: 1_000 });

async function begin(): Promise<{ readonly run: PagedRun; readonly proxy: PostgresProxy }> {
  // Of a write that is tried again: a cut costs a second of them.
  shortenWaits(0.02);
  const bench = benchOfTest(await postgresSinkKind());
  const options = bench.kind.options(bench.folder);
  if (options.type !== 'postgres') throw new TypeError('The kind should be PostgreSQL');
  const proxy = await startPostgresProxy(options.connection.hosts[0]?.port ?? 0);
  onTestFinished(() => proxy.close());
  const sink = await openSink(atPort(bench, proxy.port), { clock: bench.clock });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  return { run: await PagedRun.begin(bench, sink), proxy };
}

// Proves promise 1.1
it(
  'stores each page once, whether a COMMIT whose answer was lost had come through or not',
  async () => {
    const { run, proxy } = await begin();
    const random = seededRandom(startSeed());
    const cuts = { stored: 0, dropped: 0 };
    proxy.rule((): Passing => {
      let isAnswered = true;
      return {
        fromClient: (bytes) => {
          const chance = isCommit(bytes) ? random() : 1;
          if (chance < 0.25) {
            cuts.dropped += 1;
            return 0;
          }
          if (chance < 0.5) {
            cuts.stored += 1;
            isAnswered = false;
          }
          return bytes.length;
        },
        fromServer: ({ length }) => (isAnswered ? length : 0),
      };
    });
    for (let stored = 0; stored < pages; stored += 1) await run.store();
    proxy.rule(null);
    await run.finish();
    expect(Math.min(cuts.stored, cuts.dropped), 'both were tried').toBeGreaterThan(3);
  },
  60_000 + 1_000 * pages,
);

it(
  'stores each page once, wherever its connections are cut, also within a message',
  async () => {
    const { run, proxy } = await begin();
    const random = seededRandom(startSeed());
    let cuts = 0;
    proxy.rule((): Passing => {
      // What one page sends and is sent is some 10,000 bytes.
      const left = { client: Math.ceil(random() * 40_000), server: Math.ceil(random() * 40_000) };
      const passing = (side: 'client' | 'server') => (bytes: Buffer) => {
        const count = Math.min(bytes.length, left[side]);
        left[side] -= count;
        if (count < bytes.length) cuts += 1;
        return count;
      };
      return { fromClient: passing('client'), fromServer: passing('server') };
    });
    for (let stored = 0; stored < pages; stored += 1) await run.store();
    proxy.rule(null);
    await run.finish();
    expect(cuts).toBeGreaterThan(pages / 5);
  },
  60_000 + 1_000 * pages,
);
