import { expect, it } from 'vitest';
import type { PreparedRecord } from '../../../src/core/records.ts';
import { counts, member, members, onlyPartition, page, type SinkKind } from './fixture.ts';
import { useBench } from './use-bench.ts';

/** `member` as a record that was not parsed: it has its key and its hashes. Notes in `parsed` that it was. */
function unparsed(id: string, name: string, parsed: string[]): PreparedRecord {
  const whole = member(id, name);
  return {
    ...whole,
    values: whole.values.map((value, index) => (index < 2 ? value : null)),
    whole: () => {
      parsed.push(`${id} ${name}`);
      return whole;
    },
  };
}

export function sameBytes(kind: SinkKind): void {
  const bench = useBench(kind);

  it('parses a record that was not parsed where it is written after all, and only there', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const parsed: string[] = [];
    await sink.commit(started.lease, [page(started, id, [member('1'), member('2'), member('3')])]);
    await sink.repair.tombstoneRecord(started.lease, started.run, members, member('3').keyText);
    const records = [
      unparsed('1', 'Ada', parsed),
      unparsed('2', 'Bea', parsed),
      unparsed('3', 'Ada', parsed),
      unparsed('4', 'Dora', parsed),
    ];
    const [committed] = await sink.commit(started.lease, [page(started, id, records)]);
    expect(committed?.counts).toEqual([
      { entity: members, counts: counts({ fetched: 4, inserted: 1, updated: 2, duplicate: 1 }) },
    ]);
    expect(parsed).toEqual(['2 Bea', '3 Ada', '4 Dora']);
    expect((await bench().rows()).map(({ id: key, name }) => [key, name])).toEqual([
      ['1', 'Ada'],
      ['2', 'Bea'],
      ['3', 'Ada'],
      ['4', 'Dora'],
    ]);
  });

  it('refuses all pages where parsing gives a record of another key', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    const other = { ...member('1'), whole: () => member('2') };
    await expect(
      sink.commit(started.lease, [page(started, id, [member('3')]), page(started, id, [other])]),
    ).rejects.toMatchObject({ code: 'INTERNAL' });
    expect(await bench().rows()).toEqual([]);
  });
}
