import { describe, expect, it } from 'vitest';
import { derivedKinds, type DerivedKind, type DescribedTable } from '../../src/core/records.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import { listsTable, members, membersTable, onlyPartition, page, record } from '../contracts/sink/fixture.ts';
import { useBench } from '../contracts/sink/use-bench.ts';
import { at, comparable, values } from '../support/unpacked-values.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';

const kinds = { sqlite: sqliteKind, postgres: await postgresSinkKind() };
const asked = derivedKinds.filter((kind) => kind !== 'texts');
const column = (name: string, from: string, path: readonly string[], as: DerivedKind) => ({
  name,
  from: [from],
  path,
  as,
});
const described: readonly DescribedTable[] = [
  {
    entity: members,
    description: null,
    columns: {},
    derived: [
      ...asked.map((as) => column(`deep_${as.toLowerCase()}`, 'address', ["it's", 'v v'], as)),
      ...asked.map((as) => column(`whole_${as.toLowerCase()}`, 'anything', [], as)),
      ...asked.map((as) => column(`text_${as.toLowerCase()}`, 'name', [], as)),
      column('vip_text', 'vip', [], 'string'),
      column('visited_at', 'visits', [], 'unix'),
      column('in_text', 'name', ['no'], 'string'),
    ],
    joins: [],
  },
];

describe.each(['sqlite', 'postgres'] as const)('unpacked columns of the views of a %s sink', (type) => {
  const bench = useBench(kinds[type]);

  // Proves promise 20.12
  it('are values of their type, and null where the field has another', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', {
      tables: [listsTable, membersTable],
      described,
      isFull: true,
    });
    const { id: partition } = await onlyPartition(sink, started.lease);
    const records = values.map(([json], index) => {
      const text: unknown = JSON.parse(json);
      return record(membersTable, {
        list_id: 'a',
        id: String(index).padStart(3, '0'),
        address: `{"it's":{"v v":${json}}}`,
        anything: json,
        name: typeof text === 'string' && !text.includes('\0') ? text : null,
        vip: Number(index % 2 === 0),
        visits: index,
      });
    });
    await sink.commit(started.lease, [page(started, partition, records)]);
    await started.lease[Symbol.asyncDispose]();
    const rows = await bench().ledger('SELECT * FROM news__members_current ORDER BY id');
    expect(rows).toHaveLength(values.length);
    for (const [index, [json, wanted]] of values.entries()) {
      const row = rows[index] ?? {};
      const isText = row['name'] !== null;
      for (const as of asked.filter((one) => one !== 'string')) {
        const name = as.toLowerCase();
        expect(comparable(row[`deep_${name}`]), `${json} as ${as}`).toEqual(wanted[as] ?? null);
        expect(comparable(row[`whole_${name}`]), `whole ${json} as ${as}`).toEqual(wanted[as] ?? null);
        expect(comparable(row[`text_${name}`]), `text ${json} as ${as}`).toEqual(
          isText ? (wanted[as] ?? null) : null,
        );
      }
      if (isText) expect(row['deep_string']).toBe(row['name']);
      expect(row['text_string']).toBe(row['name']);
      expect(row['vip_text']).toBe(index % 2 === 0 ? 'true' : 'false');
      expect(comparable(row['visited_at'])).toBe(at(index));
    }
    expect(Object.keys(rows[0] ?? {})).not.toContain('in_text');
  });

  it('stand in the catalogue with their types and paths', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1', { tables: [listsTable, membersTable], described });
    await started.lease[Symbol.asyncDispose]();
    const rows = await bench().ledger(
      "SELECT type, description FROM _catalog_columns WHERE column_name IN ('deep_unixms', 'vip_text') ORDER BY position",
    );
    expect(rows).toEqual([
      { type: 'timestamp', description: "Made of address.it's.v v (in the view alone)" },
      { type: 'string', description: 'Made of vip (in the view alone)' },
    ]);
  });
});
