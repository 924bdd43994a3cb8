import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import type { ConnectorId, ConnectorName } from '../../../src/core/names.ts';
import { ConnectorBusyError, IdentityChangedError } from '../../../src/sinks/acquire-errors.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  counts,
  identity,
  member,
  news,
  onlyPartition,
  page,
  report,
  type Bench,
  type SinkKind,
  type Started,
  walkFailure,
} from './fixture.ts';
import { useBench } from './use-bench.ts';
import { testProgram } from '../../support/ensure-built.ts';

const holderProgram = testProgram('contracts/sink/holder-process.mjs');

export function holding(kind: SinkKind): void {
  const bench = useBench(kind);
  const children: ChildProcess[] = [];

  afterEach(async () => {
    await Promise.all(children.splice(0).map(kill));
  });

  /** Resolves when the other process holds the connector and has committed a page in run `r1`. */
  async function holdElsewhere({ folder }: Bench): Promise<ChildProcess> {
    const options = JSON.stringify(kind.options(folder));
    const child = fork(holderProgram, [options], { execArgv: ['--expose-gc'] });
    children.push(child);
    await once(child, 'message');
    return child;
  }

  // Proves promise 11
  it('refuses a connector that another process holds and names the holder, then is free at once when that one is killed', async () => {
    const sink = await bench().open();
    const child = await holdElsewhere(bench());
    const busy = await sink.acquire(identity()).catch((error: unknown) => error);
    expect(busy).toBeInstanceOf(ConnectorBusyError);
    expect(busy).toMatchObject({
      code: 'CONNECTOR_BUSY',
      recovery: 'stop',
      context: {
        connector: 'news',
        pid: child.pid,
        host: 'elsewhere',
        command: 'connector-sync worker',
        since: '2026-03-01T09:00:00.000Z',
      },
    });
    await using other = await sink.acquire(identity({ connector: 'wiki' as ConnectorName }));
    expect(other.connector).toBe('wiki');

    await kill(child);
    const lease = await acquireWithin(sink, kind.freeWithinMs ?? 0);
    expect(lease.epoch).toBe(2);
    expect(await sink.startRun(lease, bench().plan('r2'))).toMatchObject({ continues: 'r1' });
    const started = { lease, run: 'r2' as Started['run'] };
    const { id, position } = await onlyPartition(sink, lease);
    expect(position).toEqual({ kind: 'offset', offset: 2 });
    const [committed] = await sink.commit(lease, [
      page(started, id, [member('1'), member('2'), member('3')]),
    ]);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 3, duplicate: 2, inserted: 1 }));
    expect(await bench().rows()).toHaveLength(3);
  });

  it('refuses a connector that this process holds already, through the same sink or another', async () => {
    const { sink, lease } = await bench().hold();
    await expect(sink.acquire(identity())).rejects.toThrow(ConnectorBusyError);
    const other = await bench().open();
    await expect(other.acquire(identity())).rejects.toThrow(
      /held by process \d+ on here since .*connector-sync sync news/,
    );
    await expect(sink.acquire(identity()), 'a refusal does not loosen the lock').rejects.toThrow(
      ConnectorBusyError,
    );
    await lease[Symbol.asyncDispose]();
    await lease[Symbol.asyncDispose]();
    expect((await other.acquire(identity())).epoch).toBe(2);
  });

  it('gives every connector back when the sink is closed', async () => {
    const sink = await bench().open();
    await sink.acquire(identity());
    await sink[Symbol.asyncDispose]();
    await sink[Symbol.asyncDispose]();
    const other = await bench().open();
    await expect(other.acquire(identity())).resolves.toMatchObject({ connector: news });
  });

  it('refuses every call of a lease that was given back', async () => {
    const { sink, started, commit } = await bench().walking();
    await started.lease[Symbol.asyncDispose]();
    await using again = await sink.acquire(identity());
    expect(again.epoch).toBe(2);
    await expect(commit([member('1')])).rejects.toMatchObject({
      code: 'FENCED',
    });
    await expect(sink.nextPartitions(started.lease, 1)).rejects.toMatchObject({ code: 'FENCED' });
    await expect(sink.finish(started.lease, started.run, report(started))).rejects.toMatchObject({
      code: 'FENCED',
    });
  });

  // Proves promise 11
  it('refuses every call of a holder that another one has overtaken, and stores nothing', async () => {
    const { sink, started, id, commit } = await bench().walking();
    await bench().overtake();
    const walk = { partition: id, run: started.run };
    const why = walkFailure({ message: '', at: '', dropPosition: true });
    const fenced = { code: 'FENCED', recovery: 'retry' };
    await expect(commit([member('1')])).rejects.toMatchObject(fenced);
    await expect(sink.setAside(started.lease, walk, why)).rejects.toMatchObject(fenced);
    await expect(sink.nextPartitions(started.lease, 1)).rejects.toMatchObject(fenced);
    await expect(sink.finish(started.lease, started.run, report(started))).rejects.toMatchObject(fenced);
    await expect(sink.startRun(started.lease, bench().plan('r2'))).rejects.toMatchObject(fenced);
    expect(await bench().rows()).toEqual([]);
    expect(await sink.history.failures(news, 1)).toEqual([]);
  });

  it.each([
    ['base URL', { baseUrl: 'https://other.example.test' }, 'https://other.example.test'],
    ['connector id', { connectorId: 'c-2' as ConnectorId }, 'c-2'],
    ['definition', { definition: 'workspace-notes' }, 'workspace-notes'],
  ])(
    'refuses another %s under the same name once rows are stored, naming both',
    async (what, change, given) => {
      const sink = await bench().open();
      const empty = await sink.acquire(identity({ ...change, definition: 'other' }));
      await empty[Symbol.asyncDispose]();
      const started = await bench().begin(sink, 'r1');
      const { id } = await onlyPartition(sink, started.lease);
      await sink.commit(started.lease, [page(started, id, [member('1')])]);
      await started.lease[Symbol.asyncDispose]();
      const refused = await sink.acquire(identity(change)).catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(IdentityChangedError);
      expect(refused).toMatchObject({
        code: 'IDENTITY_CHANGED',
        message: expect.stringContaining(given) as string,
      });
      expect(String(refused)).toContain(`${what} was `);
      await expect(sink.acquire(identity()), 'the lock is free again').resolves.toMatchObject({ epoch: 3 });
    },
  );

  it('refuses a connector whose tables would be those of another', async () => {
    const sink = await bench().open();
    await sink.acquire(identity({ connector: 'my-news' as ConnectorName }));
    await expect(sink.acquire(identity({ connector: 'my_news' as ConnectorName }))).rejects.toMatchObject({
      code: 'SINK_INCOMPATIBLE',
    });
  });
}

async function acquireWithin(sink: Sink, ms: number): Promise<Lease> {
  const startedMs = performance.now();
  for (;;) {
    try {
      return await sink.acquire(identity());
    } catch (error) {
      if (!(error instanceof ConnectorBusyError) || performance.now() - startedMs > ms) throw error;
    }
    await pause(200);
  }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
}
