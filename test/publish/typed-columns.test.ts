import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { ColumnValue, DerivedColumn, DescribedTable, EntityTable } from '../../src/core/records.ts';
import type { Entity } from '../../src/definitions/definition.ts';
import { openDuckdbTarget } from '../../src/publish/duckdb-target.ts';
import { manifestFormat, readManifest, manifestText } from '../../src/publish/manifest.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import { planPublication, writeEntity } from '../../src/publish/publication.ts';
import type { Target } from '../../src/publish/target.ts';
import { kindsOf } from '../../src/publish/typed-columns.ts';
import type { PublishSettings } from '../../src/settings/settings.ts';
import type { StoredRecord } from '../../src/sinks/readings.ts';
import type { RecordReader } from '../../src/sinks/sink-access.ts';
import { news } from '../contracts/sink/fixture.ts';
import { it } from '../support/it.ts';
import { useMart } from '../support/publish/mart.ts';
import { run1, stored } from '../support/publish/plans.ts';
import { askDuckdbFile, duckdb, literal } from '../support/publish/read-tables.ts';
import { tableHow, untilEnd } from '../support/publish/stored-model.ts';

const { open: openMart, placeOf } = useMart();

const entity = 'things' as EntityName;
const table: EntityTable = {
  entity,
  columns: [
    { name: 'id', type: 'string' },
    { name: 'at', type: 'string' },
    { name: 'seen', type: 'number' },
    { name: 'day', type: 'string' },
    { name: 'price', type: 'string' },
    { name: 'tags', type: 'any' },
    { name: 'changed', type: 'string' },
  ],
  key: ['id'],
};
const derivedOf = (name: string, from: string, as: DerivedColumn['as']): DerivedColumn => {
  return { name, from: [from], path: [], as };
};
const incremental = { kind: 'since', field: 'changed', sinceParam: 'since', lookbackMs: 1_000 };
const derived = [
  derivedOf('id_utc', 'id', 'timestamp'),
  derivedOf('at_utc', 'at', 'timestamp'),
  derivedOf('seen_utc', 'seen', 'unix'),
  derivedOf('born_on', 'day', 'date'),
  derivedOf('price_exact', 'price', 'decimal'),
];
// The members that name its columns.
const definition = { derived, incremental, explodedTable: null } as unknown as Entity;

const described: DescribedTable = {
  entity,
  description: "Things: all of a shop's",
  columns: { at: 'When: ISO 8601', price: 'In euros' },
  derived: [
    ...derived,
    { name: 'tag', from: ['tags'], path: ['a'], as: 'string' },
    { name: 'words', from: ['tags'], path: ['*'], as: 'texts' },
  ],
  joins: [],
};

