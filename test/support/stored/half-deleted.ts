import type { ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import type { Sink } from '../../../src/sinks/sink.ts';
import { list, listsAndMembers, membersOf, whole } from '../../contracts/sink/lists-and-members.ts';
import {
  entityReport,
  hourMs,
  identity,
  lists,
  member,
  members,
  page,
  report,
  type Bench,
} from '../../contracts/sink/fixture.ts';

export const halfDeleted = 'half-deleted' as ConnectorName;

/**
 * Of three lists one is left out of listings and one is deleted; the run was killed before the members of that one
 * were.
 */
export async function deleteHalf(bench: Bench, sink: Sink): Promise<void> {
  await using lease = await sink.acquire(identity({ connector: halfDeleted }));
  const walk = async (run: RunId, ids: readonly string[]): Promise<void> => {
    bench.clock.advance(hourMs);
    await sink.startRun(lease, bench.plan(run, { ...listsAndMembers, isFull: true }));
    for (;;) {
      const [next] = await sink.nextPartitions(lease, 1);
      if (next === undefined) return;
      const of = next.params['list_id'];
      const records = typeof of === 'string' ? [member(`of ${of}`)] : ids.map(list);
      const children = next.entity === lists ? ids.map((id) => membersOf(id)) : [];
      const { entity } = next;
      const seal = whole({ absence: 'get' });
      await sink.commit(lease, [page({ lease, run }, next.id, records, { entity, children, seal })]);
    }
  };
  const first = 'half-deleted-1' as RunId;
  await walk(first, ['kept', 'left out', 'deleted']);
  const entities = [lists, members].map((entity) => entityReport(entity, { fetched: 3, inserted: 3 }));
  await sink.finish(lease, first, report({ lease, run: first }, { connector: halfDeleted, entities }));
  const second = 'half-deleted-2' as RunId;
  await walk(second, ['kept']);
  while (!(await sink.deletes.sweep(lease, second, 100)).isDone);
  const asked = await sink.deletes.toConfirm(lease, second, lists, 9);
  const judgements = asked.map(({ row, keyText }) =>
    keyText === '["deleted"]'
      ? ({ row, verdict: 'gone' } as const)
      : ({ row, verdict: 'there', record: null, isUnlisted: true } as const),
  );
  await sink.deletes.judge(lease, second, lists, judgements);
  await sink.deletes.tombstone(lease, second, lists, 'all', 100);
}

/** The next run deletes the rest. Gives how many rows. */
export async function deleteRest(bench: Bench, sink: Sink): Promise<readonly [EntityName, number][]> {
  await using lease = await sink.acquire(identity({ connector: halfDeleted }));
  const run = 'half-deleted-3' as RunId;
  await sink.startRun(lease, bench.plan(run, listsAndMembers));
  const deleted: [EntityName, number][] = [];
  for (;;) {
    const batch = await sink.deletes.tombstoneBelow(lease, run, 100);
    if (batch.length === 0) return deleted;
    deleted.push(...batch.map(({ entity, rows }): [EntityName, number] => [entity, rows]));
  }
}
