import { fork, type ChildProcess } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { noCounts } from '../../../src/core/records.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import {
  entityReport,
  identity,
  member,
  members,
  sealed,
  type Bench,
  type Walking,
} from '../../contracts/sink/fixture.ts';
import { testProgram } from '../ensure-built.ts';
import { startPostgresProxy, type Passing } from '../postgres-proxy.ts';

export const rowsPerPage = 5;

/**
 * A run of one partition that is stored page by page, each of five new records; one that another run left resumes where
 * that was.
 */
export class PagedRun {
  readonly #bench: Bench;
  readonly #walk: Walking;
  #stored: number;

  private constructor(bench: Bench, walk: Walking) {
    this.#bench = bench;
    this.#walk = walk;
    this.#stored = Number(walk.position?.['offset'] ?? 0) / rowsPerPage;
  }

  static async begin(bench: Bench, sink: Sink): Promise<PagedRun> {
    const lease = await sink.acquire(identity());
    return new PagedRun(bench, await bench.walking(`r${lease.epoch}`, {}, { sink, lease }));
  }

  /** Stores the next page, and expects that its records are counted as new. */
  async store(isLast = false): Promise<void> {
    const first = this.#stored * rowsPerPage;
    const records = Array.from({ length: rowsPerPage }, (_, row) => member(String(first + row)));
    const position = { kind: 'offset' as const, offset: first + rowsPerPage };
    const committed = await this.#walk.commit(records, { position, seal: isLast ? sealed : null });
    const counted = { ...noCounts, fetched: rowsPerPage, inserted: rowsPerPage };
    expect(committed.counts[0]?.counts).toEqual(counted);
    this.#stored += 1;
  }

  /** Gives the connector back in the middle of the run. */
  async giveUp(): Promise<void> {
    await this.#walk.release();
  }

  /**
   * Seals the partition with a last page, ends the run, and expects every record once, with a number of its own, and no
   * other holder.
   */
  async finish(): Promise<void> {
    await this.store(true);
    const rows = this.#stored * rowsPerPage;
    const entities = [entityReport(members, { fetched: rows, inserted: rows })];
    await this.#walk.finish({ entities });
    await this.#walk.sink[Symbol.asyncDispose]();
    const stored = await this.#bench.rows();
    expect(stored).toHaveLength(rows);
    expect(new Set(stored.map(({ _seq }) => _seq)).size, 'no number twice').toBe(rows);
    expect(await this.#bench.ledger('SELECT epoch FROM _sync_leases'), 'nobody took it').toEqual([
      { epoch: 1 },
    ]);
  }
}

type PostgresOptions = Extract<SinkOptions, { type: 'postgres' }>;

/** The options of a bench whose kind is PostgreSQL. */
export function postgresOptions({ kind, folder }: Pick<Bench, 'kind' | 'folder'>): PostgresOptions {
  const options = kind.options(folder);
  if (options.type !== 'postgres') throw new TypeError('The kind should be PostgreSQL');
  return options;
}

/** Asked for at another port of loopback. */
export function atPort(bench: Pick<Bench, 'kind' | 'folder'>, port: number): PostgresOptions {
  const options = postgresOptions(bench);
  return { ...options, connection: { ...options.connection, hosts: [{ host: '127.0.0.1', port }] } };
}

/** A sink of the bench that is asked for elsewhere, and closed with the test. */
export async function openAt(bench: Bench, options: SinkOptions, signal?: AbortSignal): Promise<Sink> {
  const sink = await openSink(options, { clock: bench.clock, ...(signal === undefined ? {} : { signal }) });
  onTestFinished(async () => await sink[Symbol.asyncDispose]());
  return sink;
}

/** The same behind a proxy, which asks `rule` for every connection. */
export async function openBehindProxy(
  bench: Bench,
  rule: (() => Passing) | null = null,
  signal?: AbortSignal,
) {
  const proxy = await startPostgresProxy(postgresOptions(bench).connection.hosts[0]?.port ?? 0);
  onTestFinished(() => proxy.close());
  proxy.rule(rule);
  return { proxy, sink: await openAt(bench, atPort(bench, proxy.port), signal) };
}

/** One page that a host has stored, or why it ended. */
export interface Told {
  readonly kind: 'stored' | 'failed';
  readonly epoch: number;
  readonly page?: number;
  readonly code?: string;
}

/** A host that walks the bench's connector when it gets it, with a clock that is so far ahead. */
export function startHost(bench: Bench, told: Told[], aheadMs = 0): ChildProcess {
  const program = testProgram('sinks/postgres/host-process.mjs');
  const child = fork(program, [JSON.stringify(postgresOptions(bench)), String(aheadMs)]);
  child.on('message', (message) => told.push(message as Told));
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

export async function until(is: () => boolean): Promise<void> {
  while (!is()) await pause(5);
}