/** Column, what came, what the column has, and what `_extra` has: null where the value fits. */
const values: readonly (readonly [string, ColumnValue, string | null, string | null])[] = [
  ['at', '2026-03-01T10:30:00.123456+02:00', '2026-03-01 08:30:00.123456+00', null],
  ['at', '2026-03-01 08:30:00 UTC', '2026-03-01 08:30:00+00', null],
  ['at', '2026-03-01', '2026-03-01 00:00:00+00', null],
  ['at', '0001-01-01T00:00:00Z', '0001-01-01 00:00:00+00', null],
  ['at', '9999-12-31T23:59:59.999999Z', '9999-12-31 23:59:59.999999+00', null],
  ['at', '1969-12-31T23:59:59.5Z', '1969-12-31 23:59:59.5+00', null],
  ['at', '', null, null],
  ['at', '2026-02-30', null, '"2026-02-30"'],
  ['at', '0000-01-01T00:00:00Z', null, '"0000-01-01T00:00:00Z"'],
  ['at', '0001-01-01T00:00:00+01:00', null, '"0001-01-01T00:00:00+01:00"'],
  ['at', 'infinity', null, '"infinity"'],
  ['at', '2026-03-01T08:30:60Z', null, '"2026-03-01T08:30:60Z"'],
  ['at', "'; DROP TABLE x; \0", null, String.raw`"'; DROP TABLE x; \u0000"`],
  [
    'at',
    '2026-03-01T08:30:00.123456789Z',
    '2026-03-01 08:30:00.123456+00',
    '"2026-03-01T08:30:00.123456789Z"',
  ],
  ['changed', '2026-03-01T08:30:00.100000000Z', '2026-03-01 08:30:00.1+00', null],
  ['seen', 1772353800.25, '2026-03-01 08:30:00.25+00', null],
  ['seen', -1, '1969-12-31 23:59:59+00', null],
  ['seen', 1e300, null, '1e+300'],
  ['day', '2024-02-29', '2024-02-29', null],
  ['day', '2026-02-29', null, '"2026-02-29"'],
  ['day', '2026-03-01T00:00:00Z', null, '"2026-03-01T00:00:00Z"'],
  ['price', '-12.50', '-12.5', null],
  ['price', '0.000000001', '0.000000001', null],
  ['price', '1e3', '1000', null],
  ['price', '0', '0', null],
  ['price', '100000000', '100000000', null],
  ['price', '99999999999999999999999999999.999999999', '99999999999999999999999999999.999999999', null],
  ['price', '100000000000000000000000000000', null, '"100000000000000000000000000000"'],
  ['price', '0.0000000001', null, '"0.0000000001"'],
  ['price', 'NaN', null, '"NaN"'],
  ['tags', '{"a":12345678901234567890}', '{"a":12345678901234567890}', null],
  ['tags', String.raw`["\\u0000","51e00921"]`, String.raw`["\\u0000","51e00921"]`, null],
  ['tags', String.raw`["x\u0000y"]`, null, String.raw`["x\u0000y"]`],
  ['tags', '[1e99999]', null, '[1e99999]'],
];

const records: readonly StoredRecord[] = values.map(([column, value], index) => ({
  isDeleted: false,
  seq: index + 1,
  changedAt: '2026-03-01T10:00:00.000Z',
  run: run1.run,
  values: table.columns.map(({ name }) => (name === 'id' ? id(index) : name === column ? value : null)),
  extra: index % 2 === 0 ? '{"more":1}' : null,
}));

function id(index: number): string {
  return `k${String(index).padStart(2, '0')}`;
}

/** Publishes the rows, and gives the numbers of misfits by column. */
async function publish(own: Target, isTyped: boolean) {
  const newest = await own.newest();
  const kinds = kindsOf(definition, table);
  const connector = stored({
    newestSeq: records.length,
    declared: [entity],
    entities: [{ table, tableId: 'table-1', asOf: null, isColliding: false, kinds, described }],
  });
  const plan = planPublication(
    newest?.manifest ?? null,
    { sinkId: 'sink-1', connectors: [connector], removed: [] },
    { target: 'desk', layout: own.layout, isTyped, isNewGenerationAsked: false, snapshot: null },
  );
  await using publication = await own.begin(plan.publication);
  const [one] = plan.entities;
  if (one === undefined) throw new Error('nothing is planned');
  const changes = async function* (): AsyncGenerator<readonly StoredRecord[]> {
    yield await Promise.resolve(records);
  };
  const misfits = new Map<string, number>();
  const reader = { changes } as unknown as RecordReader;
  const written = await writeEntity(publication, one, {
    reader,
    signal: untilEnd,
    onProgress: undefined,
    misfits,
  });
  const { table: _table, kinds: _kinds, described: _text, isNewGeneration: _isNew, ...planned } = one.planned;
  const { manifest } = readManifest(
    manifestText({
      format: manifestFormat,
      publication: plan.publication,
      previous: newest && { publication: newest.manifest.publication, sha256: newest.sha256 },
      sink: 'sink-1',
      createdAt: '2026-03-01T10:00:00.000Z',
      by: { program: 'test', host: 'here' },
      entities: [{ ...planned, ...written }],
    }),
  );
  await publication.commit(manifest);
  return { misfits: Object.fromEntries(misfits), reason: one.reason };
}

