import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openSink } from '../../../src/sinks/registry.ts';
import { type Away, watchOutage } from '../../../src/sql/postgres/outage.ts';
import { toSinkError } from '../../../src/sinks/postgres/sink-error.ts';
import { awayText } from '../../../src/sql/postgres/postgres-error.ts';
import { postgresSinkKindOn } from '../../contracts/postgres-sink-kind.ts';
import { startPostgres } from '../../support/postgres.ts';
import { PagedRun } from '../../support/sinks/paged-run.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/* How long a sink waits for a server that cannot be written to, and what is shown meanwhile. */

function failure(code: string, message = code): Error {
  return Object.assign(new Error(message), { code });
}

interface World {
  readonly outage: ReturnType<typeof watchOutage>;
  readonly shown: (Away | null)[];
  readonly pass: (ms: number) => void;
}

function begin(): World {
  let nowMs = 5_000;
  const shown: (Away | null)[] = [];
  const outage = watchOutage(
    'db:5432/main/sync',
    (error) => toSinkError(error, 'db:5432/main/sync'),
    (away) => shown.push(away),
    () => nowMs,
  );
  return { outage, shown, pass: (ms) => void (nowMs += ms) };
}

// Proves promise 1.1
it('waits one minute in all for a server that is away, however many steps follow one another', () => {
  const { outage, pass } = begin();
  const commit = outage.begin();
  for (let second = 0; second < 60; second += 1) {
    expect(commit(failure('ECONNREFUSED')), `after ${second} s`).toBe(true);
    pass(1_000);
  }
  expect(commit(failure('ECONNREFUSED'))).toBe(false);
  expect(() => outage.begin(), 'the next step is refused without another try').toThrow(
    'PostgreSQL at db:5432/main/sync cannot be reached (ECONNREFUSED)',
  );
  pass(10_000);
  expect(outage.begin()(failure('ECONNREFUSED')), 'one more try, and no wait').toBe(false);
});

it('gives a new minute once the server has answered, or when the last failure is long past', () => {
  const { outage, pass } = begin();
  outage.begin()(failure('ECONNREFUSED'));
  pass(59_000);
  outage.answered('committed');
  expect(outage.begin()(failure('ECONNREFUSED'))).toBe(true);
  pass(59_000);
  expect(outage.begin()(failure('ECONNREFUSED'))).toBe(true);
  pass(61_000);
  expect(outage.begin()(failure('ECONNREFUSED'))).toBe(true);
});

it('ends no outage of refused writes by an answered read', () => {
  const { outage, pass } = begin();
  outage.begin()(failure('25006'));
  outage.answered('read');
  pass(59_999);
  const later = outage.begin();
  expect(later(failure('25006'))).toBe(true);
  pass(1);
  expect(later(failure('25006'))).toBe(false);
});

it('ends the wait of a caller whose connection is cut each time, while the server answers others', () => {
  const { outage, pass } = begin();
  const commit = outage.begin();
  for (let second = 0; second < 60; second += 1) {
    expect(commit(failure('08006'))).toBe(true);
    pass(1_000);
    outage.answered('committed');
  }
  expect(commit(failure('08006'))).toBe(false);
});

it('tells a server that is away, read-only, starting or without a free connection apart', () => {
  const shownOf = (code: string): readonly string[] => {
    const error = failure(code, 'what it says');
    return [awayText(error), String(toSinkError(error, 'db'))];
  };
  expect(shownOf('ECONNREFUSED')).toEqual([
    'cannot be reached (what it says)',
    'SyncError: PostgreSQL at db cannot be reached (what it says). Check the server and the network.',
  ]);
  expect(shownOf('25006')).toEqual([
    'is read-only (what it says)',
    'SyncError: PostgreSQL at db is read-only (what it says). Name the primary in the url, promote the standby, or set default_transaction_read_only to off.',
  ]);
  expect(shownOf('57P03')).toEqual([
    'is starting or stopping (what it says)',
    'SyncError: PostgreSQL at db is starting or stopping (what it says). Try again when it accepts connections.',
  ]);
  expect(shownOf('53300')).toEqual([
    'has no connection free (what it says)',
    'SyncError: PostgreSQL at db has no connection free (what it says). Raise max_connections or the limit of the user or database, or lower connections in the config.',
  ]);
});

// Proves promise 1.1
it('shows that a commit waits for a read-only server, and stores it when writes are allowed again', async () => {
  const postgres = await startPostgres();
  onTestFinished(async () => await postgres.stop());
  const bench = benchOfTest(await postgresSinkKindOn(postgres));
  const shown: (Away | null)[] = [];
  const told = { away: (): void => undefined };
  const isShown = new Promise<void>((resolve) => (told.away = resolve));
  const options = bench.kind.options(bench.folder);
  const sink = await openSink(options, {
    clock: bench.clock,
    onAway: (away) => {
      shown.push(away);
      told.away();
    },
  });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  // Of the next sessions: the sink gets new ones.
  const makeReadOnly = async (value: 'on' | 'off'): Promise<void> => {
    await client.query(`ALTER DATABASE postgres SET default_transaction_read_only = ${value}`);
    await client.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'connector-sync'`,
    );
  };
  await makeReadOnly('on');
  const storing = run.store();
  await isShown;
  await makeReadOnly('off');
  await storing;
  await client.end();
  expect(shown).toEqual([
    {
      message: expect.stringMatching(
        /^PostgreSQL at .* is read-only \(cannot execute .* in a read-only transaction\)$/,
      ),
      leftMs: expect.any(Number),
    },
    null,
  ]);
}, 60_000);
