import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import {
  type DescribedTable,
  type EntityTable,
  type PreparedRecord,
  derivedKinds,
  type DerivedKind,
} from '../../src/core/records.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import type { RunPlan } from '../../src/sinks/sink.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import {
  lists,
  listsTable,
  member,
  members,
  membersTable,
  news,
  record,
  resetScope,
  type LedgerRow,
} from '../contracts/sink/fixture.ts';
import { useBench } from '../contracts/sink/use-bench.ts';

type Wanted = Partial<Record<DerivedKind, unknown>>;

/** Databases round parts of a millisecond differently. */
const belowMs: unknown = expect.any(String);

/** JSON of a value, and what becomes of it as each type; what is not named becomes null. */
const values: readonly (readonly [json: string, Wanted])[] = [
  ['"2024-02-29T10:00:00+02:00"', { timestamp: '2024-02-29T08:00:00.000Z' }],
  ['"2024-02-29T10:00:00Z"', { timestamp: '2024-02-29T10:00:00.000Z' }],
  ['"2024-02-29T10:00:00.125Z"', { timestamp: '2024-02-29T10:00:00.125Z' }],
  ['"2024-02-29 10:00"', { timestamp: '2024-02-29T10:00:00.000Z' }],
  ['"2024-02-29"', { timestamp: '2024-02-29T00:00:00.000Z' }],
  ['"1969-12-31T23:59:59-01:30"', { timestamp: '1970-01-01T01:29:59.000Z' }],
  ...['+0000', '+00', ' +0000', ' UTC', 'UTC', ' GMT', 'Z', ''].map(
    (zone) =>
      [JSON.stringify(`2026-03-04 05:06:07${zone}`), { timestamp: '2026-03-04T05:06:07.000Z' }] as const,
  ),
  ['"2026-03-04T10:36:07.125+0530"', { timestamp: '2026-03-04T05:06:07.125Z' }],
  ['"2026-03-04T05:06:07,125Z"', { timestamp: '2026-03-04T05:06:07.125Z' }],
  ['"2026-03-04T05:06+00"', { timestamp: '2026-03-04T05:06:00.000Z' }],
  ['"2026-03-04T05:06 UTC"', { timestamp: '2026-03-04T05:06:00.000Z' }],
  ['"2026-03-04T05:06:07 CET"', {}],
  ...[
    '2023-02-29',
    '2024-04-31',
    '2024-13-01',
    '2024-01-00',
    '0000-01-01',
    '2024-1-1',
    '2024-01-01T24:00',
  ].map((text) => [JSON.stringify(text), {}] as const),
  ...['2024-01-01T10:60', '2024-01-01T10:00:61Z', 'now', 'yesterday', '', ' ', '12:00', '2024-01-01 now'].map(
    (text) => [JSON.stringify(text), {}] as const,
  ),
  ['"2024-01-01T10:00:00+99:00"', {}],
  ['"2024-01-01\'; DROP TABLE x; --"', {}],
  ['"infinity"', {}],
  ['7', { integer: 7, number: 7, unix: at(7), unixMs: at(0.007) }],
  ['"7"', { integer: 7, number: 7, unix: at(7), unixMs: at(0.007) }],
  ['1', { integer: 1, number: 1, boolean: 1, unix: at(1), unixMs: at(0.001) }],
  ['1.5', { number: 1.5, unix: at(1.5), unixMs: belowMs }],
  ['-12.50', { number: -12.5, unix: at(-12.5), unixMs: belowMs }],
  [
    '1700000000',
    { integer: 1_700_000_000, number: 1_700_000_000, unix: at(1_700_000_000), unixMs: at(1_700_000) },
  ],
  ['1e3', { number: 1000, unix: at(1000), unixMs: at(1) }],
  ['"007"', {}],
  ['"1-2"', {}],
  ['"٧"', {}],
  ['"1e999"', {}],
  ['9223372036854775807', { integer: 2 ** 63, number: 2 ** 63 }],
  ['9223372036854775808', { number: 2 ** 63 }],
  ['true', { boolean: 1 }],
  ['"false"', { boolean: 0 }],
  ['null', {}],
  ['{"a":1}', {}],
  ['[1]', {}],
  ['"x\\u0000y"', {}],
];