const misfits: Record<string, number> = {};
for (const [column, , , extra] of values) {
  const name = `${news}/things.${column}`;
  if (extra !== null) misfits[name] = (misfits[name] ?? 0) + 1;
}

/** `_extra` of the rows, in their order. */
const extras = values.map(([column, , , extra], index) => {
  const members = [
    ...(index % 2 === 0 ? ['"more":1'] : []),
    ...(extra === null ? [] : [`"${column}":${extra}`]),
  ];
  return members.length === 0 ? null : `{${members.join(',')}}`;
});

/** The typed value of each row as its database shows it, and `_extra`; `select`: of a column. */
const shownSql = (from: string, json: string): string =>
  `SELECT CASE id ${values
    .map(
      ([column], index) =>
        `WHEN '${id(index)}' THEN ${column === 'tags' ? json : `CAST("${column}" AS text)`}`,
    )
    .join(' ')} END AS shown, CAST(_extra AS text) AS extra FROM ${from} ORDER BY id`;

/** Decimals have nine digits after the point. */
const padded = (column: string, text: string | null): string | null =>
  column !== 'price' || text === null ? text : Number(text) === 0 ? '0.000000000' : padFraction(text);

function padFraction(text: string): string {
  const [whole = '', fraction = ''] = text.split('.');
  return `${whole}.${fraction.padEnd(9, '0')}`;
}

const duckdbShown = values.map(([column, , shown], index) => ({
  shown: padded(column, shown),
  extra: extras[index],
}));

