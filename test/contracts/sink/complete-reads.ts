import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { EntityStatus } from '../../../src/sinks/ledger-reader.ts';
import { hourMs, lists, members, type SinkKind } from './fixture.ts';
import type { RunInHand } from './run-in-hand.ts';
import { list, membersOf, beginLists } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** What is known of when an entity was last read completely. */
export function completeReads(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  async function twoLists() {
    const sinkOf = await bench().hold();
    const shown = async (): Promise<readonly (string | null)[]> => {
      const entities = (await sinkOf.sink.history.connectors())[0]?.entities ?? [];
      const at = (name: string): EntityStatus | undefined => entities.find(({ entity }) => entity === name);
      return [at(lists)?.lastCompleteReadAt ?? null, at(members)?.lastCompleteReadAt ?? null];
    };
    const begin = async (run: string, isFull = false): Promise<RunInHand> =>
      await beginLists(bench(), sinkOf, run, { isFull });
    const now = (): string => instant(bench().clock.now());
    return { shown, begin, now };
  }

  const found = (ids: readonly string[]) => ({
    records: ids.map(list),
    children: ids.map((id) => membersOf(id)),
  });

  // Proves promise 11.3
  everywhere('does not count an entity as read completely while one of its listings never was', async () => {
    const { shown, begin, now } = await twoLists();
    const first = await begin('r1');
    await first.read(null, { ...found(['a', 'b']), seal: null });
    await first.read('a');
    await first.read('b');
    expect(await shown(), 'the lists may still lead to other members').toEqual([null, null]);
    await first.read(null, found(['c']));
    expect(await shown()).toEqual([now(), null]);
    await first.finish('interrupted');
    expect(await shown()).toEqual([now(), null]);
    const next = await begin('r2');
    const earlier = instant(bench().clock.now() - hourMs);
    await next.read('c');
    expect(await shown(), 'as old as the listing read longest ago').toEqual([earlier, earlier]);
  });

  // Proves promise 11.3
  it('shows the complete read before while listings are read again, and where new ones are not read yet', async () => {
    const { shown, begin, now } = await twoLists();
    const first = await begin('r1');
    await first.read(null, found(['a', 'b']));
    await first.read('a');
    await first.read('b');
    await first.finish();
    const before = now();
    expect(await shown()).toEqual([before, before]);
    const again = await begin('r2', true);
    expect(await shown()).toEqual([before, before]);
    await again.read(null, found(['a', 'b']));
    await again.read('a');
    const againAt = now();
    expect(await shown(), 'one is as old as before').toEqual([now(), before]);
    await again.finish('interrupted');
    const third = await begin('r3', true);
    await third.read('b');
    await third.finish();
    const fourth = await begin('r4');
    await fourth.read(null, found(['a', 'b', 'c']));
    expect(await shown(), 'a new listing takes nothing from what a chain has read whole').toEqual([
      now(),
      againAt,
    ]);
  });
}