function at(seconds: number): string {
  return new Date(Math.round(seconds * 1000)).toISOString();
}

/** As this program writes times, whatever the database gives. */
function comparable(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'boolean') return Number(value);
  if (typeof value !== 'string') return typeof value === 'bigint' ? Number(value) : value;
  if (/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/.test(value)) return `${value.replace(' ', 'T')}Z`;
  return /^-?\d{1,19}$/.test(value) ? Number(value) : value;
}

const kinds = { sqlite: sqliteKind, postgres: await postgresSinkKind() };
const described: readonly DescribedTable[] = [
  {
    entity: members,
    description: 'People on a list',
    columns: { name: "How they're called" },
    derived: [
      { name: 'said', from: ['address', 'tags'], path: ['*', 'title', '*', 'plain_text'], as: 'texts' },
      { name: 'street', from: ['address'], path: ['street'], as: 'texts' },
      { name: 'name', from: ['address'], path: ['hidden'], as: 'texts' },
      { name: 'none', from: ['gone'], path: ['x'], as: 'texts' },
    ],
    joins: [{ columns: ['list_id'], parent: lists, parentColumns: ['id'] }],
  },
];

const runs = { tables: [listsTable, membersTable], isFull: true };

describe.each(['sqlite', 'postgres'] as const)('the views of a %s sink', (type) => {
  const bench = useBench(kinds[type]);

  /** A run that stores these records. */
  async function run(
    sink: Sink,
    id: string,
    records: readonly PreparedRecord[],
    change: Partial<RunPlan> = {},
  ) {
    const walk = await bench().walking(id, { ...runs, described, ...change }, { sink });
    await walk.commit(records);
    return walk;
  }

  async function once(...given: Parameters<typeof run>): Promise<void> {
    await (await run(...given)).release();
  }

  const columnsOf = async (view: string): Promise<readonly string[]> =>
    Object.keys((await bench().ledger(`SELECT * FROM ${view}`))[0] ?? {});

  /** Changes whenever a table, a view or the ledger does. */
  const schemaNow = async (): Promise<readonly LedgerRow[]> =>
    await bench().ledger(
      type === 'sqlite'
        ? 'SELECT schema_version AS version FROM pragma_schema_version'
        : `SELECT c.relname::text, c.xmin::text, c.oid::text FROM pg_class AS c WHERE relnamespace = current_schema()::regnamespace AND relkind = 'v' ORDER BY 1`,
    );

  // Proves promise 20.10
  it('show rows that are not deleted, without columns of the sink, and follow what a table gets', async () => {
    const sink = await bench().open();
    const started = await run(sink, 'r1', [member('1'), member('2')]);
    await sink.repair.tombstoneRecord(started.lease, started.run, members, '["a","2"]');
    await started.release();
    expect(await bench().ledger('SELECT id, name FROM news__members_current')).toEqual([
      { id: '1', name: 'Ada' },
    ]);
    const names = membersTable.columns.map(({ name }) => name);
    expect(await columnsOf('news__members_current')).toEqual([...names, 'said', 'street']);
    const before = await schemaNow();
    await once(sink, 'r2', []);
    expect(await schemaNow()).toEqual(before);
    const wider: EntityTable = {
      ...membersTable,
      columns: [
        ...membersTable.columns,
        { name: 'street', type: 'string' },
        { name: 'added', type: 'integer' },
      ],
    };
    await once(sink, 'r3', [record(wider, { list_id: 'a', id: '3', street: 'Main St', added: 5 })], {
      tables: [listsTable, wider],
    });
    expect(
      await bench().ledger("SELECT street, added FROM news__members_current WHERE id = '3'"),
    ).toMatchObject([{ street: 'Main St' }]);
    expect([...(await columnsOf('news__members_current'))].toSorted()).toEqual(
      [...names, 'said', 'street', 'added'].toSorted(),
    );
  });

  // Proves promise 20.10
  it('go with their table when its data is reset, and come again', async () => {
    const sink = await bench().open();
    await once(sink, 'r1', [member('1')]);
    for (const [index, entity] of [members, null].entries()) {
      await sink.repair.reset(news, resetScope({ entity, tables: [membersTable] }));
      await expect(bench().ledger('SELECT * FROM news__members_current')).rejects.toThrow(
        /no such table|does not exist/,
      );
      await once(sink, `again-${index}`, [member('1')]);
      expect(await bench().ledger('SELECT id FROM news__members_current')).toEqual([{ id: '1' }]);
    }
  });

  // Proves promise 20.10
  it('leave alone what another person has made, and take another name where a table has theirs', async () => {
    await (await bench().open())[Symbol.asyncDispose]();
    await bench().ledger('CREATE VIEW news__members_current AS SELECT 1 AS mine');
    const sink = await bench().open();
    await once(sink, 'r1', [member('1')]);
    expect(await bench().ledger('SELECT * FROM news__members_current')).toEqual([{ mine: 1 }]);
    expect(await bench().ledger('SELECT id FROM news__members__current')).toEqual([{ id: '1' }]);
    await bench().ledger('DROP VIEW news__members_current');
    const current: EntityTable = { ...membersTable, entity: 'members_current' as EntityName };
    await once(sink, 'r2', [member('2')], { tables: [listsTable, membersTable, current] });
    expect(await bench().ledger('SELECT id FROM news__members__current')).toHaveLength(2);
    expect(await bench().ledger('SELECT _seq FROM news__members_current')).toEqual([]);
    expect(await bench().ledger('SELECT id FROM news__members_current_current')).toEqual([]);
    expect(
      await bench().ledger(
        "SELECT table_name, view_name FROM _catalog_tables WHERE entity LIKE 'members%' ORDER BY 1",
      ),
    ).toEqual([
      { table_name: 'news__members', view_name: 'news__members__current' },
      { table_name: 'news__members_current', view_name: 'news__members_current_current' },
    ]);
  });

  // Proves promise 20.10
  it('take texts out of JSON, whatever stands in it', async () => {
    const sink = await bench().open();
    const spans = (...texts: readonly string[]) =>
      `[${texts.map((text) => `{"plain_text":${text}}`).join()}]`;
    const values: readonly (readonly [string | null, string | null])[] = [
      [`{"Name":{"type":"title","title":${spans('"Hello "', '"wörld"')}},"n":5,"s":"title"}`, null],
      [null, `[{"title":${spans('"from the second"')}}]`],
      [
        String.raw`{"a":{"title":${spans(String.raw`"x\u0000y"`)}},"b":{"title":${spans(String.raw`"\ud800\\u0000\\\ude00"`)}}}`,
        null,
      ],
      [
        String.raw`{"a":{"title":${spans(String.raw`"\ud83d"`, String.raw`"\\\\ud83d\u0000\u0000"`)}},"\u0000":1}`,
        null,
      ],
      [
        `{"a":{"title":"no array"},"b":{"title":{"plain_text":"x"}},"c":{"title":[1,null,[2],"t",{"plain_text":{"a":1}}]}}`,
        null,
      ],
      ['{"a":1e400000,"b":{"title":[{"plain_text":"😀"}]}}', null],
      ['{}', null],
      [null, '[]'],
    ];
    const records = values.map(([address, tags], index) =>
      record(membersTable, { list_id: 'a', id: `${index}`, address, tags }),
    );
    await once(sink, 'r1', records);
    const rows = await bench().ledger('SELECT id, said FROM news__members_current ORDER BY id');
    const said = rows.map((row) => row['said']);
    expect(
      said.map((text) => (typeof text === 'string' ? text.replaceAll(/[\0\ufffd]+/g, '?') : text)),
    ).toEqual([
      'Hello wörld',
      'from the second',
      String.raw`x?y?\u0000\?`,
      String.raw`?\\ud83d?`,
      null,
      '😀',
      null,
      null,
    ]);
    expect(await sink.history.connectors()).toHaveLength(1);
  });

  // Proves promise 20.10
  it('say what tables, columns and joins there are', async () => {
    const sink = await bench().open();
    await once(sink, 'r1', [member('1'), member('2')]);
    expect(await bench().ledger('SELECT * FROM _catalog_tables ORDER BY entity')).toMatchObject([
      { entity: 'lists', table_name: 'news__lists', description: null, key_columns: 'id', current_rows: 0 },
      {
        connector: 'news',
        entity: 'members',
        table_name: 'news__members',
        view_name: 'news__members_current',
        connector_type: 'email-marketing',
        description: 'People on a list',
        key_columns: 'list_id, id',
        current_rows: 2,
        as_of: null,
      },
    ]);
    expect(
      await bench().ledger('SELECT from_table, from_column, to_table, to_column FROM _catalog_joins'),
    ).toEqual([
      { from_table: 'news__members', from_column: 'list_id', to_table: 'news__lists', to_column: 'id' },
    ]);
    const columns = await bench().ledger(
      "SELECT * FROM _catalog_columns WHERE entity = 'members' ORDER BY position",
    );
    expect(
      columns.map((row) => [
        row['column_name'],
        row['type'],
        row['description'],
        Number(row['is_key']),
        Number(row['is_derived']),
      ]),
    ).toEqual([
      ...membersTable.columns.map(({ name, type: column }) => [
        name,
        column,
        name === 'name' ? "How they're called" : null,
        Number(membersTable.key.includes(name)),
        0,
      ]),
      ['said', 'string', 'Made of address, tags (in the view alone)', 0, 1],
      ['street', 'string', 'Made of address (in the view alone)', 0, 1],
    ]);
    await bench().read('r2', [], { sink, plan: { tables: [listsTable, membersTable] } });
    expect(
      await bench().ledger('SELECT * FROM _catalog_joins'),
      'kept by a run that says nothing',
    ).toHaveLength(1);
  });
});