describe('columns with types', () => {
  it('are those of PostgreSQL, and a value that does not fit stays in _extra', async ({ folder }) => {
    await using mart = await openMart(folder);
    expect(await publish(mart.target, true)).toEqual({ misfits, reason: null });
    await mart.ask("SET timezone = 'UTC'");
    const types = await mart.ask(
      `SELECT string_agg(format_type(atttypid, NULL), ', ' ORDER BY attnum) AS types FROM pg_attribute WHERE attrelid = 'news__things'::regclass AND attnum BETWEEN 1 AND 7`,
    );
    const time = 'timestamp with time zone';
    expect(types[0]?.['types']).toBe(`text, ${time}, ${time}, date, numeric, jsonb, ${time}`);
    const jsonb = (text: string | null): string | null => text?.replaceAll(/([:,])(?=\S)/g, '$1 ') ?? null;
    expect(await mart.ask(shownSql('news__things', 'tags::text'))).toEqual(
      values.map(([column, , shown], index) => ({
        shown: column === 'tags' ? jsonb(shown) : shown,
        extra: extras[index],
      })),
    );
  });

  it('are those of DuckDB', async ({ folder }) => {
    const path = join(folder, 'desk.duckdb');
    await using target = openDuckdbTarget({ path }, tableHow);
    expect(await publish(target, true)).toEqual({ misfits, reason: null });
    const types = await askDuckdbFile(path, 'SELECT column_type FROM (DESCRIBE news.things) LIMIT 7');
    const time = 'TIMESTAMP WITH TIME ZONE';
    expect(types.map((row) => row['column_type'])).toEqual([
      'VARCHAR',
      time,
      time,
      'DATE',
      'DECIMAL(38,9)',
      'JSON',
      time,
    ]);
    expect(
      await askDuckdbFile(path, `SET TimeZone = 'UTC'; ${shownSql('news.things', 'CAST(tags AS text)')}`),
    ).toEqual(duckdbShown);
  });

  it('are logical types of Parquet', async ({ folder }) => {
    const settings = { type: 'files', directory: folder, format: 'parquet' } as unknown as PublishSettings;
    await using target = await openTarget(settings, { clock: systemClock, signal: untilEnd });
    expect(await publish(target, true)).toEqual({ misfits, reason: null });
    const parts = join(folder, news, 'things', 'g1', 'changes');
    const file = `read_parquet(${literal(join(parts, readdirSync(parts)[0] ?? ''))})`;
    const time = 'TIMESTAMP WITH TIME ZONE';
    const types = await duckdb(`SELECT column_type FROM (DESCRIBE SELECT * FROM ${file}) LIMIT 7`);
    expect(types.map((row) => row['column_type'])).toEqual([
      'VARCHAR',
      time,
      time,
      'DATE',
      'DECIMAL(38,9)',
      'JSON',
      time,
    ]);
    await duckdb("SET TimeZone = 'UTC'");
    expect(await duckdb(shownSql(file, 'CAST(tags AS text)'))).toEqual(duckdbShown);
  });

  it('have their descriptions and a view of current rows, with the columns that the definition adds', async ({
    folder,
  }) => {
    const sql = (view: string): string => `SELECT id, extract(hour FROM at_utc) AS hour, born_on, tag, words
      FROM ${view} WHERE id IN ('k00', 'k18', 'k30', 'k31') ORDER BY id`;
    const expected = [
      ['k00', '8', null, null, null],
      ['k18', null, '2024-02-29', null, null],
      ['k30', null, null, '12345678901234567890', null],
      ['k31', null, null, null, String.raw`\u000051e00921`],
    ];
    const lists = (rows: readonly object[]): unknown =>
      rows.map((row) =>
        Object.values(row).map((value: string | number | bigint | null) => value?.toString() ?? null),
      );
    await using mart = await openMart(folder);
    await publish(mart.target, true);
    await mart.ask("SET timezone = 'UTC'");
    expect(lists(await mart.ask(sql('news__things_current')))).toEqual(expected);
    const [said] = await mart.ask(`SELECT obj_description('news__things'::regclass) AS records,
        col_description('news__things'::regclass, 5) AS price, obj_description('news__things_current'::regclass) AS view`);
    const { description: records, columns } = described;
    const view = expect.stringMatching(/^Made by connector-sync: rows of news\/things that are not deleted/);
    expect(said).toEqual({ records, price: columns['price'], view });
    // Another type of a column replaces the view too.
    await publish(mart.target, false);
    expect(await mart.ask('SELECT "at" FROM news__things_current WHERE id = \'k07\'')).toEqual([
      { at: '2026-02-30' },
    ]);

    const path = join(folder, 'desk.duckdb');
    await using target = openDuckdbTarget({ path }, tableHow);
    await publish(target, true);
    const zone = "SET TimeZone = 'UTC'; ";
    expect(lists(await askDuckdbFile(path, `${zone}${sql('news__things_current')}`))).toEqual(expected);
    const comments = await askDuckdbFile(
      path,
      `SELECT comment FROM duckdb_tables() WHERE table_name = 'things' UNION ALL SELECT comment FROM duckdb_columns() WHERE column_name = 'price' AND table_name = 'things' ORDER BY 1`,
    );
    expect(comments.map((row) => row['comment'])).toEqual([columns['price'], records]);
  });

  it('are those of the sink with times: text, and replace them with a generation that names them', async ({
    folder,
  }) => {
    await using mart = await openMart(folder);
    expect(await publish(mart.target, false)).toEqual({ misfits: {}, reason: null });
    const came = await mart.ask(`SELECT "at" FROM news__things WHERE id IN ('k00', 'k07') ORDER BY id`);
    expect(came.map((row) => row['at'])).toEqual(['2026-03-01T10:30:00.123456+02:00', '2026-02-30']);
    await using again = await openTarget({ ...placeOf(folder), keepMs: null } as unknown as PublishSettings, {
      clock: systemClock,
      signal: untilEnd,
    });
    const { reason } = await publish(again, true);
    expect(reason).toBe(
      'its column at was string and is now timestamp, its column seen was number and is now timestamp, its column day was string and is now date, its column price was string and is now decimal, its column tags was any and is now json, its column changed was string and is now timestamp',
    );
    const [row] = await mart.ask(`SELECT "at" AT TIME ZONE 'UTC' AS "at" FROM news__things WHERE id = 'k00'`);
    expect(row).toEqual({ at: '2026-03-01 08:30:00.123456' });
  });
});
