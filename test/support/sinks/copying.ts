import type { CopyEnd } from '../../../src/app/copy-connector.ts';
import type { ConnectorName } from '../../../src/core/names.ts';
import { accessSink } from '../../../src/sinks/registry.ts';
import type { CopyHow } from '../../../src/sinks/requests.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import {
  identity,
  member,
  members,
  news,
  opens,
  partition,
  sealed,
  type Bench,
  type SinkKind,
} from '../../contracts/sink/fixture.ts';
import { hostileText } from './hostile-texts.ts';

/** Ways between the two databases: a title, the source and the target. */
export function copyWays(postgres: SinkKind): readonly (readonly [string, SinkKind, SinkKind])[] {
  return [
    ['from SQLite to PostgreSQL', sqliteKind, postgres],
    ['from PostgreSQL to SQLite', postgres, sqliteKind],
  ];
}

/** From one open sink into another. */
export async function copyNews(
  from: Sink,
  to: Pick<Sink, 'copies'>,
  onProgress: CopyHow['onProgress'] = () => undefined,
  connector = news,
): Promise<CopyEnd> {
  return await from.copies.into(to.copies, {
    connector,
    from: 'warehouse',
    to: 'pg',
    holder: { ...identity().holder, command: 'connector-sync copy news' },
    onProgress,
    signal: new AbortController().signal,
  });
}

/** Runs and partitions of another connector, whose numbers are taken then. */
export async function beginAnother(bench: Bench): Promise<void> {
  const sink = await bench.open();
  for (const number of [1, 2, 3]) {
    await using lease = await sink.acquire(identity({ connector: 'another' as ConnectorName }));
    const roots = [partition(members, { list_id: String(number) })];
    await sink.startRun(lease, bench.plan(`another-${number}`, { roots, choices: String(number) }));
  }
}

/** A run that ended, with several batches of rows, and one that was killed after its first page. */
export async function fillWithNews(bench: Bench, rows: number, random: () => number): Promise<void> {
  const { sink, commit, finish, release } = await bench.walking('r1');
  const records = Array.from({ length: rows }, (_, index) =>
    member(`${index} ${hostileText(random)}`, hostileText(random, 30), {
      extra: index % 3 === 0 ? JSON.stringify({ wide: hostileText(random), odd: '\ud800' }) : null,
    }),
  );
  const refused = {
    entity: members,
    reason: 'key-missing' as const,
    detail: 'no \0 id',
    record: JSON.stringify({ odd: '\0\uE000' }),
  };
  const drift = [{ entity: members, field: 'o"d\0d', kind: 'undeclared' as const, type: 'string' as const }];
  await commit(records, { refused: [refused], fetched: rows + 1, drift, seal: sealed });
  await finish();
  await release();
  const failed = {
    connector: news,
    kind: 'failed',
    subject: '',
    since: '2026-03-01T10:00:00.000Z',
    detail: '{}',
  };
  await sink.notices.update([news], () => ({ stored: [failed], dropped: [], messages: [] }));
  bench.clock.advance(1_000);
  const killed = await bench.walking('r2', { isFull: true }, { sink });
  await killed.commit(records.slice(0, 5));
  await killed.release();
  await sink.pause([news], { since: '2026-03-01T11:00:00.000Z', reason: 'moving \0 house' });
}

/** The same sink. A copy into it ends with `stop` in front of step `at` of its transactions, or behind it. */
export function stoppingSink({ copies }: Sink, at: number, stop: Error): Pick<Sink, 'copies'> {
  const { ledger } = copies;
  let steps = 0;
  const step = (): void => {
    steps += 1;
    if (steps === at) throw stop;
  };
  const take: typeof ledger.take = async (...given) => {
    const taken = await ledger.take(...given);
    return {
      ...taken,
      transact: async (...asked) => {
        step();
        const result = await taken.transact(...asked);
        step();
        return result;
      },
    };
  };
  return { copies: { ...copies, ledger: { ...ledger, take } } };
}

/** By entity. */
export async function tableIds({ kind, folder }: Bench): Promise<readonly unknown[]> {
  await using reader = await accessSink(kind.options(folder)).openRecords();
  return [await reader.tableId(news, members), await reader.tableId(news, opens)];
}
