import { expect, it, onTestFinished } from 'vitest';
import { openSink } from '../../../src/sinks/registry.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { startPostgresProxy } from '../../support/postgres-proxy.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { atPort, PagedRun } from '../../support/sinks/paged-run.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

it('waits twice for the server in a commit of pages: for what is stored, and for the end', async () => {
  const bench = benchOfTest(await postgresSinkKind());
  const proxy = await startPostgresProxy((await sharedPostgres()).port);
  onTestFinished(() => proxy.close());
  /** How often each connection has spoken after the server had. */
  const turns: number[] = [];
  proxy.rule(() => {
    const connection = turns.push(0) - 1;
    let isClients = false;
    return {
      fromClient: ({ length }) => {
        if (!isClients) turns[connection] = (turns[connection] ?? 0) + 1;
        isClients = true;
        return length;
      },
      fromServer: ({ length }) => {
        isClients = false;
        return length;
      },
    };
  });
  const sink = await openSink(atPort(bench, proxy.port), { clock: bench.clock });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  const before = [...turns];
  await run.store();
  expect(Math.max(...turns.map((count, index) => count - (before[index] ?? 0)))).toBe(2);
  await run.finish();
});
