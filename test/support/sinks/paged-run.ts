import { expect } from 'vitest';
import { noCounts } from '../../../src/core/records.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { Sink, SinkOptions } from '../../../src/sinks/sink-access.ts';
import {
  entityReport,
  identity,
  member,
  members,
  onlyPartition,
  page,
  report,
  sealed,
  type Bench,
  type Started,
} from '../../contracts/sink/fixture.ts';

export const rowsPerPage = 5;

/**
 * A run of one partition that is stored page by page, each of five new records; one that another run left resumes where
 * that was.
 */
export class PagedRun {
  readonly #bench: Bench;
  readonly #sink: Sink;
  readonly #started: Started;
  readonly #id: number;
  #stored: number;

  private constructor(bench: Bench, sink: Sink, started: Started, { id, position }: Partition) {
    this.#bench = bench;
    this.#sink = sink;
    this.#started = started;
    this.#id = id;
    this.#stored = Number(position?.['offset'] ?? 0) / rowsPerPage;
  }

  static async begin(bench: Bench, sink: Sink): Promise<PagedRun> {
    const lease = await sink.acquire(identity());
    const plan = bench.plan(`r${lease.epoch}`);
    await sink.startRun(lease, plan);
    return new PagedRun(bench, sink, { lease, run: plan.run }, await onlyPartition(sink, lease));
  }

  /** Stores the next page, and expects that its records are counted as new. */
  async store(isLast = false): Promise<void> {
    const first = this.#stored * rowsPerPage;
    const records = Array.from({ length: rowsPerPage }, (_, row) => member(String(first + row)));
    const position = { kind: 'offset' as const, offset: first + rowsPerPage };
    const [committed] = await this.#sink.commit(this.#started.lease, [
      page(this.#started, this.#id, records, { position, seal: isLast ? sealed : null }),
    ]);
    const counted = { ...noCounts, fetched: rowsPerPage, inserted: rowsPerPage };
    expect(committed?.counts[0]?.counts).toEqual(counted);
    this.#stored += 1;
  }

  /** Gives the connector back in the middle of the run. */
  async giveUp(): Promise<void> {
    await this.#started.lease[Symbol.asyncDispose]();
  }

  /**
   * Seals the partition with a last page, ends the run, and expects every record once, with a number of its own, and no
   * other holder.
   */
  async finish(): Promise<void> {
    await this.store(true);
    const rows = this.#stored * rowsPerPage;
    const entities = [entityReport(members, { fetched: rows, inserted: rows })];
    await this.#sink.finish(this.#started.lease, this.#started.run, report(this.#started, { entities }));
    await this.#sink[Symbol.asyncDispose]();
    const stored = await this.#bench.rows();
    expect(stored).toHaveLength(rows);
    expect(new Set(stored.map(({ _seq }) => _seq)).size, 'no number twice').toBe(rows);
    expect(await this.#bench.ledger('SELECT epoch FROM _sync_leases'), 'nobody took it').toEqual([
      { epoch: 1 },
    ]);
  }
}

/** The bench's sink, asked for at another address. */
export function atHost(
  { kind, folder }: Pick<Bench, 'kind' | 'folder'>,
  { host, port }: { readonly host: string; readonly port: number },
): Extract<SinkOptions, { type: 'postgres' }> {
  const options = kind.options(folder);
  if (options.type !== 'postgres') throw new TypeError('The kind should be PostgreSQL');
  return { ...options, connection: { ...options.connection, hosts: [{ host, port }] } };
}

/** Asked for at another port of loopback. */
export function atPort(
  bench: Pick<Bench, 'kind' | 'folder'>,
  port: number,
): Extract<SinkOptions, { type: 'postgres' }> {
  return atHost(bench, { host: '127.0.0.1', port });
}
