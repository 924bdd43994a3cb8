import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copyBetween } from '../../../src/app/copy-connector.ts';
import type { ConnectorName } from '../../../src/core/names.ts';
import type { PageCounts, PreparedRecord } from '../../../src/core/records.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import type { Sink } from '../../../src/sinks/sink.ts';
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
import { deleteHalf } from './half-deleted.ts';
import { seededRandom } from '../seeded-random.ts';
import { stoppingSink } from '../sinks/copying.ts';
import { hostileText } from '../sinks/hostile-texts.ts';

export const odd = 'odd-texts' as ConnectorName;
export const half = 'half-copied' as ConnectorName;
export const away = 'copied-away' as ConnectorName;

/** Keys and texts that storing may get wrong, and long ones: the same every time. */
export function oddRecords(rows: number): readonly PreparedRecord[] {
  const random = seededRandom(rows);
  return Array.from({ length: rows }, (_, index) =>
    member(
      `${index} ${hostileText(random)}`,
      hostileText(random, 30) + 'ü\0'.repeat(index % 50 === 7 ? 3_000 : 0),
      {
        extra: index % 3 === 0 ? JSON.stringify({ wide: hostileText(random), odd: '\ud800' }) : null,
      },
    ),
  );
}

/** One run that reads these members, and ends. Gives what it counted. */
export async function walkMembers(
  bench: Pick<Bench, 'clock' | 'plan'>,
  sink: Sink,
  { connector, run, records }: { connector: ConnectorName; run: string; records: readonly PreparedRecord[] },
): Promise<PageCounts> {
  await using lease = await sink.acquire(identity({ connector }));
  await sink.startRun(lease, bench.plan(run, { isFull: true }));
  const started = { lease, run: run as Started['run'] };
  const { id } = await onlyPartition(sink, lease);
  const refused = {
    entity: members,
    reason: 'key-missing' as const,
    detail: 'no \0 id',
    record: JSON.stringify({ odd: '\0\uE000' }),
  };
  const drift = [{ entity: members, field: 'o"d\0d', kind: 'undeclared' as const, type: 'string' as const }];
  const [stored] = await sink.commit(lease, [
    page(started, id, records, { refused: [refused], fetched: records.length + 1, drift, seal: sealed }),
  ]);
  const counts = stored?.counts[0]?.counts;
  if (counts === undefined) throw new Error('nothing was counted');
  const entities = [entityReport(members, counts)];
  await sink.finish(lease, started.run, report(started, { connector, entities }));
  return counts;
}

const signal = new AbortController().signal;
const copying = { from: { name: 'one' }, to: { name: 'two' }, onProgress: () => undefined, signal };

/** What only hands do: odd texts, a pause, a copy that was broken off and one that left. */
export async function workByHand(bench: Bench, sink: Sink): Promise<void> {
  await walkMembers(bench, sink, { connector: odd, run: 'odd-1', records: oddRecords(60) });
  await deleteHalf(bench, sink);
  await sink.pause([odd], { since: '2026-03-01T11:00:00.000Z', reason: 'moving \0 house' });
  if (bench.kind.options(bench.folder).type === 'jsonl') return;
  const elsewhere = mkdtempSync(join(tmpdir(), 'elsewhere-'));
  const path = join(elsewhere, 'other.db');
  const { clock } = bench;
  const other = await openSink({ type: 'sqlite', name: 'other', path, durability: 'normal' }, { clock });
  await walkMembers(bench, other, { connector: half, run: 'half-1', records: oddRecords(300) });
  const stop = new Error('stopped');
  await copyBetween(other, stoppingSink(sink, 4, stop), { ...copying, connector: half, clock }).catch(
    (error: unknown) => {
      if (error !== stop) throw error;
    },
  );
  await walkMembers(bench, sink, { connector: away, run: 'away-1', records: oddRecords(5) });
  await copyBetween(sink, other, { ...copying, connector: away, clock });
  await other[Symbol.asyncDispose]();
  rmSync(elsewhere, { recursive: true });
}