describe('the views of a PostgreSQL sink that others are made of', () => {
  const bench = useBench(kinds.postgres);
  // Proves promise 20.10
  it('keep working and their rights, take new columns, and hold up a reset until the others are dropped', async () => {
    const sink = await bench().open();
    await bench().read('r1', [], { sink, plan: { ...runs, described } });
    await bench().ledger(
      `CREATE VIEW mine AS SELECT said FROM news__members_current; GRANT SELECT ON news__members_current TO PUBLIC`,
    );
    const wider: EntityTable = {
      ...membersTable,
      columns: [...membersTable.columns, { name: 'added', type: 'integer' }],
    };
    const tables = [listsTable, wider];
    await bench().read('r2', [], { sink, plan: { ...runs, described, tables } });
    expect(await bench().ledger('SELECT added FROM news__members_current')).toEqual([]);
    expect(
      await bench().ledger(
        `SELECT has_table_privilege('pg_monitor', 'news__members_current', 'SELECT') AS may`,
      ),
    ).toEqual([{ may: true }]);
    const [described0] = described;
    const other = described0 === undefined ? [] : [{ ...described0, derived: [] }];
    await bench().read('r3', [], { sink, plan: { ...runs, described: other, tables } });
    expect(await bench().ledger('SELECT * FROM mine')).toEqual([]);
    const what = resetScope({ entity: members, tables: [membersTable] });
    await expect(sink.repair.reset(news, what)).rejects.toThrow(/Views of your own are made of it/);
    await bench().ledger('DROP VIEW mine');
    await sink.repair.reset(news, what);
    expect(await bench().ledger(`SELECT to_regclass('news__members_current') AS view`)).toEqual([
      { view: null },
    ]);
  });
});

describe('unpacked views', () => {
  const asked = derivedKinds.filter((kind) => !['texts', 'date', 'decimal'].includes(kind));
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
        column('day', 'name', [], 'date'),
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
      await bench().read('r1', records, { plan: { ...runs, described } });
      const rows = await bench().ledger('SELECT * FROM news__members_current ORDER BY id');
      expect(rows).toHaveLength(values.length);
      const days = rows.flatMap((row) => (row['day'] === null ? [] : [row['name']]));
      expect(days).toContain('2024-02-29');
      expect(days).not.toContain('2023-02-29');
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
      await bench().read('r1', [], { plan: { ...runs, described } });
      const rows = await bench().ledger(
        "SELECT type, description FROM _catalog_columns WHERE column_name IN ('deep_unixms', 'vip_text') ORDER BY position",
      );
      expect(rows).toEqual([
        { type: 'timestamp', description: "Made of address.it's.v v (in the view alone)" },
        { type: 'string', description: 'Made of vip (in the view alone)' },
      ]);
    });
  });
});
